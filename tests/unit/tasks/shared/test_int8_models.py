"""Models in int8: who chooses it, what `repr` says, what moves, and what is said of what kernels cannot run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shared.refusals import like, refuses

import heedful
from heedful.base.notes import listening
from heedful.native import compiler, library
from heedful.tasks.shared import loaded_model
from heedful.tasks.shared.loaded_model import Placement

BUNDLES = Path(__file__).parents[3] / "golden/bundles"
MODEL = BUNDLES / "transformer"
KERNELS = isinstance(library.find_library(), library.Library)


def with_usual(folder: Path, precision: str) -> Path:
    """A copy of a model whose recipe sets a precision."""
    made = shutil.copytree(MODEL, folder)
    config = json.loads((made / "config.json").read_text())
    config["recipe"].setdefault("decode", {})["precision"] = precision
    (made / "config.json").write_text(json.dumps(config))
    return made


def details(act: Callable[[], object]) -> list[str]:
    """What `--verbose` says of an action."""
    found: list[str] = []
    with listening(lambda note: None, found.append):
        act()
    return found


@pytest.mark.parametrize(
    ("usual", "asked", "expected"),
    [
        ("auto", "auto", torch.float32),
        ("auto", "int8", torch.int8),
        ("int8", "auto", torch.int8),
        ("int8", "float32", torch.float32),
        ("bfloat16", "auto", torch.bfloat16),
        ("bfloat16", "int8", torch.int8),
    ],
)
def test_a_caller_chooses_the_precision_and_otherwise_the_recipe_does(
    usual: str, asked: str, expected: torch.dtype, tmp_path: Path
) -> None:
    model = heedful.load(with_usual(tmp_path / "model", usual), device="cpu", precision=asked)
    assert model.precision == expected


def test_the_precision_of_an_ensemble_is_that_of_its_first_model(tmp_path: Path) -> None:
    quantized = heedful.quantize(MODEL, tmp_path / "int8")
    assert repr(heedful.load(quantized, device="cpu", ensemble=[MODEL])).endswith("cpu in int8>")
    assert repr(heedful.load(MODEL, device="cpu", ensemble=[quantized])).endswith("cpu in float32>")


def test_the_repr_counts_weights_in_int8_once() -> None:
    plain, quantized = (repr(heedful.load(MODEL, device="cpu", precision=name)) for name in ("float32", "int8"))
    assert plain.removesuffix("float32>") == quantized.removesuffix("int8>")


@pytest.mark.parametrize(
    ("usual", "expected"), [("auto", torch.bfloat16), ("int8", torch.bfloat16), ("float32", torch.float32)]
)
def test_on_a_gpu_int8_is_not_usual(usual: str, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_model, "has_bfloat16", lambda device: True)
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, device: self)  # there may be no GPU here
    network = torch.nn.Linear(2, 2)
    Placement(torch.device("cuda"), "auto").put(network, usual)
    assert network.weight.dtype == expected


def test_int8_on_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_model, "choose_device", torch.device)
    with refuses("int8 runs on a CPU, not on cuda: choose the device `cpu`, or another precision."):
        heedful.load(MODEL, device="cuda", precision="int8")


def test_what_is_in_int8_stays_so_and_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = heedful.load(MODEL, device="cpu")
    assert model.to("cpu", "bfloat16").to("cpu", "int8").precision == torch.int8
    assert model.to("cpu").precision == model.to("cpu", "int8").precision == torch.int8
    with refuses(
        "The model's weights are in int8 by now, which cannot become float32 on cpu: load it again with this device "
        "and precision."
    ):
        model.to("cpu", "float32")
    monkeypatch.setattr(loaded_model, "choose_device", torch.device)
    with refuses("The model's weights are in int8...on cuda..."):
        model.to("cuda")
    assert model.translate("der Mann") == model.translate("der Mann")


# --- what is said of kernels ------------------------------------------------------------------------------------------


@pytest.mark.skipif(not KERNELS, reason="the kernels cannot be compiled here")
def test_what_kernels_cannot_run_is_said_of_encoders_when_they_are_loaded_and_of_decoders_when_they_are_used() -> None:
    models: list[Any] = []
    said = details(
        lambda: models.append(heedful.load(BUNDLES / "transformer-alibi-sparsemax", device="cpu", precision="int8"))
    )
    reason = "AlignedSelfAttention is not among their kinds of attention"
    kinds = [f"int8: kernels for {each.title}" for each in compiler.INSTRUCTIONS.values()]
    assert said[0] in kinds
    assert said[1:] == [f"int8: PyTorch runs 1 block of encoders, not the kernels: {reason}"]
    assert details(lambda: models[0].translate("a")) == [f"int8: PyTorch runs this decoder, not the kernels: {reason}"]


def test_why_there_are_no_kernels_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with_kernels = heedful.load(MODEL, device="cpu", precision="int8")
    monkeypatch.setenv("HEEDFUL_NATIVE", "off")
    library.find_library.cache_clear()
    try:
        models: list[Any] = []
        said = details(lambda: models.append(heedful.load(MODEL, device="cpu", precision="int8")))
        assert said == [like("int8: PyTorch computes everything, as ...")]
        assert details(lambda: models[0].translate("der Mann")) == []
        found = models[0].translate_detailed("der Mann")[0].score
    finally:
        library.find_library.cache_clear()
        monkeypatch.undo()
    assert found == pytest.approx(with_kernels.translate_detailed("der Mann")[0].score, rel=0.02)  # type: ignore[attr-defined]


def test_a_network_without_maps_stays_in_float32_and_that_is_said() -> None:
    notes: list[str] = []
    network = torch.nn.Linear(2, 2)
    with listening(notes.append):
        Placement.of("cpu", "int8").put(network)
    assert notes == ["int8: this network has no linear maps of Heedful, and stays in float32"]
    assert network.weight.dtype == torch.float32


def test_explanations_have_gradients_in_int8() -> None:
    plain, quantized = (heedful.load(MODEL, device="cpu", precision=name) for name in ("float32", "int8"))
    theirs, ours = (model.explain("der Mann", gradients=True) for model in (plain, quantized))  # type: ignore[attr-defined]
    kinds = [[one.kind for one in each.attentions] for each in (theirs, ours)]
    assert kinds[0] == kinds[1]
    assert "gradient" in kinds[1]
