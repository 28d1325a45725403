"""Rules for recipes of captioners: what is refused, and in which words."""

from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.config.recipe import Recipe

RECURRENT = {"family": "recurrent", "width": 32}


def _recipe(
    decoder: dict[str, Any] | None = None,
    encoder: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    train: dict[str, Any] | None = None,
    **tables: dict[str, Any],
) -> Recipe:
    table = {
        "family": "captioner",
        "encoder": encoder or {"family": "vit"},
        "decoder": decoder or RECURRENT,
        **(model or {}),
    }
    data = {"train": [train or {"builtin": "scenes"}], **tables.pop("data", {})}
    return recipe_from_json({**tables, "data": data, "model": table}, "it")


@pytest.mark.parametrize("decoder", [RECURRENT, {"family": "transformer", "preset": "small"}])
def test_a_recipe_is_the_same_after_it_was_written_and_read(decoder: dict[str, Any]) -> None:
    recipe = _recipe(decoder, {"family": "convolutional", "positions": "sinusoidal"})
    assert recipe.rules.name == "caption"
    assert recipe_from_json(recipe_to_json(recipe), "it") == recipe


@pytest.mark.parametrize(
    "train",
    [
        {"tsv": "a.tsv", "image": 1, "caption": 2},
        {"csv": "a.csv", "image": "path", "caption": "text"},
        {"jsonl": "a.jsonl", "image": "path", "caption": "captions"},
        {"builtin": "scenes"},
    ],
)
def test_every_form_of_captions_is_taken(train: dict[str, Any]) -> None:
    assert _recipe(train=train).data.train[0].frozen_kind.endswith(("Captions", "Pictures"))


def test_a_number_or_a_name_of_a_column_says_whether_there_is_a_header() -> None:
    assert not _recipe(train={"csv": "a", "image": 1, "caption": 2}).data.train[0].has_header
    assert _recipe(train={"csv": "a", "image": 1, "caption": "text"}).data.train[0].has_header


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (
            {"decoder": {**RECURRENT, "window": "monotone"}},
            '`decoder.window = "monotone"` moves along a sentence, not over patches: leave it out.',
        ),
        (
            {"decoder": {**RECURRENT, "alignment": "location", "max_places": 9}},
            '`decoder.alignment = "location"` scores places in a sentence, not patches: choose another.',
        ),
        (
            {"decoder": {"family": "transformer", "alignment": "area"}},
            '`decoder.alignment = "area"` scores places in a sentence, not patches: choose another.',
        ),
        (
            {"decoder": {**RECURRENT, "bidirectional": False}},
            "`decoder.bidirectional` applies to a recurrent encoder, but this one reads images: leave it out.",
        ),
        (
            {"decoder": {**RECURRENT, "tie": "none"}},
            "`tie` belongs to the whole model: move it out of `decoder`.",
        ),
        (
            {"decoder": {"family": "transformer", "norm": "deepnorm"}},
            '`decoder.norm` is "deepnorm", whose constants are ...',
        ),
        (
            {"decoder": {**RECURRENT, "embedding": 8}, "model": {"tie": "decoder"}},
            '`tie` must be "none" where the decoder\'s embeddings (8) are not as wide as its states (32), but is '
            '"decoder".',
        ),
        (
            {"decoder": {**RECURRENT, "alignment": "dot"}},
            '"dot" compares the decoder\'s states (32 wide) with the memory (192) directly',
        ),
        (
            {"encoder": {"family": "convolutional", "width": 6, "positions": "sinusoidal"}},
            "`width` must be a multiple ... 6.",
        ),
        (
            {"decoder": {"family": "transformer", "positions": "learned", "max_positions": 20}},
            "`data.max_length` (256) and an end marker must fit into `model.decoder.max_positions`, but that is 20.",
        ),
        (
            {"data": {"images": {"height": 64}, "batch_tokens": 8}},
            "`data.batch_tokens` is 8, but an image of 64 x 64 pixels has 17 patches: raise it.",
        ),
        (
            {"train": {"builtin": "scenes", "label": "shape"}},
            "`data.train.label` is for classifiers; a captioner learns the sentence of a scene: leave it out.",
        ),
        (
            {"train": {"csv": "a", "image": 1, "label": 2}},
            "`data.train` does not fit `model.family`: a captioner learns from images with captions: give a table "
            'with `image` and `caption`, or `builtin = "scenes"`.',
        ),
        (
            {"train": {"csv": "a", "image": 1, "caption": 1}},
            "`image` and `caption` are both 1, but must be different",
        ),
        ({"decode": {"mbr": 8}}, "`decode.mbr` applies to translators only: leave it out."),
        ({"evaluate": {"detokenize": True}}, "`evaluate.detokenize` applies to translators only: leave it out."),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(made: dict[str, Any], why: str) -> None:
    with refuses(f"...{why}..."):
        _recipe(**made)


REWARDED = '`choice = "reinforce"` rewards patches in the recurrent decoder of a captioner: use "hard" or "gumbel" here'


@pytest.mark.parametrize(
    "model",
    [
        {"family": "captioner", "decoder": {"family": "transformer", "choice": "reinforce"}},
        {"family": "recurrent", "choice": "reinforce"},
        {"family": "transformer", "choice": "reinforce"},
    ],
)
def test_only_recurrent_decoders_of_captioners_learn_by_reward(model: dict[str, Any]) -> None:
    train = {"builtin": "scenes"} if model["family"] == "captioner" else {"source": "a", "target": "b"}
    with refuses(f"...{REWARDED}..."):
        recipe_from_json({"data": {"train": [train]}, "model": model}, "it")


@pytest.mark.parametrize(("key", "value"), [("r_drop", 1.0), ("distill", {"teacher": "runs/teacher"})])
def test_two_passes_over_drawn_patches_are_refused(key: str, value: object) -> None:
    table = {"family": "captioner", "decoder": {**RECURRENT, "choice": "reinforce"}}
    values = {"data": {"train": [{"builtin": "scenes"}]}, "model": table, "train": {key: value}}
    why = f'`train.{key}` compares two passes, but `model.decoder.choice = "reinforce"` draws other patches in each'
    with refuses(f"...{why}..."):
        recipe_from_json(values, "it")


def test_mixtures_of_images_are_refused() -> None:
    table = {"family": "captioner", "decoder": RECURRENT}
    values = {"data": {"train": [{"builtin": "scenes"}]}, "model": table, "train": {"augmentation": {"mixup": 0.2}}}
    with refuses("...`train.augmentation.mixup` mixes classes, which captions are not: leave..."):
        recipe_from_json(values, "it")
