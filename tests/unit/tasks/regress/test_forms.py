"""Regressors of pairs, of other starts and of every form of rows; what pages and the doctor say of numbers."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.shared.refusals import refuses

import heedful
from heedful.cli.main import run as heedful_command
from heedful.data.corpora.in_memory import spool
from heedful.tasks.regress.rules import REGRESS, REGRESS_IMAGES

WORDS = ["dog", "cat", "bird", "sees", "likes", "house"]
TINY = {"family": "transformer", "width": 8, "heads": 2, "layers": 1, "inner": 16}
TRAIN: dict[str, Any] = {
    "steps": 3,
    "precision": "float32",
    "report": False,
    "schedule": {"kind": "constant", "lr": 0.001},
}


def alike(count: int, seed: int = 1) -> list[tuple[str, str, float]]:
    """Pairs of texts, and how many words they share."""
    draw = Random(seed)
    pairs = [[draw.choices(WORDS, k=4) for _ in range(2)] for _ in range(count)]
    return [(" ".join(one), " ".join(other), len({*one} & {*other})) for one, other in pairs]


def recipe(**model: Any) -> dict[str, Any]:
    return {
        "data": {"batch_tokens": 256},
        "tokenizer": {"kind": "word"},
        "model": {"family": "regressor", **model},
        "train": TRAIN,
    }


def trained(folder: Path, made: dict[str, Any], rows: list[Any]) -> Any:
    run = heedful.train(made, folder / "run", train=rows, valid=rows[:6], quiet=True)
    assert isinstance(run.model, heedful.TextRegressor)
    return run.model


# --- what it reads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("join", ["sequence", "parallel", "alternating"])
def test_pairs_have_numbers(join: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = trained(tmp_path, recipe(encoder=TINY, join=join), alike(24))
    one = model.regress("dog sees cat", "dog likes cat")
    both = model.regress(["dog sees cat", "bird"], ["dog likes cat", "house"])
    assert both[0] == pytest.approx(one)
    assert model.regress("dog", "bird likes house") != pytest.approx(one)
    found = model.evaluate(alike(8, 2))
    assert next(iter(found.outputs())).count("\t") == 3  # the true number, the predicted one, two texts
    assert model.explain("dog sees cat", "dog likes cat").output == f"{one:.4g}"
    with refuses("This model reads pairs of texts: ..."):
        model.regress("dog sees cat")
    folder = str(tmp_path / "run")
    assert heedful_command(["regress", folder, "-t", "dog sees cat\tdog likes cat", "--device", "cpu"]) == 0
    assert float(capsys.readouterr().out) == pytest.approx(one, rel=1e-4)


@pytest.mark.parametrize("family", ["bert", "language"])
def test_a_regressor_starts_from_a_model_of_text(family: str, tmp_path: Path) -> None:
    texts = [f"The {one}. The {other}." for one, other, _ in alike(40)]
    shape = {key: TINY[key] for key in ("width", "heads", "layers", "inner")}
    table = {"family": "bert", **shape} if family == "bert" else {"family": "language", "decoder": TINY}
    first = {"data": {"batch_tokens": 256, "max_length": 32}, "tokenizer": {"kind": "word"}, "model": table}
    heedful.train({**first, "train": TRAIN}, tmp_path / "first", train=texts, valid=texts[:4], quiet=True)
    made = {"data": {"batch_tokens": 256}, "model": {"family": "regressor"}}
    begun = {**made, "train": {**TRAIN, "start_from": str(tmp_path / "first")}}
    model = trained(tmp_path, begun, [(one, number) for one, _, number in alike(24)])
    assert model.recipe.model.encoder.family == family
    assert isinstance(model.regress("dog sees cat"), float)


@pytest.mark.parametrize("source", ["scenes", "npz"])
def test_scenes_and_arrays_train_a_regressor_of_images(source: str, tmp_path: Path) -> None:
    if source == "scenes":
        corpora = [{"builtin": "scenes", "part": part, "count": 12} for part in ("train", "valid")]
    else:
        pixels = np.random.default_rng(1).integers(0, 256, (12, 8, 8), dtype=np.uint8)
        np.savez(tmp_path / "light.npz", x=pixels, light=pixels.mean((1, 2)))
        corpora = [{"npz": str(tmp_path / "light.npz"), "number": "light"}] * 2
    encoder = {"family": "convolutional", "width": 4, "stages": 2, "depth": 1}
    made = {
        "data": {"train": corpora[0], "valid": corpora[1]},
        "model": {"family": "image_regressor", "encoder": encoder},
    }
    run = heedful.train({**made, "train": TRAIN}, tmp_path / "run", quiet=True)
    found = heedful.evaluate(run.folder, split="valid")["1"]
    assert len([*found.outputs()]) == 12


# --- rows in memory ---------------------------------------------------------------------------------------------------


def test_every_form_of_rows_is_the_same_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path))
    forms: list[Any] = [
        [("a dog", 2), ("a cat", 0.5)],
        [{"text": "a dog", "number": np.float32(2)}, {"text": "a cat", "number": 0.5, "other": "left out"}],
        {"number": np.array([2.0, 0.5]), "text": ["a dog", "a cat"]},
    ]
    spooled = [spool(rows, REGRESS, "train") for rows in forms]
    assert all(table == spooled[0] for table in spooled)
    assert Path(str(spooled[0]["jsonl"])).read_text().splitlines()[1] == '{"number": 0.5, "text": "a cat"}'
    pairs: list[Any] = [
        [("a dog", "a cat", 1.0)],
        [{"number": 1, "second": "a cat", "text": "a dog"}],
        {"text": ["a dog"], "second": ["a cat"], "number": [1]},
    ]
    assert len({str(spool(rows, REGRESS, "train")) for rows in pairs}) == 1


MUST = "but must have `text`, `number` and optionally `second`."


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [("a", 1), ("b", "two")],
            "train, row 2: `number` is 'two', but must be a finite number: convert it with `float()`.",
        ),
        ([("a", "3.5")], "train, row 1: `number` is '3.5', but must be a finite number: ..."),
        ([("a", float("nan"))], "train, row 1: `number` is nan, but must be a finite number."),
        ([("a", True)], "train, row 1: `number` is True, but must be a finite number."),
        ([(1.0, "a")], "train, row 1: `text` is 1.0, but must be a text: ..."),
        ([{"text": "a", "numbers": 1}], f"train, row 1 has no column `number`, {MUST} Did you mean `numbers`?"),
        ({"text": ["a"], "label": [1]}, f"`train` has no column `number`, {MUST} ..."),
        ([("a",)], f"train, row 1 has 1 values, {MUST}"),
    ],
)
def test_rows_without_a_number_are_refused(
    rows: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path))
    with refuses(message):
        spool(rows, REGRESS, "train")


def test_images_are_not_given_in_memory() -> None:
    with refuses(
        "`train` is given in memory, but a regressor learns from images with numbers: give a table with `image` and "
        '`number`, `npz` with `number`, or `builtin = "scenes"`.'
    ):
        spool([(np.zeros((4, 4)), 1.0)], REGRESS_IMAGES, "train")


# --- what a page and the doctor say -----------------------------------------------------------------------------------


def test_a_page_explains_a_number(tmp_path: Path) -> None:
    encoder = {"family": "bag", "width": 4, "buckets": 64, "ngrams": 2}
    model = trained(tmp_path, recipe(encoder=encoder), [(one, number) for one, _, number in alike(24)])
    page = tmp_path / "page.html"
    asked = ["explain", str(tmp_path / "run"), "-t", "dog sees a cat", "--swap", "dog=bird", "-o", str(page)]
    assert heedful_command([*asked, "--device", "cpu"]) == 0
    written = page.read_text()
    assert "<h1>How a number was predicted for a text</h1>" in written
    assert written.count('"labels":["Text","Number"]') == 2
    assert f'"output":"{model.regress("dog sees a cat"):.4g}"' in written
    shares = model.explain("dog sees a cat", gradients=True).attention("gradient").weights
    assert shares.sum() == pytest.approx(1)


def test_the_doctor_reads_numbers_and_a_plot_draws_the_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rated.tsv").write_text("".join(f"{number}\t{one}\n" for one, _, number in alike(30)))
    (tmp_path / "it.toml").write_text(
        f'[data]\nfolder = "{tmp_path}"\ntrain = {{ tsv = "rated.tsv", number = 1, text = 2, part = "1-9/10" }}\n'
        'valid = { tsv = "rated.tsv", number = 1, text = 2, part = "0/10" }\n[model]\nfamily = "regressor"\n'
    )
    assert heedful_command(["doctor", str(tmp_path / "it.toml"), "--quick"]) in (0, 1)
    shown = capsys.readouterr().out
    assert "rated.tsv" in shown
    assert "label" not in shown
    assert heedful_command(["plot", "architecture", str(tmp_path / "it.toml"), "-o", str(tmp_path / "it.svg")]) == 0
    assert "<svg" in (tmp_path / "it.svg").read_text()
