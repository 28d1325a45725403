"""Rules for recipes of classifiers of images: what is refused, and in which words."""

from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe

SCENES = {"builtin": "scenes"}


def _recipe(
    encoder: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **tables: dict[str, Any]
) -> Recipe:
    table = {"family": "image_classifier", "encoder": {"family": "vit", **(encoder or {})}, **(model or {})}
    return recipe_from_json({**tables, "data": {"train": [SCENES], **tables.get("data", {})}, "model": table}, "it")


def test_a_preset_has_the_published_shape() -> None:
    table: Any = _recipe({"preset": "base"}).model
    encoder = table.encoder
    assert (encoder.width, encoder.heads, encoder.layers, encoder.inner, encoder.patch) == (768, 12, 12, 3072, 16)
    assert (encoder.norm, encoder.activation, encoder.grid) == ("pre", "gelu", 14)
    assert table.pooled_by == "first"


def test_without_a_class_token_the_mean_of_all_patches_is_taken() -> None:
    table: Any = _recipe({"class_token": False}).model
    assert table.pooled_by == "mean"


def test_one_side_is_enough_for_square_images() -> None:
    assert _recipe(data={"images": {"height": 28}}).data.images.size == (28, 28)
    assert _recipe(data={"images": {"width": 20, "height": 10}}).data.images.size == (10, 20)
    assert _recipe().data.images.size is None


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (
            {"encoder": {"class_token": False}, "model": {"pool": "first"}},
            '`pool` is "first", the state of the class token, but there is none: leave it out, or use "mean" or "max".',
        ),
        (
            {"encoder": {"class_token": False, "class_position": True}},
            "`class_position` is that of the class token, but there is none: leave it out.",
        ),
        (
            {"encoder": {"stem": "convolutions", "patch": 12}},
            '`patch` must be a power of two with `stem = "convolutions"`, but is 12.',
        ),
        (
            {"encoder": {"positions": "sinusoidal", "width": 6}},
            "`width` must be a multiple of 4 for sinusoidal positions, but is 6.",
        ),
        (
            {"encoder": {"alignment": "area"}},
            '`alignment = "area"` scores places in a sentence, not patches: choose another.',
        ),
        (
            {"model": {"pool": {"alignment": "area"}}},
            '`pool.alignment = "area"` scores adjacent words, not patches: choose another.',
        ),
        (
            {"encoder": {"positions": "rope"}},
            '`model.encoder.positions` is "rope", but must be "learned" or "sinusoidal".',
        ),
        (
            {"data": {"images": {"height": 224, "width": 224}, "batch_tokens": 196}},
            "`data.batch_tokens` is 196, but an image of 224 x 224 pixels has 197 patches: raise it.",
        ),
        (
            {"data": {"max_length": 100}},
            "`data.max_length` applies to texts, and a classifier of images reads none: leave it out.",
        ),
        (
            {"tokenizer": {"kind": "word"}},
            "`tokenizer` applies to texts, and a classifier of images reads none: leave it out.",
        ),
        (
            {"data": {"train": [{**SCENES, "to": "de"}]}},
            "`to` is the target ...",
        ),
        ({"data": {"cut": "middle"}}, "`data.cut` does not apply to a classifier of images: leave it out."),
        ({"train": {"auxiliary": 0.5}}, "`train.auxiliary` does not apply to a classifier of images: leave it out."),
        (
            {"data": {"train": [{"tsv": "a.tsv", "text": 1, "label": 2}]}},
            "`data.train` does not fit `model.family`: it learns from images with labels: give a folder "
            '(`images`), a table with `image` and `label`, `idx` and `labels`, `npz`, or `builtin = "scenes"`.',
        ),
        (
            {"data": {"train": [{"csv": "a.csv", "image": 1, "label": 1}]}},
            "`image` and `label` are both 1, but must be different.",
        ),
    ],
)
def test_what_does_not_fit_images_is_refused(made: dict[str, Any], why: str) -> None:
    with refuses(f"...{why}"):
        _recipe(**made)


def test_a_classifier_of_texts_does_not_take_the_keys_of_images() -> None:
    texts = {"train": [{"tsv": "a.tsv", "text": 1, "label": 2}]}
    for table, key in (
        ({"data": {**texts, "images": {"max_pixels": 5}}}, "data.images"),
        (
            {"data": texts, "train": {"augmentation": {"flip": True}}},
            "train.augmentation",
        ),
    ):
        with refuses(f"...`{key}` does not apply to a classifier: leave it out."):
            recipe_from_json({**table, "model": {"family": "classifier"}}, "it")
