"""What the laws of decoding share: tiny random models of every family."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from tests.contract.families import CLASSIFIERS, FAMILIES, MASKED, PAIRS, VALUES, config_of, open_branches
from torch import Tensor

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.nn.attention.backends import attention_weights
from heedful.nn.attention.multi_head import CrossAttention


@pytest.fixture(scope="session", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """Every family, one after the other."""
    return str(request.param)


@pytest.fixture(
    scope="session",
    params=[
        *FAMILIES,
        *VALUES,
        *(pytest.param(name, marks=pytest.mark.wide) for name in PAIRS if name not in VALUES),
    ],
)
def any_family(request: pytest.FixtureRequest) -> str:
    """Every family and every value of every option, one after the other; in the wide sweep every pair of values."""
    return str(request.param)


@pytest.fixture(scope="session", params=CLASSIFIERS)
def classifier(request: pytest.FixtureRequest) -> str:
    """Every classifier, one after the other."""
    return str(request.param)


@pytest.fixture(scope="session", params=MASKED)
def masked(request: pytest.FixtureRequest) -> str:
    """Every masked language model, one after the other."""
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
        model = build_model(config_of(family, dropout=0.0), words, words).double().eval()
        open_branches(model)
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
        source = Packed.of([[*each, END] for each in sources])
        target = Packed.of([[BEGIN, *each] for each in targets])
        logits, sizes = model(source, target).split([len(each) + 1 for each in targets]), map(len, sources)
        places = [size + 1 for size in sizes]
        cross = _watched(model)
        weights = stepped(model, source, targets) if cross is None else watched(model, cross, source, target)
        attention = [
            weights_TL[: len(each) + 1, :size] for weights_TL, each, size in zip(weights, targets, places, strict=True)
        ]
        return list(zip(logits, attention, strict=True))

    def watched(model: EncoderDecoder, cross: CrossAttention, source: Packed, target: Packed) -> Sequence[Tensor]:
        """The weights of the layer whose attention is shown, by the equation."""
        seen: list[Tensor] = []

        def watch(cross: CrossAttention, inputs: tuple[Any, ...]) -> None:
            x_NE, layout, memory_ME, memory_layout = inputs
            q_NHD = cross.project_query(x_NE).unflatten(1, (cross.heads, -1))
            k_MHD = cross.keys_and_values(memory_ME)[0]
            seen.append(attention_weights(q_NHD, k_MHD, layout, memory_layout, causal=False).mean(1))

        handle = cross.register_forward_pre_hook(watch)
        model(source, target)
        handle.remove()
        return list(seen[0])

    def stepped(model: EncoderDecoder, source: Packed, targets: Sequence[Sequence[int]]) -> Sequence[Tensor]:
        """The weights of a decoder that has others, row by row: its steps are compared with equations elsewhere."""
        state, made = model.decoder.start(model.encoder(source), 1, aligned=True), []
        for place in range(max(map(len, targets)) + 1):
            last = [BEGIN if not place else each[min(place, len(each)) - 1] if each else BEGIN for each in targets]
            _, state = model.decoder.step(torch.tensor(last), state)
            assert state.attention_RL is not None
            made.append(state.attention_RL)
        return list(torch.stack(made, dim=1))

    return foresee


def _watched(model: EncoderDecoder) -> CrossAttention | None:
    """The attention over the memory that is shown, where it is the usual one."""
    decoder = model.decoder
    if not isinstance(decoder, TransformerDecoder):
        return None
    cross = list(decoder.blocks)[-2:][0].get_submodule("cross")
    return cross if type(cross) is CrossAttention else None
