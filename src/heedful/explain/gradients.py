"""Gradients next to weights: how much each token of the input would change a prediction.

    g(t, s) = |d log P(y_t) / d x_s . x_s|,  x_s the embedding of token or patch s, as shares of each prediction

Gradient times input (Shrikumar et al. 2017) looks at the whole network, where weights are those of one layer:
attention is not explanation (Jain and Wallace 2019).

Shape letters of this file: T  predictions    S  tokens of the input
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.explain.capture import by_equation
from heedful.explain.explanation import AttentionWeights
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.nn.layers.embedding import Embedding
from heedful.nn.layers.images.embedding import ImageEmbedding

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
    prediction, T x classes; `chosen` are the predicted ones.
    """
    if not 0 < len(chosen) <= _MOST:
        return []
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.backends.cudnn.flags(enabled=False),  # its recurrent networks have gradients in training alone
        evaluation_mode(network),
        by_equation(network),
        _embeddings(network) as embedded,
    ):
        log_p_TV = scores().float().log_softmax(dim=1)
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
def _embeddings(network: nn.Module) -> Iterator[list[Tensor]]:
    """Collect what embeddings return inside the block, as tensors that have gradients."""
    found: list[Tensor] = []

    def keep(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        found.append(output.detach().requires_grad_())
        return found[-1]

    hooks = [
        module.register_forward_hook(keep)
        for module in network.modules()
        if isinstance(module, Embedding | ImageEmbedding)
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
