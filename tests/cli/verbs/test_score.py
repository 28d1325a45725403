"""`heedful score` as a user sees it."""

import io
import json
import sys
from pathlib import Path

import pytest
from tests.cli.terminal.conversation import conversation
from tests.shared.refusals import like

from heedful.cli.main import run
from heedful.config.tokenizer import ByteBpe
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import read_description, write_description, write_weights
from heedful.models.from_recipe.network import build_model
from heedful.tasks.translate.model import Translator

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    (tmp_path / "x.in").write_text("ant bee\ncat\n")
    (tmp_path / "x.out").write_text("bee ant\nhen\n")
    return ["--source", str(tmp_path / "x.in"), "--target", str(tmp_path / "x.out")]


def score(model: Path, *arguments: str) -> int:
    return run(["score", str(model), "--device", "cpu", *arguments])


def test_one_line_per_pair_in_order(
    reversing_folder: Path, reversing: Translator, pair: list[str], capsys: Capture
) -> None:
    assert score(reversing_folder, *pair) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    expected = reversing.score(["ant bee", "cat"], ["bee ant", "hen"])
    assert lines == [[f"{one.log_probability:.4f}", f"{one.per_piece:.4f}"] for one in expected]
    assert float(lines[0][0]) > float(lines[1][0])


def test_tokens_and_objects(reversing_folder: Path, pair: list[str], capsys: Capture) -> None:
    assert score(reversing_folder, *pair, "--tokens") == 0
    total, _, tokens = capsys.readouterr().out.splitlines()[0].split("\t")
    assert tokens.split()[::2] == ["bee", "ant", "</s>"]
    assert sum(map(float, tokens.split()[1::2])) == pytest.approx(float(total), abs=1e-3)
    assert score(reversing_folder, *pair, "--json") == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[0])
    assert shown["pieces"] == ["bee", "ant", "</s>"]
    assert shown["log_probability"] == pytest.approx(sum(shown["log_probabilities"]))


def test_byte_level_pieces_are_shown_as_text_without_spaces(
    reversing_folder: Path, pair: list[str], tmp_path: Path, capsys: Capture
) -> None:
    recipe, _ = read_description(reversing_folder)
    tokenizer = train_tokenizer(ByteBpe(size=270), ["fünf Hunde"] * 5)
    write_description(folder := tmp_path / "bytes", recipe, Vocabularies({"source": tokenizer, "target": tokenizer}))
    write_weights(folder, build_model(recipe.pair_model, tokenizer.size, tokenizer.size))
    Path(pair[3]).write_text("fünf Hunde\n漢\n")
    assert score(folder, *pair, "--tokens") == 0
    first, second = (line.split("\t")[2].split(" ")[::2] for line in capsys.readouterr().out.splitlines())
    assert "".join(first) == "fünf▁Hunde</s>"
    assert second == ["<0xE6>", "<0xBC>", "<0xA2>", "</s>"]
    assert score(folder, *pair, "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["pieces"] == first


def test_pairs_from_standard_input(
    reversing_folder: Path, pair: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert score(reversing_folder, *pair) == 0
    from_files = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ant bee\tbee ant\ncat\then\n")))
    assert score(reversing_folder) == 0
    assert capsys.readouterr().out == from_files


def test_pairs_from_files_of_two_columns_and_from_texts(
    reversing_folder: Path, pair: list[str], tmp_path: Path, capsys: Capture
) -> None:
    assert score(reversing_folder, *pair) == 0
    expected = capsys.readouterr().out
    (tmp_path / "pairs.tsv").write_text("cat\then\n")
    assert score(reversing_folder, "ant bee\tbee ant", str(tmp_path / "pairs.tsv"), "-o", str(tmp_path / "out")) == 0
    assert (tmp_path / "out").read_text() == expected
    assert refused(capsys, reversing_folder, *pair, "ant\tant") == (
        "--source and --target are the pairs to score: leave out the other files and texts."
    )


@pytest.mark.wide
def test_each_pair_is_answered_before_the_next_is_written(reversing_folder: Path, reversing: Translator) -> None:
    pairs = [("ant bee", "bee ant"), ("", ""), ("cat", "hen")]
    with conversation("score", str(reversing_folder), "--device", "cpu") as ask:
        answers = [float(ask(f"{source}\t{target}".encode()).split()[0]) for source, target in pairs]
    expected = [reversing.score([source], [target])[0].log_probability for source, target in pairs]
    assert answers == pytest.approx(expected, abs=1e-3)


def test_an_ensemble_of_one_model_twice_scores_the_same(
    reversing_folder: Path, pair: list[str], capsys: Capture
) -> None:
    assert score(reversing_folder, *pair) == 0
    alone = capsys.readouterr().out
    assert score(reversing_folder, *pair, "--with", str(reversing_folder)) == 0
    assert capsys.readouterr().out == alone


def refused(capsys: Capture, model: Path, *arguments: str) -> str:
    assert score(model, *arguments) == 2
    return capsys.readouterr().err.removeprefix("heedful: error: ").rstrip("\n")


def test_mistakes(reversing_folder: Path, pair: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(capsys, reversing_folder, *pair[:2]) == (
        "--target is missing: a translation is scored together with its source."
    )
    assert refused(capsys, reversing_folder, *pair[2:]) == like("--source is missing: ...")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ant\tant\nbee\n")))
    message = like("standard input, line 2 has 1 column, but must have two: ...")
    assert refused(capsys, reversing_folder) == message
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ant\tant\tbee\n")))
    message = like("standard input, line 1 has 3 columns, but must have two: ...")
    assert refused(capsys, reversing_folder) == message
    Path(pair[3]).write_text("bee\n")
    assert "has 1 line but" in refused(capsys, reversing_folder, *pair)


def test_an_option_that_does_nothing_is_refused_before_the_model_is_loaded(pair: list[str], capsys: Capture) -> None:
    message = "--json has the tokens in every object: leave out --tokens."
    assert refused(capsys, Path("no-model"), *pair, "--json", "--tokens") == message
