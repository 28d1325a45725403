"""`heedful fill` as a user sees it."""

import io
import json
import sys
from pathlib import Path

import pytest
from tests.shared.refusals import like
from tests.unit.tasks.masked_models import masked_bundle, week_bundle

from heedful.cli.main import run
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import ByteBpe, Words
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle, write_description, write_weights
from heedful.models.networks import MaskedModel
from heedful.tasks.fill.model import MaskFiller

Capture = pytest.CaptureFixture[str]


def write(folder: Path, bundle: Bundle[MaskedModel]) -> Path:
    write_description(folder, bundle.recipe, bundle.vocabularies)
    write_weights(folder, bundle.model)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that learned the days of the week in their order."""
    return write(tmp_path_factory.mktemp("models") / "week", week_bundle())


@pytest.fixture(scope="module")
def filler(folder: Path) -> MaskFiller:
    return MaskFiller.load(folder, "cpu")


def fill(model: Path, *arguments: str) -> int:
    return run(["fill", str(model), "--device", "cpu", *arguments])


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_text_is_filled_and_the_likeliest_pieces_stand_below_it(
    folder: Path, filler: MaskFiller, capsys: Capture
) -> None:
    assert fill(folder, "monday [MASK] wednesday", "--top", "3") == 0
    text, *table = capsys.readouterr().out.splitlines()
    assert text == "monday tuesday wednesday"
    (candidates,) = filler.fill("monday [MASK] wednesday", top=3).masks
    assert [line.split() for line in table] == [[one.piece, f"{one.probability:.4f}"] for one in candidates]
    assert {line.rindex(" ") for line in table} == {table[0].rindex(" ")}  # probabilities in one column
    assert all(line.startswith("  ") for line in table)


def test_masks_are_numbered_where_there_are_several(folder: Path, capsys: Capture) -> None:
    assert fill(folder, "monday <mask> wednesday [MASK]", "tuesday [MASK] thursday", "--top", "1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:-1] for line in lines if line.startswith("  ")] == [
        ["1", "tuesday"],
        ["2", "thursday"],
        ["wednesday"],
    ]
    assert [line for line in lines if not line.startswith("  ")] == [
        "monday tuesday wednesday thursday",
        "tuesday wednesday thursday",
    ]


def test_five_pieces_are_shown_by_default(folder: Path, capsys: Capture) -> None:
    assert fill(folder, "monday [MASK] wednesday") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 5


def test_texts_from_standard_input_one_a_line(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fill(folder, "monday [MASK] wednesday", "[MASK] saturday sunday") == 0
    of_arguments = capsys.readouterr().out
    given(monkeypatch, "monday [MASK] wednesday\n[MASK] saturday sunday\n")
    assert fill(folder) == 0
    assert capsys.readouterr().out == of_arguments


def test_objects_line_by_line(
    folder: Path, filler: MaskFiller, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, "monday [MASK] [MASK]\n\n[MASK] saturday sunday\n")
    assert fill(folder, "--json", "--top", "2") == 0
    first, blank, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert blank == {"line": 2, "source": "", "text": "", "filled": "", "masks": []}
    assert last["text"] == "friday saturday sunday"
    expected = filler.fill("monday [MASK] [MASK]", top=2)
    assert first["text"] == expected.text
    for shown, candidates in zip(first["masks"], expected.masks, strict=True):
        assert [(one["piece"], one["text"], one["token"]) for one in shown] == [
            (one.piece, one.text, one.token) for one in candidates
        ]
        assert [one["probability"] for one in shown] == pytest.approx([one.probability for one in candidates])


def test_pieces_are_shown_with_their_marks(tmp_path: Path, capsys: Capture) -> None:
    folder = write(tmp_path / "bytes", masked_bundle(ByteBpe(size=340)))
    assert fill(folder, "the [MASK] sat", "--top", "1000", "--json") == 0
    (candidates,) = json.loads(capsys.readouterr().out)["masks"]
    assert [one["text"] for one in candidates if one["piece"] in ("▁cat", "cat")] == ["cat", "cat"]
    assert fill(folder, "the [MASK] sat", "--top", "1000") == 0
    assert "\n  ▁cat " in capsys.readouterr().out


def test_every_text_is_one_line_even_where_a_line_end_is_filled_in(tmp_path: Path, capsys: Capture) -> None:
    bundle = masked_bundle(ByteBpe(size=340))
    tokenizer = bundle.vocabularies["text"]
    bundle.model.head.output.bias.data[tokenizer.encode("\n")] += 100.0  # type: ignore[union-attr]
    folder = write(tmp_path / "lines", bundle)
    assert fill(folder, "the [MASK]", "--top", "1") == 0
    assert capsys.readouterr().out.splitlines() == ["the ", "  <0x0A>  1.0000"]


# --- mistakes ---------------------------------------------------------------------------------------------------------


def refused(capsys: Capture, model: Path, *arguments: str) -> str:
    assert fill(model, *arguments) == 2
    return capsys.readouterr().err.removeprefix("heedful: error: ").rstrip("\n")


def test_a_text_without_a_mask(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    way_out = "has no mask: ..."
    assert refused(capsys, folder, "--text", "monday") == like(f"texts, line 1 {way_out}")
    given(monkeypatch, "monday [MASK] wednesday\nfriday [mask]\n")
    assert fill(folder, "--top", "1") == 2
    out, error = capsys.readouterr()
    assert out.startswith("monday tuesday wednesday\n")  # what came before the mistake
    assert error == like(f"heedful: error: standard input, line 2 {way_out}\n")


def test_files_and_texts_are_answered_in_their_order(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "texts.txt").write_text("tuesday [MASK] thursday\n")
    out = tmp_path / "out"
    texts = ("monday [MASK] wednesday", str(tmp_path / "texts.txt"), "--text", "[MASK]")
    assert fill(folder, *texts, "--top", "1", "-o", str(out)) == 0
    assert capsys.readouterr().out == ""
    first, _, second, _, _, _ = out.read_text().splitlines()
    assert (first, second) == ("monday tuesday wednesday", "tuesday wednesday thursday")


def test_a_text_that_is_too_long(folder: Path, capsys: Capture) -> None:
    assert refused(capsys, folder, "monday " * 50 + "[MASK]") == like(
        "texts, line 1 has 53 tokens with its markers, ... 40 (`model.max_positions`): shorten it."
    )


def test_a_model_of_another_kind(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    recipe = Recipe(data=Data(train=(AlignedFiles(source="a", target="b"),)), tokenizer=Words(kind="word"))
    recipe = recipe.model_copy(update={"model": recipe.pair_model.model_copy(update={"width": 8, "inner": 8})})
    tokenizer = train_tokenizer(recipe.tokenizer, ["ant bee"])
    write_description(tmp_path, recipe, Vocabularies({"text": tokenizer}))
    assert refused(capsys, tmp_path, "[MASK]") == f"{tmp_path} is a model that translates: use `heedful translate`."
    for verb in ("translate", "score"):
        assert run([verb, str(folder), "--device", "cpu"]) == 2
        assert capsys.readouterr().err == (
            f"heedful: error: {folder} is a model that fills masks: use `heedful fill`.\n"
        )


def test_options_that_cannot_be(folder: Path, capsys: Capture) -> None:
    assert "--top" in refused(capsys, folder, "[MASK]", "--top", "0")
    assert refused(capsys, folder, "[MASK]", "--precision", "int4") == like("`int4` is not a precision: ...")
    assert run(["fill", str(folder), "[MASK]", "--device", "gpu"]) == 2
    assert "`gpu` is not a device" in capsys.readouterr().err
