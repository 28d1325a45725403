"""What every export does: refusals before anything is read, a comparison, and nothing left where answers differ."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from benchmarks.interop.random_models import write_random_model
from tests.shared.refusals import refuses

from heedful.base.files import write_json
from heedful.interop.exports import exporting
from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.exporting import export_model, facts_of
from heedful.interop.exports.formats import FORMATS, Format, Refusal

TINY = {"family": "recurrent", "width": 8, "layers": 1}
Compare = Callable[..., Comparison]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_random_model(tmp_path / "model", "translate", model=TINY)


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace all formats by two: `paper` of the library Paper, and `stone` of Stone, which holds everything."""

    def hold(
        compare: Compare | None = None, refused: tuple[Refusal, ...] = (), stone: tuple[Refusal, ...] = ()
    ) -> None:
        modules: dict[str, Any] = {name: ModuleType(name) for name in ("refusals", "writing", "comparing")}
        modules["refusals"].refusals = lambda recipe: refused
        modules["writing"].write = lambda bundle, folder, precision: write_json(folder / "model.json", precision)
        modules["comparing"].compare = compare
        for name, module in modules.items():
            monkeypatch.setitem(__import__("sys").modules, f"paper_for_tests.{name}", module)
        other: Any = ModuleType("refusals")
        other.refusals = lambda recipe: stone
        monkeypatch.setitem(__import__("sys").modules, "stone_for_tests.refusals", other)
        package = "paper_is_not_installed" if compare is None else "heedful"
        formats = {
            "paper": Format("paper", "paper_for_tests", package, "Paper", ("float32", "int8")),
            "stone": Format("stone", "stone_for_tests", "heedful", "Stone"),
        }
        monkeypatch.setattr(exporting, "FORMATS", formats)

    return hold


def equal(bundle: object, folder: Path, samples: Any) -> Comparison:
    return Comparison(len(samples.texts), 0, 1e-7, samples.of)


def test_a_folder_is_written_and_compared(model: Path, tmp_path: Path, hold: Callable[..., None]) -> None:
    hold(equal)
    found = export_model(model, "paper", tmp_path / "out", "int8")
    assert (tmp_path / "out/model.json").read_text() == '"int8"\n'
    assert facts_of(found) == {
        "model": str(tmp_path / "out"),
        "format": "paper",
        "compared": {"count": 32, "unequal": 0, "difference": 1e-7, "inputs": "32 texts of random pieces"},
    }


def test_without_the_library_nothing_is_compared(model: Path, tmp_path: Path, hold: Callable[..., None]) -> None:
    hold(None)
    assert facts_of(export_model(model, "paper", tmp_path / "out"))["compared"] is None


def test_a_format_that_is_not_one_is_refused(model: Path, tmp_path: Path) -> None:
    with refuses(
        "`ctranslate` is not a format: use one of transformers, ctranslate2, onnx, torch. Did you mean `ctranslate2`?"
    ):
        export_model(model, "ctranslate", tmp_path / "out")


def test_a_precision_that_it_cannot_hold_is_refused(model: Path, tmp_path: Path) -> None:
    with refuses("CTranslate2 cannot hold weights in int4: use float32 or bfloat16 or int8."):
        export_model(model, "ctranslate2", tmp_path / "out", "int4")
    with refuses("torch.export cannot hold weights in int8: use float32."):
        export_model(model, "torch", tmp_path / "out", "int8")


def test_a_key_that_it_cannot_hold_is_named_with_another_format(
    model: Path, tmp_path: Path, hold: Callable[..., None]
) -> None:
    hold(equal, (Refusal("model.family", "paper is flat"),))
    with refuses(
        f"{model} cannot be exported to Paper, because of `model.family`: paper is flat. Export it with the format "
        "stone instead."
    ):
        export_model(model, "paper", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_where_no_format_holds_a_key_another_model_is_the_way_out(
    model: Path, tmp_path: Path, hold: Callable[..., None]
) -> None:
    hold(equal, (Refusal("model.family", "paper is flat"),), (Refusal("model.family", "stone is hard"),))
    with refuses("... because of `model.family`: paper is flat. Train a model without it to export."):
        export_model(model, "paper", tmp_path / "out")


@pytest.mark.parametrize(("unequal", "difference"), [(3, 1e-7), (0, 2e-4), (0, float("nan")), (0, float("inf"))])
def test_other_answers_are_refused_and_nothing_is_written(
    unequal: int, difference: float, model: Path, tmp_path: Path, hold: Callable[..., None]
) -> None:
    hold(lambda bundle, folder, samples: Comparison(32, unequal, difference, samples.of))
    with refuses(
        f"{model} answers differently in Paper: {unequal} of 32 answers are not equal, and scores differ by up to "
        f"{difference:.1g}. Nothing was written; please report this."
    ):
        export_model(model, "paper", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    if not unequal:  # less precise weights may score differently
        export_model(model, "paper", tmp_path / "out", "int8")


def test_a_folder_in_use_is_refused(model: Path, tmp_path: Path, hold: Callable[..., None]) -> None:
    hold(equal)
    with refuses(f"{model} already holds a model: ..."):
        export_model(model, "paper", model)


def test_every_format_has_its_three_modules() -> None:
    for form in FORMATS.values():
        folder = Path(exporting.__file__).parents[1] / form.home.rpartition(".")[2]
        assert {"refusals.py", "writing.py", "comparing.py"} <= {path.name for path in folder.iterdir()}
