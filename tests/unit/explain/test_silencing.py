"""What if a head said nothing: the same as a model whose head is zero."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses

from heedful.explain.capture import Head
from heedful.tasks.translate.model import Translator

TEXTS = ["ant bee cat", "dog eel", "fox gnu hen ant bee cat"]


def _attention(network: Any, head: Head) -> Any:
    if head[0] == "encoder":
        return network.encoder.blocks[head[1]].attention
    block = network.decoder.blocks[head[1]]
    return block.cross if head[0] == "cross" else block.attention


@pytest.mark.parametrize("head", [("encoder", 0, 1), ("decoder", 0, 0), ("cross", 0, 1)])
def test_a_silenced_head_is_one_whose_output_is_zero(reversing: Translator, head: Head) -> None:
    zeroed = deepcopy(reversing)
    output = _attention(zeroed.network, head).output.weight
    width = output.shape[1] // 2
    with torch.no_grad():
        output[:, head[2] * width : (head[2] + 1) * width] = 0
    with reversing.silenced(head):
        found = reversing.translate_detailed(TEXTS, max_extra=1)
        explained = reversing.explain(TEXTS[0], TEXTS[0])
    expected = zeroed.translate_detailed(TEXTS, max_extra=1)
    assert [[one.tokens for one in some] for some in found] == [[one.tokens for one in some] for some in expected]
    assert found[0][0].score == pytest.approx(expected[0][0].score, abs=1e-5)
    assert found != reversing.translate_detailed(TEXTS, max_extra=1), "the block is over"
    for one, other in zip(explained.attentions, zeroed.explain(TEXTS[0], TEXTS[0]).attentions, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)


def test_a_head_that_is_not_there_is_refused(reversing: Translator) -> None:
    with (
        refuses("...There is no head 3 in layer 1 of `cross`: the model has 1 layer of 2..."),
        reversing.silenced(("cross", 0, 2)),
    ):
        pass
    with (
        refuses("...There is no head 1 in layer 1 of `pool`: the model has no heads of..."),
        reversing.silenced(("pool", 0, 0)),
    ):
        pass


def test_on_a_gpu_whose_steps_may_be_recorded_no_head_is_silenced(
    reversing: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "device", torch.device("cuda"))
    with (
        refuses("...Heads are silenced on a CPU alone: load the model with the device `cpu`..."),
        reversing.silenced(("cross", 0, 0)),
    ):
        pass
