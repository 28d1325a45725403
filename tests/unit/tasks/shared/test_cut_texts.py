"""Texts that are longer than a model with one output reads are cut, which Python, JSON and the page tell."""

import json
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.cli.main import run
from heedful.data.corpora.texts import Text
from heedful.explain.pages.page import explorer_page

BUNDLES = Path("tests/golden/bundles")
CLASSIFIERS = sorted(path.name for path in BUNDLES.glob("classifier-*") if path.is_dir())
LONG, SHORT = "the film was great . " * 400, "the film was great ."


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classification_says_whether_its_text_was_cut(name: str) -> None:
    model: Any = heedful.load(BUNDLES / name)
    seconds = ([SHORT] * 3,) if model.paired else ()
    assert [one.cut for one in model.classify([LONG, "", SHORT], *seconds)] == [True, False, False]
    assert [model.explain(text, *(side[0] for side in seconds)).cut for text in (LONG, SHORT)] == [True, False]


def test_a_text_of_exactly_the_length_that_is_read_is_not_cut() -> None:
    model = heedful.TextClassifier.load(BUNDLES / "classifier-transformer")
    room, encode = model.recipe.data.max_length - 2, model.vocabularies["text"].encode_batch
    texts = [" ".join(["film"] * count) for count in range(1, room + 3)]
    lengths = [len(ids) for ids in encode(texts)]
    assert min(lengths) <= room < max(lengths)
    assert [one.cut for one in model.classify(texts)] == [length > room for length in lengths]


def test_a_regressor_tells_it_to_who_asks() -> None:
    model = heedful.TextRegressor.load(BUNDLES / "regressor-bag")
    told: list[bool] = []
    assert len([*model.stream_texts(map(Text, (SHORT, LONG)), tell_cut=told.append)]) == 2
    assert told == [False, True]


@pytest.mark.parametrize(("verb", "name"), [("classify", "classifier-bag"), ("regress", "regressor-bag")])
def test_the_command_says_it_once_and_in_every_object(
    verb: str, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text(f"{LONG}\n\n{SHORT}\n{LONG}\n")
    longest = heedful.load(BUNDLES / name).recipe.data.max_length
    assert run([verb, str(BUNDLES / name), str(tmp_path / "texts.txt"), "--json"]) == 0
    shown = capfd.readouterr()
    rows = [json.loads(line) for line in shown.out.splitlines() if line.strip()]
    assert [row.get("cut") for row in rows if row["text"].strip()] == [True, None, True]
    assert (
        f"2 of 4 texts were longer than the model reads ({longest:,} tokens), and were cut at the end: "
        "`data.max_length` of the recipe decides that." in " ".join(shown.err.split())
    )
    assert run([verb, str(BUNDLES / name), "--text", SHORT]) == 0
    assert "cut" not in capfd.readouterr().err


def test_the_page_says_it() -> None:
    model = heedful.TextClassifier.load(BUNDLES / "classifier-bag")
    assert '"cut": true' in explorer_page([model.explain(LONG)], "m").replace('":t', '": t')
    assert '"cut"' not in json.dumps(model.explain(SHORT).to_json())
