"""What a run uses when its recipe leaves it open."""

import time

import pytest
import torch
from tests.shared.refusals import refuses

from heedful.base.devices import choose_device, choose_precision

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def never(precision: torch.dtype) -> None:
    raise AssertionError("nothing is to be tried where the recipe has chosen")


def test_what_the_recipe_says_is_used() -> None:
    assert choose_device("cpu") == CPU
    assert choose_precision("bfloat16", CPU, never) == torch.bfloat16
    assert choose_precision("float32", GPU, never) == torch.float32


def test_a_gpu_without_bfloat16_computes_in_float32_and_refuses_to_pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: including_emulation)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "Old GPU")
    assert choose_precision("auto", GPU, never) == torch.float32
    with refuses("...precision `bfloat16` was requested, but Old GPU does not support it: use `float32`..."):
        choose_precision("bfloat16", GPU, never)


@pytest.mark.parametrize(("slow", "chosen"), [("float32", torch.bfloat16), ("bfloat16", torch.float32)])
def test_a_cpu_uses_what_a_trial_step_shows_to_be_faster(slow: str, chosen: torch.dtype) -> None:
    def trial(precision: torch.dtype) -> None:
        time.sleep(0.02 if str(precision) == f"torch.{slow}" else 0.002)

    assert choose_precision("auto", CPU, trial) == chosen


def test_a_cpu_keeps_float32_where_bfloat16_is_hardly_faster() -> None:
    assert choose_precision("auto", CPU, lambda precision: time.sleep(0.02)) == torch.float32


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with refuses("...device `cuda` was requested, but torch ... finds no GPU: use `cpu`..."):
        choose_device("cuda")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with refuses("...device `cuda:1` was requested, but there are 1 GPUs, numbered from 0..."):
        choose_device("cuda:1")
