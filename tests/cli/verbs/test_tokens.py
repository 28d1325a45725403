"""`heedful tokens` as a user sees it."""

import json
from pathlib import Path

import pytest
from tests.models.text import (
    classifier_recipe,
    film_texts,
    fresh_classifier,
    fresh_masked_model,
    masked_recipe,
    write_tsv,
    written,
)

from heedful.cli.main import run
from heedful.tasks.translate.model import Translator

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))


def test_a_line_has_the_pieces_and_the_ids_of_a_text(
    reversing_folder: Path, reversing: Translator, capsys: Capture
) -> None:
    assert run(["tokens", str(reversing_folder), "ant bee", "--text", "", "--text", "zebra"]) == 0
    ids = reversing.vocabularies["source"].encode("ant bee")
    assert capsys.readouterr().out == f"ant bee\t{ids[0]} {ids[1]}\n\t\n<unk>\t3\n"
    assert run(["tokens", str(reversing_folder), "ant bee", "--side", "target", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"text": "ant bee", "pieces": ["ant", "bee"], "ids": ids}


def test_a_recipes_tokenizer_is_trained_where_there_is_none(tmp_path: Path, capsys: Capture) -> None:
    write_tsv(tmp_path / "train.tsv", [("pos", "good film"), ("neg", "bad film")])
    recipe = tmp_path / "my.toml"
    recipe.write_text(
        f'[data]\nfolder = "{tmp_path}"\ntrain = {{ tsv = "train.tsv", label = 1, text = 2 }}\n'
        '[tokenizer]\nkind = "word"\n[model]\nfamily = "classifier"\n'
    )
    assert run(["tokens", str(recipe), "good bad ugly"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("good bad <unk>\t")
    assert "heedful: training the tokenizer: word" in shown.err
    assert run(["tokens", str(recipe), "good bad ugly", "-q"]) == 0
    assert capsys.readouterr() == (shown.out, "")


def test_a_batch_of_pairs_is_shown_with_markers_and_labels(reversing_folder: Path, capsys: Capture) -> None:
    assert run(["tokens", str(reversing_folder), "--batch", "--json", "-q"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["row"] for row in rows] == list(range(1, 41))
    for row in rows:
        words = row["source"]["pieces"][:-1]
        assert row["source"]["pieces"] == [*words, "</s>"]
        assert row["target"]["pieces"] == ["<s>", *reversed(words)]
        assert row["labels"]["pieces"] == [*reversed(words), "</s>"]


def test_a_batch_of_texts_is_shown_with_their_classes(tmp_path: Path, capsys: Capture) -> None:
    texts = film_texts(6)
    write_tsv(tmp_path / "train.tsv", texts)
    write_tsv(tmp_path / "valid.tsv", texts)
    model = written(fresh_classifier(classifier_recipe(tmp_path)), tmp_path / "films")
    assert run(["tokens", str(model), "--batch", "-q"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    found = {(lines[i + 1][2], lines[i][2]) for i in range(0, len(lines), 2)}
    assert found <= {(label, f"<s> {text} </s>") for label, text in texts}
    assert [line[0] for line in lines[:4]] == ["1", "", "2", ""]


def test_a_batch_of_masked_text_is_shown_with_what_was_masked(tmp_path: Path, capsys: Capture) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.txt").write_text("\n\n".join(text for _, text in film_texts(8)))
    model = written(fresh_masked_model(masked_recipe(tmp_path, {"next_sentence": False})), tmp_path / "mlm")
    assert run(["tokens", str(model), "--batch", "--json", "-q"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(row["text"]["pieces"][0] == "<s>" for row in rows)
    masks = sum(row["text"]["pieces"].count("<mask>") for row in rows)
    assert 0 < masks <= sum(len(row["labels"]["pieces"]) for row in rows)


def test_a_batch_of_running_text_is_shown_with_the_next_tokens(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "train.txt").write_text("\n\n".join(text for _, text in film_texts(8)))
    recipe = tmp_path / "language.toml"
    recipe.write_text(
        f'[data]\ntrain = {{ text = "{tmp_path}/train.txt" }}\nmax_length = 8\nbatch_tokens = 64\n'
        '[tokenizer]\nkind = "word"\n[model]\nfamily = "language"\n[train]\nsteps = 1\n'
    )
    assert run(["tokens", str(recipe), "--batch", "--json", "-q"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows
    assert all(row["inputs"]["ids"][1:] == row["labels"]["ids"][:-1] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["MODEL", "--batch", "a text"], "--batch shows training data: leave out texts, files and --side."),
        (["MODEL", "a text", "--set", "x=1"], "--set is for recipes, but MODEL is a model: leave it out."),
    ],
)
def test_mistakes(reversing_folder: Path, capsys: Capture, arguments: list[str], message: str) -> None:
    assert run(["tokens", *(argument.replace("MODEL", str(reversing_folder)) for argument in arguments)]) == 2
    assert capsys.readouterr().err == f"heedful: error: {message.replace('MODEL', str(reversing_folder))}\n"


def test_sides_are_for_translators(tmp_path: Path, capsys: Capture) -> None:
    model = written(fresh_classifier(classifier_recipe(tmp_path)), tmp_path / "films")
    assert run(["tokens", str(model), "a text", "--side", "target"]) == 2
    assert capsys.readouterr().err == (
        f"heedful: error: --side is for translators, which {model} is not: leave it out.\n"
    )
