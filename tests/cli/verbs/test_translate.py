"""`heedful translate` as a user sees it."""

import gzip
import io
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from tests.cli.terminal.conversation import conversation
from tests.shared.refusals import like

from heedful.cli.main import run
from heedful.data.tokenize.tokenizer import END, Tokenizer
from heedful.models.bundle import read_bundle, write_weights
from heedful.tasks.shared.sequences.text_codec import TextCodec
from heedful.tasks.translate.model import Translator

Sentences = Callable[[int], list[str]]
Capture = pytest.CaptureFixture[str]


def translate(model: Path, *arguments: str | int | Path) -> int:
    return run(["translate", str(model), "--device", "cpu", *map(str, arguments)])


def type_in(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Put bytes on standard input, which has no file descriptor then."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def file_of(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


# --- lines in, lines out ----------------------------------------------------------------------------------------------


def test_files_give_one_line_per_line_in_order(
    reversing_folder: Path, reversing: Translator, sentences: Sentences, tmp_path: Path, capsys: Capture
) -> None:
    texts = sentences(12)
    first = file_of(tmp_path / "first", [*texts[:5], "", "  "])
    second = tmp_path / "second.gz"
    second.write_bytes(gzip.compress("\r\n".join(texts[5:]).encode()))  # and no newline at the end
    assert translate(reversing_folder, first, second) == 0
    shown = capsys.readouterr()
    expected = [*reversing.translate(texts[:5]), "", "", *reversing.translate(texts[5:])]
    assert shown.out == "".join(f"{line}\n" for line in expected)
    assert shown.err == ""


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_standard_input_is_the_default_and_a_dash(
    reversing_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, arguments: tuple[str, ...]
) -> None:
    type_in(monkeypatch, b"ant bee\n\ncat\n")
    assert translate(reversing_folder, *arguments) == 0
    assert capsys.readouterr().out == "bee ant\n\ncat\n"


def test_a_regular_file_may_be_standard_input(
    reversing_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with file_of(tmp_path / "in", ["ant bee", "cat"]).open() as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        assert translate(reversing_folder) == 0
    assert capsys.readouterr().out == "bee ant\ncat\n"


def test_texts_on_the_command_line_are_answered_like_lines(
    reversing_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    path = file_of(tmp_path / "in", ["cat dog"])
    assert translate(reversing_folder, "ant bee", path, "-t", "hen", "-o", "-") == 0
    assert capsys.readouterr().out == "bee ant\ndog cat\nhen\n"


def test_no_lines_give_no_lines(reversing_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    assert translate(reversing_folder, file_of(tmp_path / "in", [])) == 0
    assert capsys.readouterr().out == ""


# --- forms ------------------------------------------------------------------------------------------------------------


def test_scores_stand_before_the_text(
    reversing_folder: Path, reversing: Translator, tmp_path: Path, capsys: Capture
) -> None:
    path = file_of(tmp_path / "in", ["ant bee", ""])
    assert translate(reversing_folder, path, "--scores", "--beam", 2, "--length-penalty", 1) == 0
    (best,) = reversing.translate_detailed(["ant bee"], beam=2, length_penalty=1.0)[0]
    assert capsys.readouterr().out == f"{best.score:.4f}\tbee ant\n0.0000\t\n"


def test_n_best_lines_have_the_number_of_their_line(
    reversing_folder: Path, reversing: Translator, tmp_path: Path, capsys: Capture
) -> None:
    first, second = file_of(tmp_path / "a", ["ant bee"]), file_of(tmp_path / "b", ["", "cat"])
    assert translate(reversing_folder, first, second, "--n-best", 2) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert [row[2] for row in rows] == [
        *(best.text for best in reversing.translate_detailed(["ant bee"], nbest=2)[0]),
        "",
        *(best.text for best in reversing.translate_detailed(["cat"], nbest=2)[0]),
    ]


def test_json_is_one_object_per_line(
    reversing_folder: Path, reversing: Translator, tmp_path: Path, capsys: Capture
) -> None:
    path = file_of(tmp_path / "in", ["ant bee", ""])
    assert translate(reversing_folder, path, "--json") == 0
    spoken, blank = map(json.loads, capsys.readouterr().out.splitlines())
    (best,) = reversing.translate_detailed(["ant bee"])[0]
    known = ["text", "translation", "score", "tokens", "complete", "log_probability"]
    assert list(spoken) == ["line", "source", *known]
    assert (spoken["line"], spoken["source"], spoken["translation"]) == (1, "ant bee", "bee ant")
    assert spoken["text"] == "bee ant"
    assert spoken["score"] == pytest.approx(best.score, abs=1e-4)
    assert spoken["tokens"] == list(best.tokens)
    assert spoken["complete"] is True
    nothing = {"text": "", "translation": "", "score": 0.0, "tokens": [], "complete": True, "log_probability": 0.0}
    assert blank == {"line": 2, "source": "", **nothing}
    assert translate(reversing_folder, path, "--json", "--n-best", 3) == 0
    spoken, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert spoken["text"] == spoken["nbest"][0]["text"]
    assert len(spoken["nbest"]) == 3


def test_attention_is_part_of_the_object(reversing_folder: Path, reversing: Translator, capsys: Capture) -> None:
    assert translate(reversing_folder, "--json", "--attention", "--text", "ant bee cat", "--text", "") == 0
    first, blank = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["explanation"] == json.loads(json.dumps(reversing.explain("ant bee cat").to_json()))
    assert first["text"] == first["explanation"]["output"] == "cat bee ant"
    assert blank["explanation"] is None
    assert translate(reversing_folder, "--attention", "--text", "ant") == 2
    assert "--attention adds to the objects of --json: add --json." in capsys.readouterr().err


def test_a_line_stays_one_line_whatever_the_model_writes(
    reversing_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(Tokenizer, "decode_batch", lambda self, batch: ["two\nlines\r\nor three"] * len(batch))
    path = file_of(tmp_path / "in", ["ant", "bee"])
    assert translate(reversing_folder, path) == 0
    assert capsys.readouterr().out == "two lines or three\n" * 2


@pytest.mark.parametrize(("option", "column"), [("--scores", 1), ("--alignments", 0), ("--n-best=1", 2)])
def test_a_tab_that_the_model_writes_makes_no_column(
    reversing_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    option: str,
    column: int,
) -> None:
    path = file_of(tmp_path / "in", ["ant bee"])
    assert translate(reversing_folder, path, option) == 0
    columns = capsys.readouterr().out.rstrip("\n").split("\t")
    texts = "one\tand\ntwo"
    monkeypatch.setattr(TextCodec, "decode", lambda self, batch, languages, raw: iter([texts] * len(batch)))
    assert translate(reversing_folder, path, option) == 0
    assert columns[column] == "bee ant"
    columns[column] = "one and two"
    assert capsys.readouterr().out == "\t".join(columns) + "\n"
    assert translate(reversing_folder, path) == 0
    assert capsys.readouterr().out == "one\tand two\n"
    assert translate(reversing_folder, path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["text"] == texts


def test_output_goes_to_a_file_when_all_is_there(reversing_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    path, out = file_of(tmp_path / "in", ["ant bee", "", "cat"]), tmp_path / "out"
    assert translate(reversing_folder, path, "--output", out) == 0
    assert out.read_text() == "bee ant\n\ncat\n"
    assert capsys.readouterr().out == ""
    (tmp_path / "bad").write_bytes(b"ant\n\xff\n")
    assert translate(reversing_folder, tmp_path / "bad", "--output", out) == 2
    assert out.read_text() == "bee ant\n\ncat\n"


def test_cut_translations_are_counted_at_the_end(reversing_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    endless = shutil.copytree(reversing_folder, tmp_path / "endless")
    model = read_bundle(endless).model
    end = model.decoder.output.weight.detach()[END]
    with torch.no_grad():  # every state points away from `</s>`
        model.get_parameter("decoder.final.bias").sub_(100 * end / end.norm())
    write_weights(endless, model)
    path = file_of(tmp_path / "in", ["ant bee cat dog", "", "hen"])
    assert translate(endless, path, "--max-extra", 1, "--json") == 0
    shown = capsys.readouterr()
    assert [json.loads(line)["complete"] for line in shown.out.splitlines()] == [False, True, False]
    assert [len(json.loads(line)["tokens"]) for line in shown.out.splitlines()] == [5, 0, 2]
    told = "2 of 3 translations were cut at the maximum length: raise --max-extra to see more of them."
    assert shown.err == f"heedful: {told}\n"


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", [pytest.param(False, marks=pytest.mark.wide), True])
def test_each_line_is_answered_before_the_next_is_written(reversing_folder: Path, terminal: bool) -> None:
    with conversation("translate", str(reversing_folder), "--device", "cpu", terminal=terminal) as ask:
        assert [ask(b"ant bee"), ask(b""), ask(b"cat")] == [b"bee ant", b"", b"cat"]


# --- mistakes ---------------------------------------------------------------------------------------------------------


def refused(capsys: Capture, model: Path, *arguments: str | Path) -> str:
    assert translate(model, *arguments) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("heedful: error: ")
    assert shown.err.count("\n") == 1
    return shown.err.removeprefix("heedful: error: ").rstrip("\n")


def test_a_missing_file_is_refused_before_the_model_is_loaded(
    reversing_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    missing = tmp_path / "missing.txt"
    assert refused(capsys, reversing_folder, missing) == f"{missing}: no such file."
    assert refused(capsys, reversing_folder, tmp_path) == f"{tmp_path}: this is a folder, but must be a file."


def test_a_missing_model_is_refused(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, b"")
    model = tmp_path / "no-model"
    expected = like(f"{model} is not a folder: a model is a folder that ...")
    assert refused(capsys, model) == expected


def test_damaged_bundles_are_refused(
    reversing_folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, b"")
    folder = shutil.copytree(reversing_folder, tmp_path / "bundle")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert refused(capsys, folder).startswith(f"{weights} is damaged (")
    weights.unlink()
    assert "holds no model.safetensors yet" in refused(capsys, folder)
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text().replace("hen", "hex"))
    assert "is not the tokenizer that" in refused(capsys, folder)
    (folder / "config.json").write_text("{")
    assert refused(capsys, folder).startswith(f"{folder}/config.json is not JSON (")


def test_invalid_utf8_is_refused_with_its_place_after_what_came_before(
    reversing_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"ant bee\ncat\nhen \xff\n")
    assert translate(reversing_folder, path) == 2
    shown = capsys.readouterr()
    assert shown.out == "bee ant\ncat\n"
    assert shown.err.startswith(f"heedful: error: {path}, line 3, byte 16: 0xff is not valid UTF-8 there.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-best", "8"], "--n-best is 8, but a beam of 4 finds no more than 4: set --beam to 8 or more."),
        (
            ["--n-best", "3", "--beam", "2"],
            "--n-best is 3, but a beam of 2 finds no more than 2: set --beam to 3 or more.",
        ),
        (["--device", "tpu"], like("`tpu` is not a device: ...")),
        (["--precision", "int4"], like("`int4` is not a precision: ...")),
        (["--output", "."], ".: this is a folder, but must be a file."),
        (
            ["-o", "no/where/out"],
            "no/where/out: there is no folder no/where: create it with `mkdir -p no/where`, or choose another file.",
        ),
    ],
)
def test_wrong_options_are_refused(
    reversing_folder: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    type_in(monkeypatch, b"ant\n")
    assert refused(capsys, reversing_folder, *arguments) == message


@pytest.mark.parametrize("option", ["--beam", "--max-extra", "--batch-tokens", "--n-best"])
def test_options_below_one_are_refused(reversing_folder: Path, capsys: Capture, option: str) -> None:
    assert option in refused(capsys, reversing_folder, option, "0")
