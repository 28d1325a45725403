"""Questions about images from files and scenes: grouped by image, chosen, prepared, and refused in one line."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.corpora.containers import (
    Builtin,
    Csv,
    Jsonl,
    Tsv,
)
from heedful.config.reading.load import recipe_from_json
from heedful.data.builtin.scenes import HELD_OUT
from heedful.data.corpora.images import AskedImage, read_asked_images
from heedful.data.prepare.images import prepare_image_questions

ROWS = [("a.png", "what ?", "x", "one"), ("b.png", "what ?", "y", "one"), ("a.png", "is it ?", "yes", "two")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate("ab"):
        Image.fromarray(np.full((8, 8, 3), 100 * number, np.uint8)).save(tmp_path / f"{name}.png")
    lines = ["path,q,a,k", *(",".join(row) for row in ROWS)]
    (tmp_path / "q.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "q.tsv").write_text("".join("\t".join(row) + "\n" for row in ROWS))
    rows = [dict(zip(("image", "question", "answer", "kind"), row, strict=True)) for row in ROWS]
    (tmp_path / "q.jsonl").write_text("\n\n".join(json.dumps(row) for row in rows))
    return tmp_path


def _told(asked: Sequence[AskedImage]) -> list[tuple[str, str, str, str]]:
    return [
        (Path(each.image.where).name, question.question, question.answer, question.kind)
        for each in asked
        for question in each.questions
    ]


def test_all_forms_give_the_questions_of_an_image_together(folder: Path) -> None:
    corpora = (
        Csv(csv="q.csv", image="path", question="q", answer="a", group="k"),
        Tsv(tsv="q.tsv", image=1, question=2, answer=3, group=4),
        Jsonl(jsonl="q.jsonl", image="image", group="kind"),
    )
    for corpus in corpora:
        read = [*read_asked_images(corpus, str(folder))]
        assert len(read) == 2
        assert _told(read) == [ROWS[0], ROWS[2], ROWS[1]]
    plain = Tsv(tsv="q.tsv", image=1, question=2, answer=3, lines="2-3")
    assert _told([*read_asked_images(plain, str(folder))]) == [(*ROWS[1][:3], ""), (*ROWS[2][:3], "")]


def test_parts_are_chosen_by_image(folder: Path) -> None:
    parts = [
        _told([*read_asked_images(Tsv(tsv="q.tsv", image=1, question=2, answer=3, part=part), str(folder))])
        for part in ("0/2", "1/2")
    ]
    assert sorted(len(part) for part in parts) in ([0, 3], [1, 2])
    assert len({row[0] for part in parts for row in part}) == 2


def test_training_scenes_never_ask_for_a_pair_that_is_held_out() -> None:
    pairs = [f"{colour} {shape}" for shape, colour in HELD_OUT]
    for part in ("train", "valid", "test"):
        corpus = Builtin(builtin="scenes", questions=4, count=200, part=part)
        read = [question for asked in read_asked_images(corpus) for question in asked.questions]
        asked = [question for question in read if any(pair in question.question for pair in pairs)]
        assert bool(asked) == (part == "test")
        assert {question.kind for question in read} == {
            "colour", "shape", "size", "number", "presence", "place", "neighbour"
        }  # fmt: skip
    few = Builtin(builtin="scenes", questions=1, count=5)
    assert [len(asked.questions) for asked in read_asked_images(few)] == [1] * 5


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (("a.png", "what ?", " "), "q.tsv, line 1 has no answer: every question needs one."),
        (("a.png", " ", "x"), "q.tsv, line 1: the question is empty: give one, or remove the row."),
        (("", "what ?", "x"), "q.tsv, line 1 has no path of an image: give one, or remove the row."),
        (("c.png", "what ?", "x"), "c.png, which is not a file."),
    ],
)
def test_a_row_that_lacks_something_is_refused(row: tuple[str, ...], why: str, folder: Path) -> None:
    (folder / "q.tsv").write_text("\t".join(row) + "\n")
    with pytest.raises(UserError, match=re.escape(why) + "$"):
        [*read_asked_images(Tsv(tsv="q.tsv", image=1, question=2, answer=3), str(folder))]


def _recipe(folder: Path, **data: Any) -> Any:
    table = {"tsv": "q.tsv", "image": 1, "question": 2, "answer": 3}
    encoder = {"family": "convolutional", "width": 4, "stages": 2, "depth": 1}
    model = {"family": "image_answerer", "encoder": encoder, "question": {"family": "recurrent", "width": 4}}
    data = {"folder": str(folder), "train": [table], **data}
    return recipe_from_json({"data": data, "model": model, "tokenizer": {"kind": "word"}}, "it")


def test_answers_are_classes_and_one_that_training_never_has_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
    (folder / "valid.tsv").write_text("a.png\twhat ?\tz\n")
    valid = {"tsv": "valid.tsv", "image": 1, "question": 2, "answer": 3}
    said: list[str] = []
    prepared = prepare_image_questions(_recipe(folder, valid=[valid]), said.append)
    assert prepared.vocabularies.labels == ("x", "y", "yes")
    (train,), (other,) = prepared.train, prepared.valid
    assert [train.streams["label"][row].tolist() for row in range(2)] == [[0, 2], [1]]
    assert train.streams["lengths"].lengths().tolist() == [2, 1]
    assert other.streams["label"].values.tolist() == [3]
    assert said[-1] == "valid.tsv: 1 image, 1 question, 1 answer that training never has"
    again = prepare_image_questions(_recipe(folder, valid=[valid]), said.append, prepared.vocabularies)
    assert again.train[0].key == train.key
    with refuses("...valid.tsv, line 1 has the answer `z`, which the model does not know..."):
        prepare_image_questions(_recipe(folder, train=[valid]), given=prepared.vocabularies)
    with refuses("`data.train` has the answer `z` alone, but there must be two to choose..."):
        prepare_image_questions(_recipe(folder, train=[valid]))
    (folder / "q.tsv").write_text("\n")
    with refuses("q.tsv has no question to use."):
        prepare_image_questions(_recipe(folder))
