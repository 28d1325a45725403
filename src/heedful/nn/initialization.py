"""Initial weights."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from heedful.nn.alignments.base import Alignment
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.feedforward import FeedForward, SwiGLU
from heedful.nn.layers.positions import Learned
from heedful.nn.recurrent.stack import RecurrentStack, init_recurrent

_ATTENTION_GAIN: Final = 2**-0.5
# What weights are drawn by. Functions of `nn.init` that call others of these are handed the generator themselves.
_DRAWS: Final = (
    *(Tensor.normal_, Tensor.uniform_, torch.randn, torch.rand),
    *(nn.init.uniform_, nn.init.normal_, nn.init.trunc_normal_, nn.init.kaiming_uniform_, nn.init.kaiming_normal_),
    *(nn.init.xavier_uniform_, nn.init.xavier_normal_, nn.init.orthogonal_),
)
Fill = Callable[[Tensor, float], object]  # fills a matrix with initial values, times a gain


@torch.no_grad()
def init_xavier(model: nn.Module) -> None:
    """Initialize matrices uniformly (Glorot and Bengio 2010), biases to 0, norms to 1, learned positions to N(0, 1/E).

    A matrix that stacks several projections is initialized as the single ones would be: fusing does not change the
    distribution. Projections of attention are smaller by sqrt(1/2), as in `torch.nn.MultiheadAttention` and fairseq:
    without it, post-norm models with high learning rates do not learn to attend (Multi30k with a rate of 0.005: 13 BLEU
    without it, 39 with it). Recurrent stacks are initialized by `init_recurrent`; alignments initialize themselves.
    """
    init_linear(model, nn.init.xavier_uniform_, _ATTENTION_GAIN)


@torch.no_grad()
def init_linear(model: nn.Module, fill: Fill, attention_gain: float = 1.0) -> None:
    """Fill the matrices of linear maps one by one, those that are stacked too; biases are 0."""
    for module in model.modules():
        match module:
            case nn.Linear():
                _fill(module, [module.out_features], fill)
            case Learned():
                nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
    for module in model.modules():
        match module:
            case SelfAttention():
                _fill(module.project, module.rows, fill, attention_gain)
            case CrossAttention():
                _fill(module.project_query, [module.project_query.out_features], fill, attention_gain)
                _fill(module.project_memory, module.rows, fill, attention_gain)
            case SwiGLU():
                _fill(module.into, [module.into.out_features // 2] * 2, fill)
            case RecurrentStack():
                init_recurrent(module)


def _fill(linear: nn.Linear, rows: Sequence[int], fill: Fill, gain: float = 1.0) -> None:
    """Initialize the matrices that are stacked in a linear map, with these numbers of rows."""
    for matrix in linear.weight.split(list(rows)):
        fill(matrix, gain)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


@torch.no_grad()
def init_scaled(model: nn.Module, layers: int, deviation: float = 0.02) -> None:
    """Initialize matrices and embeddings to N(0, deviation^2), biases to 0 and norms to 1      Radford et al. 2019, 2.3

    The matrices that write to the residual stream, two in each of the layers, are smaller by sqrt(1 / (2 layers)), so
    that the sum over all of them has the same variance however many there are. Alignments initialize themselves.
    """
    for parameter in _matrices(model):
        nn.init.normal_(parameter, std=deviation)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        match module:
            case SelfAttention():
                nn.init.normal_(module.output.weight, std=deviation / math.sqrt(2 * layers))
            case FeedForward() | SwiGLU():
                nn.init.normal_(module.out.weight, std=deviation / math.sqrt(2 * layers))


@torch.no_grad()
def init_normal(model: nn.Module, deviation: float = 0.02, truncated: bool = True) -> None:
    """Initialize matrices and embeddings to N(0, deviation^2), biases to 0 and norms to 1.

    The normal distribution is truncated at two deviations, as in the released code of Devlin et al. 2019, or not.
    Alignments initialize themselves.
    """
    for parameter in _matrices(model):
        if truncated:
            nn.init.trunc_normal_(parameter, std=deviation, a=-2 * deviation, b=2 * deviation)
        else:
            nn.init.normal_(parameter, std=deviation)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def _matrices(model: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the matrices of a model, but those of alignments."""
    alignments = [module for module in model.modules() if isinstance(module, Alignment)]
    own = {parameter for module in alignments for parameter in module.parameters()}
    return (parameter for parameter in model.parameters() if parameter.ndim > 1 and parameter not in own)


def _whole(x: Tensor) -> Tensor:
    """Return what a tensor is a view of, or itself."""
    with torch._C.DisableTorchFunction():
        return x if x._base is None else x._base


class OwnDraws(TorchFunctionMode):
    """Inside the block, this thread's weights are not drawn: those of a network that is read from files are replaced.

    Drawing them would take longer than reading them. What is not a parameter yet is drawn from a generator of its own:
    drawn from torch's global one, it would change what another thread trains, and what the caller's program draws next.
    """

    def __init__(self) -> None:
        super().__init__()
        self._generator = torch.Generator("cpu").manual_seed(0)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if func in _DRAWS:
            drawn = args[0] if args else given.get("tensor")
            if isinstance(drawn, Tensor) and isinstance(_whole(drawn), nn.Parameter):
                return drawn
            if given.get("generator") is None:
                given["generator"] = self._generator
        return func(*args, **given)
