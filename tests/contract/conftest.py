"""What the laws of decoding share: tiny random models of every family."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.config.schema import TransformerModel
from heedful.data.tokenizer import BEGIN, END
from heedful.models.build import build_model
from heedful.models.families import EncoderDecoder, set_precision
from heedful.nn.attention import CrossAttention
from heedful.nn.backends import attention_weights
from heedful.packed import Packed

FAMILIES: dict[str, dict[str, Any]] = {
    "post-sinusoidal": {"norm": "post", "positions": "sinusoidal"},
    "pre-learned-swiglu": {"norm": "pre", "positions": "learned", "activation": "swiglu", "tie": "none"},
    "pre-halves-shallow": {"norm": "pre", "positions": "sinusoidal_halves", "decoder_layers": 1, "tie": "decoder"},
    "post-deep-narrow": {"decoder_layers": 3, "heads": 1, "width": 8},
    "post-rope": {"norm": "post", "positions": "rope"},
    "pre-rope": {"norm": "pre", "positions": "rope", "tie": "none"},
    "post-alibi": {"norm": "post", "positions": "alibi"},
    "pre-alibi-three-heads": {"norm": "pre", "positions": "alibi", "heads": 3, "width": 15},
    "post-relative": {"norm": "post", "positions": "relative", "max_distance": 3},
    "pre-relative": {"norm": "pre", "positions": "relative", "max_distance": 30},
}


@pytest.fixture(scope="session", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """Every family, one after the other."""
    return str(request.param)


@pytest.fixture(scope="session")
def families() -> list[str]:
    """All families at once."""
    return list(FAMILIES)


@pytest.fixture(scope="session")
def model_of() -> Callable[..., EncoderDecoder]:
    """Make a tiny random model in float64 whose every parameter counts, and which ends a sentence now and then.

    The same model is made once: copy it to change it.
    """

    @cache
    def model_of(family: str, seed: int = 1, words: int = 24) -> EncoderDecoder:
        torch.manual_seed(seed)
        config = {"width": 16, "heads": 2, "layers": 2, "inner": 24, "dropout": 0.0, "max_positions": 40}
        model = build_model(TransformerModel(**(config | FAMILIES[family])), words, words).double().eval()
        set_precision(model, torch.float64)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
            model.decoder.output.weight[END].mul_(2)
        return model

    return model_of


@pytest.fixture(scope="session")
def foresee() -> Callable[..., list[tuple[Tensor, Tensor]]]:
    """What a model says of whole targets, by one parallel forward pass."""

    @torch.no_grad()
    def foresee(
        model: EncoderDecoder, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[tuple[Tensor, Tensor]]:
        """For each target, after `<s>` and after each token: the logits, and the attention over source and `</s>`."""
        seen: list[Tensor] = []

        def watch(cross: CrossAttention, inputs: tuple[Any, ...]) -> None:
            x_NE, layout, memory_ME, memory_layout = inputs
            q_NHD = cross.project_query(x_NE).unflatten(1, (cross.heads, -1))
            k_MHD = cross.keys_and_values(memory_ME)[0]
            seen.append(attention_weights(q_NHD, k_MHD, layout, memory_layout, causal=False).mean(1))

        blocks = model.get_submodule("decoder.blocks")
        assert isinstance(blocks, torch.nn.ModuleList)
        watched = list(blocks)[-2:][0].get_submodule("cross")
        handle = watched.register_forward_pre_hook(watch)
        source, target = ([*each, END] for each in sources), ([BEGIN, *each] for each in targets)
        logits_NV = model(Packed.of(list(source)), Packed.of(list(target)))
        handle.remove()
        sizes = [len(each) + 1 for each in targets]
        attention = [
            weights_TL[:size, : len(each) + 1] for weights_TL, size, each in zip(seen[0], sizes, sources, strict=True)
        ]
        return list(zip(logits_NV.split(sizes), attention, strict=True))

    return foresee
