"""Captions from every form of corpus, and their stores: images decoded once, however many captions they have."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.data.batches.images import ImageCollator
from heedful.data.builtin.scenes import scenes
from heedful.data.corpora.images import read_captioned
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.tasks.caption.data import CaptionCollator, CaptionStore, prepare_captions

ROWS = [("b.png", "two cats"), ("a.png", "a dog"), ("b.png", "cats"), ("a.png", " ")]


def recipe_of(train: dict[str, Any], **data: Any) -> Recipe:
    encoder = {"family": "convolutional", "width": 4, "stages": 2, "depth": 1}
    return recipe_from_json(
        {
            "data": {"train": [train], "valid": [train], **data},
            "tokenizer": {"kind": "word"},
            "model": {"family": "captioner", "encoder": encoder, "decoder": {"family": "recurrent", "width": 4}},
        },
        "recipe",
    )


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number, name in enumerate(("a.png", "b.png")):
        Image.fromarray(np.full((8 + 4 * number, 8, 3), 50 + number, np.uint8)).save(tmp_path / name)
    (tmp_path / "t.tsv").write_text("".join(f"{path}\t{caption}\n" for path, caption in ROWS))
    (tmp_path / "t.csv").write_text("path,caption\n" + "".join(f'{path},"{caption}"\n' for path, caption in ROWS))
    grouped = [("b.png", ["two cats", "cats"]), ("a.png", ["a dog", " "])]
    lines = [json.dumps({"path": path, "said": captions}) for path, captions in grouped]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    "form",
    [
        {"tsv": "t.tsv", "image": 1, "caption": 2},
        {"csv": "t.csv", "image": "path", "caption": "caption"},
        {"jsonl": "t.jsonl", "image": "path", "caption": "said"},
    ],
)
def test_all_captions_of_an_image_come_together_in_the_order_of_first_rows(photos: Path, form: dict[str, Any]) -> None:
    recipe = recipe_of(form)
    found = [*read_captioned(recipe.data.train[0], str(photos))]
    assert [(Path(str(one.image.source)).name, *one.captions) for one in found] == [
        ("b.png", "two cats", "cats"),
        ("a.png", "a dog", ""),
    ]
    assert all(line > 0 for one in found for line in one.lines)


def test_a_scene_has_its_sentence() -> None:
    corpus = recipe_of({"builtin": "scenes", "count": 3, "lines": "2-3"}).data.train[0]
    assert [one.captions[0] for one in read_captioned(corpus)] == [scene.sentence for scene in scenes("train", 3)][1:]


def test_a_part_chooses_images_with_all_their_captions(photos: Path) -> None:
    form = {"tsv": "t.tsv", "image": 1, "caption": 2}
    halves = [
        [one.captions for one in read_captioned(recipe_of({**form, "part": part}).data.train[0], str(photos))]
        for part in ("0/2", "1/2")
    ]
    assert sorted([*halves[0], *halves[1]]) == [("a dog", ""), ("two cats", "cats")]


def test_images_are_stored_once_and_captions_name_them(photos: Path) -> None:
    told: list[str] = []
    recipe = recipe_of({"tsv": "t.tsv", "image": 1, "caption": 2}, folder=str(photos), max_length=1)
    prepared = prepare_captions(recipe, told.append)
    train, valid = prepared.train[0], prepared.valid[0]
    assert isinstance(train, CaptionStore)
    assert isinstance(valid, CaptionStore)
    assert len(train.images) == 2
    assert train.streams["picture"].values.tolist() == [0]  # of three captions with text, one is short enough
    assert valid.streams["picture"].values.tolist() == [0, 0, 1]
    assert "t.tsv: 1 caption of 2 images, dropped 1 blank, 2 longer than `data.max_length` (1 tokens)" in told
    again: list[str] = []
    prepare_captions(recipe, again.append)
    assert not any(line.startswith(("decoding", "tokenizing", "training")) for line in again)


def test_a_batch_has_an_image_for_each_caption(photos: Path) -> None:
    prepared = prepare_captions(recipe_of({"tsv": "t.tsv", "image": 1, "caption": 2}, folder=str(photos)))
    collator, rows = CaptionCollator(ImageCollator(4, False)), np.array([2, 0, 1])
    tokens, patches = collator.costs(prepared.train, rows)
    assert tokens.tolist() == [3, 3, 2]
    assert patches.tolist() == [4, 6, 6]
    batch = collator.batch(prepared.train, rows)
    assert batch.source.layout.lengths.tolist() == [4, 6, 6]
    assert [int(pixels[0, 0, 0, 0]) for pixels in batch.source.by_run()] == [50, 51]
    assert batch.target.values[batch.target.layout.offsets[:-1].long()].tolist() == [BEGIN] * 3
    assert [row[-1] for row in batch.labels_of_rows()] == [END] * 3
    text = prepared.vocabularies["text"]
    assert [text.decode(row[:-1]) for row in batch.labels_of_rows()] == ["a dog", "two cats", "cats"]
    assert batch.target_tokens == 8


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ('{"path": "none.png", "said": "a"}', r"t\.jsonl, line 1 names the image .*none\.png, which is not a file\."),
        ('{"path": " ", "said": "a"}', r"t\.jsonl, line 1 has no path of an image:"),
        (
            '{"path": "a.png", "said": []}',
            r"t\.jsonl, line 1: field `said` is an empty list, but",
        ),
        ('{"path": "a.png", "said": [3]}', r"t\.jsonl, line 1: field `said` is a number, but must be text\."),
        (
            '{"path": "a.png", "said": " "}',
            r"^There is no caption to train a tokenizer on in t\.jsonl: it has none, or all are blank\.$",
        ),
    ],
)
def test_what_is_not_a_caption_is_refused(photos: Path, lines: str, why: str) -> None:
    (photos / "t.jsonl").write_text(lines + "\n")
    recipe = recipe_of({"jsonl": "t.jsonl", "image": "path", "caption": "said"}, folder=str(photos))
    with pytest.raises(UserError, match=why):
        prepare_captions(recipe)


def test_a_corpus_without_a_usable_caption_is_refused(photos: Path) -> None:
    recipe = recipe_of({"tsv": "t.tsv", "image": 1, "caption": 2}, folder=str(photos), max_line=1)
    with refuses("...no caption to train a tokenizer on..."):
        prepare_captions(recipe)
    known = prepare_captions(recipe_of({"tsv": "t.tsv", "image": 1, "caption": 2}, folder=str(photos))).vocabularies
    with refuses("t.tsv has no caption to use: dropped 1 blank, 3 longer than `data.max_line`..."):
        prepare_captions(recipe, given=known)
