"""Capture of the weights of every attention in a network, while it runs.

Hooks on attention modules ask each for the weights of the call that it just answered. Without a capture there are no
hooks: networks run as they always do.

Shape letters of this file: Q  queries    S  sentences
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from heedful.base.errors import UserError, counted
from heedful.base.packed import Layout
from heedful.explain.explanation import Array, AttentionKind, AttentionWeights, TokenSequence
from heedful.explain.recorded_states import (
    GateRecord,
    GateValues,
    LayerStates,
    StateRecord,
    hook_calls,
    hooked,
    record_gates,
    record_states,
)
from heedful.nn.attention.coattention import AlternatingCoAttention, CoAttention
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.evaluation_mode import HookHere, by_equation, evaluation_mode
from heedful.nn.layers.embedding import Embedding
from heedful.nn.layers.images.embedding import ImageEmbedding
from heedful.nn.layers.pooling import FirstPool, LastPool, MeanPool, Pool
from heedful.nn.recurrent.attention import RecurrentAttention

_BLIND: Final = (FirstPool, LastPool, MeanPool)  # their weights do not depend on what a text says


class Capture:
    """The weights of each kind of attention, in the order in which layers computed them."""

    def __init__(self) -> None:
        self._layers: dict[AttentionKind, list[list[Tensor]]] = {}
        self._stepping: dict[int, list[Tensor]] = {}
        self.gates = GateRecord()
        self.states = StateRecord()

    @property
    def kinds(self) -> list[AttentionKind]:
        """The kinds of attention that were seen."""
        return list(self._layers)

    def weights(self, kind: AttentionKind) -> Array:
        """Return the weights of one kind: layer x head x query x key."""
        layers = [torch.cat(calls, dim=1) for calls in self._layers[kind]]
        stacked: Array = torch.stack(layers).cpu().numpy().astype(np.float32)
        return stacked

    def explain(self, kind: AttentionKind, queries: str, keys: str) -> list[AttentionWeights]:
        """Return the weights of one kind with the names of its sequences; none if the network has none of that kind."""
        return [AttentionWeights(kind, self.weights(kind), queries, keys)] if kind in self._layers else []

    def explain_gates(self, sequences: Mapping[str, TokenSequence]) -> tuple[GateValues, ...]:
        """Return the gates of recurrent stacks along these sequences."""
        return self.gates.explain({name: len(sequence) for name, sequence in sequences.items()})

    def explain_states(self, sequences: Mapping[str, TokenSequence]) -> tuple[LayerStates, ...]:
        """Return the hidden states of Transformers along these sequences."""
        return self.states.explain({name: len(sequence) for name, sequence in sequences.items()})

    def add_layer(self, kind: AttentionKind, weights_HNM: Tensor) -> None:
        """Add the weights of one call, which is one layer."""
        self._layers.setdefault(kind, []).append([weights_HNM.float()])

    def add_step(self, kind: AttentionKind, module: nn.Module, weights_HNM: Tensor) -> None:
        """Add the weights of one call of a module that is called step by step: further rows of its layer."""
        if id(module) not in self._stepping:
            self._stepping[id(module)] = []
            self._layers.setdefault(kind, []).append(self._stepping[id(module)])
        self._stepping[id(module)].append(weights_HNM.float())


@contextmanager
def capture_weights(network: nn.Module) -> Iterator[Capture]:
    """Compute attention by its equation and in float32 inside the block, and capture the weights of every call.

    Only calls of this thread do so and are captured: others may use the network at the same time.
    """
    found = Capture()
    shown = [(name, module) for name, module in network.named_modules() if _shows(name, module)]
    with (
        hooked(hook_calls(module, _hook(found, name)) for name, module in shown),
        by_equation(),
        record_gates(network) as found.gates,
        record_states(network) as found.states,
    ):
        yield found


def kind_of(name: str, module: SelfAttention | CrossAttention) -> AttentionKind:
    """Return the kind of an attention with heads, which has this name in its network."""
    if isinstance(module, CrossAttention):
        return "cross"
    if name.startswith("questions."):  # about an image, which has an encoder of its own
        return "question"
    return "decoder" if module.causal else "encoder"


def _shows(name: str, module: nn.Module) -> bool:
    if isinstance(module, CoAttention | AlternatingCoAttention):
        return name == "attention"  # of a question and an image; elsewhere it is a part of a pool
    if isinstance(module, Pool):
        return not isinstance(module, _BLIND) and "letters" not in name.split(".")
    return isinstance(module, SelfAttention | CrossAttention | RecurrentAttention)


def _hook(found: Capture, name: str) -> Any:
    def keep(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        match module:
            case SelfAttention():
                x, layout = inputs
                found.add_layer(kind_of(name, module), between_tokens(module.weights(x, layout), layout, layout))
            case CrossAttention():
                x, layout, memory, memory_layout = inputs
                weights = module.weights(x, layout, memory, memory_layout)
                found.add_layer("cross", between_tokens(weights, layout, memory_layout))
            case RecurrentAttention():
                weights_B1QL = module.alignment.position_weights(output[1].unsqueeze(1), inputs[1].places)
                if len(weights_B1QL) != 1:
                    raise ValueError(
                        f"a recurrent decoder is explained one text at a time, but it has {len(weights_B1QL)}"
                    )
                found.add_step("cross", module, weights_B1QL[0])
            case CoAttention() | AlternatingCoAttention():
                weights_BL, weights_BM = module.weights(*inputs)
                found.add_layer("words", weights_BL.unsqueeze(0))
                found.add_layer("patches", weights_BM.unsqueeze(0))
            case Pool():
                x, layout = inputs
                inner = name.endswith("words.pool")
                found.add_layer("words" if inner else "pool", _in_rows(module.weights(x, layout), layout))

    return keep


def between_tokens(weights_BHLK: Tensor, queries: Layout, keys: Layout, elsewhere: float = 0.0) -> Tensor:
    """Return the weights between packed tokens, head x query x key: 0, or another value, between sentences."""
    packed = weights_BHLK.new_full((weights_BHLK.shape[1], queries.tokens, keys.tokens), elsewhere)
    rows, columns = queries.offsets.tolist(), keys.offsets.tolist()
    for sentence in range(queries.sentences):
        top, bottom, left, right = rows[sentence], rows[sentence + 1], columns[sentence], columns[sentence + 1]
        packed[:, top:bottom, left:right] = weights_BHLK[sentence, :, : bottom - top, : right - left]
    return packed


def _in_rows(weights_NW: Tensor, layout: Layout) -> Tensor:
    """Return the weights of a pool, the mean over features: 1 head, one row per sentence, 0 in other sentences."""
    weights_N = weights_NW.mean(dim=1)
    sentence_N = torch.repeat_interleave(
        torch.arange(layout.sentences, device=weights_N.device), layout.lengths.long(), output_size=layout.tokens
    )
    rows_SN = weights_N.new_zeros(layout.sentences, layout.tokens)
    rows_SN[sentence_N, torch.arange(layout.tokens, device=weights_N.device)] = weights_N
    return rows_SN.unsqueeze(0)


# --- what if a head said nothing: its output is zero while a block runs -----------------------------------------------


Head = tuple[AttentionKind, int, int]  # kind, layer and head, both counted from 0
_MultiHead = SelfAttention | CrossAttention


@contextmanager
def silence_heads(network: nn.Module, heads: Sequence[Head]) -> Iterator[None]:
    """Let heads contribute nothing to this thread's calls in the block: as if their columns of the output were zero."""

    def hook(attention: _MultiHead, head: int) -> RemovableHandle:
        def without(module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
            values = inputs[0].unflatten(-1, (attention.heads, -1)).clone()
            values[..., head, :] = 0
            return (values.flatten(-2),)

        return attention.output.register_forward_pre_hook(HookHere(without))

    with hooked(hook(find_head(network, head), head[2]) for head in heads):
        yield


def find_head(network: nn.Module, head: Head) -> _MultiHead:
    """Return the attention of a head; refuse one that the network does not have."""
    kind, layer, number = head
    known = [(kind_of(name, one), one) for name, one in network.named_modules() if isinstance(one, _MultiHead)]
    layers = [one for of_kind, one in known if of_kind == kind]
    if not 0 <= layer < len(layers) or not 0 <= number < layers[layer].heads:
        others = ", ".join(f"`{one}`" for one in dict.fromkeys(of_kind for of_kind, _ in known))
        has = (
            f"{counted(len(layers), 'layer')} of {counted(layers[0].heads, 'head')}"
            if layers
            else "no heads of this kind" + (f", but has heads of {others}" if others else "")
        )
        raise UserError(f"There is no head {number + 1} in layer {layer + 1} of `{kind}`: the model has {has}.")
    return layers[layer]


# --- gradients next to weights: how much each token of the input would change a prediction ----------------------------
#
#     g(t, s) = |d log P(y_t) / d x_s . x_s|,  x_s the embedding of token or patch s, as shares of each prediction
#
# Gradient times input (Shrikumar et al. 2017) looks at the whole network, where weights are those of one layer:
# attention is not explanation (Jain and Wallace 2019). Shape letters: T  predictions    S  tokens of the input


_MOST: Final = 256  # predictions


def explain_by_gradients(
    network: nn.Module,
    scores: Callable[[], Tensor],
    chosen: Sequence[int],
    queries: str,
    keys: str,
    length: int | None = None,
) -> list[AttentionWeights]:
    """Return the shares of the first embedded sequence in each prediction; none if nothing is embedded or predicted.

    With `length`, it is the first one of this length: before words, a network may embed their letters. Each prediction
    costs a backward pass: there are none for more than 256. `scores` runs the network and returns the scores of each
    prediction, T x classes; `chosen` are the predicted ones. A single score, such as a number, is explained itself.
    """
    if not 0 < len(chosen) <= _MOST:
        return []
    with differentiable(network), _embeddings(network) as embedded:
        log_p_TV = scores().float()
        if log_p_TV.shape[1] > 1:
            log_p_TV = log_p_TV.log_softmax(dim=1)
        read = next((one for one in embedded if length in (None, len(one))), None)
        if read is None:
            return []
        rows = []
        for row, token in enumerate(chosen):
            (gradient_SE,) = torch.autograd.grad(log_p_TV[row, token], read, retain_graph=True)
            rows.append((gradient_SE * read).sum(dim=1).abs().detach())
    sizes_TS = torch.stack(rows)
    shares_TS = sizes_TS / sizes_TS.sum(dim=1, keepdim=True).clamp(min=1e-30)
    return [AttentionWeights("gradient", shares_TS[None, None].cpu().numpy(), queries, keys)]


@contextmanager
def differentiable(network: nn.Module) -> Iterator[None]:
    """Compute by the equations, without dropout and with gradients, whatever the caller does."""
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        _without_cudnn(next(network.parameters()).device),
        evaluation_mode(network),
        by_equation(),
    ):
        yield


_CUDNN: Final = Lock()  # two threads that restored each other's settings would leave cuDNN turned off


@contextmanager
def _without_cudnn(device: torch.device) -> Iterator[None]:
    """Turn cuDNN off, for the whole process: its recurrent networks have gradients in training alone."""
    if device.type == "cpu":
        yield
        return
    with _CUDNN, torch.backends.cudnn.flags(enabled=False):
        yield


@contextmanager
def _embeddings(network: nn.Module) -> Iterator[list[Tensor]]:
    """Collect what embeddings return inside the block, as tensors that have gradients."""
    found: list[Tensor] = []

    def keep(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        found.append(output.detach().requires_grad_())
        return found[-1]

    embeddings = [one for one in network.modules() if isinstance(one, Embedding | ImageEmbedding)]
    with hooked(hook_calls(one, keep) for one in embeddings):
        yield found
