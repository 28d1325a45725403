"""The time of one recurrent layer, of one self-attention layer and of its restriction over the length of sequences.

    python -m benchmarks.cpu.layer_cost [--device auto] [--merge] [--tiny]
    python -m benchmarks.cpu.layer_cost --device cpu --growth

Vaswani et al. 2017, table 1, as a measurement. For sequences of n vectors of width d the table has, per layer,

    self-attention    O(n^2 d) operations, O(1) of them in sequence
    recurrent         O(n d^2) operations, O(n) of them in sequence

so that by its terms alone attention is the cheaper one where n < d. Counted in products with what layers really have
(`heedful plot layer-cost` counts them while they run), a token costs 2 n d in attention (scores, and the sum of
values), 4 d^2 more with the projections around it, 8 d^2 in an LSTM and 6 d^2 in a GRU. The lengths at which these are
equal stand beside those at which the times are.

The number of tokens is the same at every length (n tokens a sequence, and so many sequences), so that only the length
changes. A recurrent layer has n steps, each of all sequences side by side: the longer they are, the fewer there are to
fill a step, which the counts do not know of. Sequences are equally long: the best case of every layer.

lstm, gru          `RecurrentStack`: one layer, one direction
self_attention     `SelfAttention`: heads of 64, with its projections
restricted         `SelfAttention` within a radius of 64 tokens, with its projections
convolution        `Convolution` of 7 tokens, O(k n d^2)
separable          `SeparableConvolution` of 7 tokens, O(k n d + n d^2)

attention_alone    self-attention without projections: q, k and v are given

forward            without a graph, as when a model is used
both               forward and backward, with the gradients of inputs and weights

Values are float32 on a CPU; on a GPU bfloat16, in which attention computes, and recurrence in the type that it chooses
by itself (float32, by cuDNN). Times are medians over stretches of calls, after some to warm up; on a GPU by its own
events. A crossing is the length from which on attention is the slower one, interpolated in log n.

The growth of restricted attention is the time of one sequence of 8,192 tokens over that of one of 1,024, forward and
backward: 8 if it is linear, 64 for the products of unrestricted attention, which is measured next to it. One sequence
may not fill a GPU, whose time is then that of launching kernels; `..._growth_filled` is that of a sequence among as
many as the number of tokens allows, from the times at equal numbers of tokens.
`--merge` keeps what is recorded of the other kind of device; `--growth` measures this growth alone, and keeps all else.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch
from benchmarks.shared.detailed_results import Detailed, recorded, save
from torch import Tensor, nn

from heedful.base.devices import choose_device, keep_freed_memory
from heedful.base.packed import Layout
from heedful.metrics.recorded_results import RESULTS, machine
from heedful.nn.attention.backends import PackedHeads, automatic
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.attention.restricted import Restricted
from heedful.nn.layers.convolutions.centred import Convolution, SeparableConvolution
from heedful.nn.recurrent.stack import CellKind, RecurrentStack

NAME = "layer_cost"
HEAD_WIDTH = 64
RECURRENT: tuple[CellKind, ...] = ("lstm", "gru")
ATTENTION = ("attention_alone", "self_attention")
CONVOLUTIONS = {"convolution": Convolution, "separable": SeparableConvolution}
LAYERS = (*RECURRENT, *ATTENTION, "restricted", *CONVOLUTIONS)
RADIUS = 64
KERNEL = 7
GROWTH = (1024, 8192)  # tokens of one sequence
PASSES = ("forward", "both")

Pass = Literal["forward", "both"]
Times = dict[str, dict[int, float]]  # milliseconds of each layer at each length


@dataclass(frozen=True)
class Scale:
    """What is measured, and for how long."""

    tokens: int
    lengths: tuple[int, ...]
    widths: tuple[int, ...] = (512, 256)
    stretches: int = 7
    stretch_seconds: float = 0.15


def lengths_to(longest: int, shortest: int = 16) -> tuple[int, ...]:
    """Powers of two."""
    return tuple(2**power for power in range(int(math.log2(shortest)), int(math.log2(longest)) + 1))


SCALES = {  # a GPU's clock is steady: short stretches do
    "cpu": Scale(4096, lengths_to(2048)),
    "cuda": Scale(32_768, lengths_to(8192), stretches=5, stretch_seconds=0.03),
}
TINY = Scale(256, lengths_to(64), widths=(64,), stretches=2, stretch_seconds=0.001)


# --- layers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """A layer with its inputs, ready to be called."""

    forward: Callable[[], Tensor]
    leaves: Sequence[Tensor]  # that gradients are of

    def call(self, which: Pass) -> Callable[[], None]:
        """A function that runs a pass once."""
        return self._both() if which == "both" else self._forward

    @torch.no_grad()
    def _forward(self) -> None:
        self.forward()

    def _both(self) -> Callable[[], None]:
        gradient = torch.randn_like(self.forward().detach())

        def both() -> None:
            for leaf in self.leaves:
                leaf.grad = None
            self.forward().backward(gradient)

        return both


def make_layer(name: str, width: int, length: int, tokens: int, device: torch.device) -> Layer:
    torch.manual_seed(0)
    layout = Layout.of([length] * (tokens // length)).to(device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    heads = max(1, width // HEAD_WIDTH)

    def values(*shape: int) -> Tensor:
        return torch.randn(layout.tokens, *shape, device=device, dtype=dtype, requires_grad=True)

    if name == "attention_alone":
        q, k, v = (values(heads, width // heads) for _ in range(3))
        return Layer(lambda: automatic(PackedHeads(q, k, v, layout, layout), False, 0.0), (q, k, v))
    x = values(width)
    if name in ("self_attention", "restricted"):
        backend = Restricted(RADIUS) if name == "restricted" else automatic
        attention = SelfAttention(width, heads, backend=backend).to(device)
        return Layer(lambda: attention(x, layout), with_weights(x, attention))
    if name in CONVOLUTIONS:
        convolution = CONVOLUTIONS[name](width, KERNEL).to(device)
        return Layer(lambda: convolution(x, layout), with_weights(x, convolution))
    stack = RecurrentStack(next(kind for kind in RECURRENT if kind == name), width, width).to(device)
    return Layer(lambda: stack(x, layout)[0], with_weights(x, stack))


def with_weights(x: Tensor, module: nn.Module) -> tuple[Tensor, ...]:
    return x, *module.parameters()


# --- times ------------------------------------------------------------------------------------------------------------


def milliseconds(call: Callable[[], None], scale: Scale, device: torch.device) -> float:
    """Of one call: the median over stretches of as many as fill the time of one."""
    for _ in range(3):
        call()
    once = stretch(call, 1, device)
    calls = max(1, min(200, math.ceil(scale.stretch_seconds / once)))
    return 1000 * median(stretch(call, calls, device) / calls for _ in range(scale.stretches))


def stretch(call: Callable[[], None], calls: int, device: torch.device) -> float:
    """The seconds of some calls."""
    if device.type == "cpu":
        began = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - began
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    first.record()
    for _ in range(calls):
        call()
    last.record()
    torch.cuda.synchronize(device)
    return first.elapsed_time(last) / 1000


def measure(width: int, scale: Scale, device: torch.device) -> dict[str, Times]:
    """The times of all layers at all lengths, by pass; printed as they come."""
    times: dict[str, Times] = {which: {name: {} for name in LAYERS} for which in PASSES}
    for which in PASSES:
        print(f"\n{device.type}, width {width}, {which}: milliseconds for {scale.tokens:,} tokens")
        print("".join(f"{title:>17}" for title in ("n", "sequences", *LAYERS)))
        for length in scale.lengths:
            for name in LAYERS:
                call = make_layer(name, width, length, scale.tokens, device).call(which)  # type: ignore[arg-type]
                times[which][name][length] = milliseconds(call, scale, device)
            cells = (f"{times[which][name][length]:17,.3f}" for name in LAYERS)
            print(f"{length:17,}{scale.tokens // length:17,}{''.join(cells)}", flush=True)
    return times


def growth(width: int, scale: Scale, device: torch.device, lengths: tuple[int, int] = GROWTH) -> dict[str, float]:
    """The time of one long sequence over that of one short one, forward and backward."""
    found = {}
    for name in ("restricted", "self_attention"):
        short, long = (
            milliseconds(make_layer(name, width, length, length, device).call("both"), scale, device)
            for length in lengths
        )
        found[name] = long / short
        print(
            f"{name}: {short:,.3f} ms at {lengths[0]:,} tokens, {long:,.3f} at {lengths[1]:,}: {found[name]:.2f} times"
        )
    return found


# --- crossings --------------------------------------------------------------------------------------------------------


def crossing(attention: Mapping[int, float], recurrent: Mapping[int, float]) -> float | None:
    """The length from which on attention is slower, linear in log n between the two measured ones around it.

    None where there is no such length: attention is the faster one at the longest, or the slower one at every length.
    """
    lead = [(math.log(n), math.log(attention[n] / recurrent[n])) for n in sorted(attention)]
    if lead[-1][1] <= 0:
        return None
    for (x0, y0), (x1, y1) in reversed(list(pairwise(lead))):
        if y0 <= 0 < y1:
            return math.exp(x0 + (x1 - x0) * y0 / (y0 - y1))
    return None


def equal_counts(recurrent: str, attention: str, width: int) -> float:
    """The length at which both have as many products: a n d + b d^2 of attention, c d^2 of recurrence."""
    of_recurrence = {"lstm": 8, "gru": 6}[recurrent]
    around_attention = {"attention_alone": 0, "self_attention": 4}[attention]
    return (of_recurrence - around_attention) / 2 * width


@dataclass(frozen=True)
class Comparison:
    """One recurrent layer beside one of attention."""

    width: int
    which: str
    recurrent: str
    attention: str
    measured: float | None
    shortest: float  # the recurrent layer's time over that of attention, at the shortest length
    longest: float

    @property
    def key(self) -> str:
        return f"{self.which}_{self.width}_{self.recurrent}_{self.attention}"

    @property
    def counted(self) -> float:
        return equal_counts(self.recurrent, self.attention, self.width)

    def row(self) -> str:
        if self.measured is not None:
            found = f"{self.measured:,.0f}"
        else:
            found = "none: attention is " + ("slower" if self.longest < 1 else "faster")
        names = f"{self.width:6}  {self.which:8} {self.recurrent:5} {self.attention:16}"
        return f"{names}{found:>28}{self.counted:>10,.0f}{self.width:>8}{self.shortest:>12.2f}{self.longest:>10.2f}"


def compare(width: int, times: Mapping[str, Times]) -> Iterator[Comparison]:
    for which in PASSES:
        for recurrent in RECURRENT:
            for attention in ATTENTION:
                ours, theirs = times[which][attention], times[which][recurrent]
                ratios = [theirs[n] / ours[n] for n in sorted(ours)]
                measured = crossing(ours, theirs)
                yield Comparison(width, which, recurrent, attention, measured, ratios[0], ratios[-1])


def show(comparisons: Sequence[Comparison], scale: Scale) -> None:
    print("\nThe length from which on attention is slower: measured, by counted products, by n^2 d = n d^2;")
    print("and how many times longer the recurrent layer takes at the shortest and at the longest length")
    ends = (f"at {scale.lengths[0]:,}", f"at {scale.lengths[-1]:,}")
    print(f"{'width':>6}  {'pass':22}{'':10}{'measured':>27}{'counted':>10}{'d':>8}{ends[0]:>12}{ends[1]:>10}")
    for comparison in comparisons:
        print(comparison.row())


def growth_figures(grown: Mapping[str, float], section: str) -> dict[str, float]:
    return {f"{section}_radius_growth": grown["restricted"], f"{section}_attention_growth": grown["self_attention"]}


def filled_growth(times: Mapping[str, Times], section: str) -> dict[str, float]:
    """Return how much longer the longer sequence takes where both lengths fill the device; nothing if not measured."""
    short, long = GROWTH
    found = {}
    for figure, layer in (("radius", "restricted"), ("attention", "self_attention")):
        both = times["both"][layer]
        if short in both and long in both:
            found[f"{section}_{figure}_growth_filled"] = long / short * both[long] / both[short]
    return found


# --- the program ------------------------------------------------------------------------------------------------------


def figures_of(comparisons: Sequence[Comparison], scale: Scale, section: str) -> dict[str, float]:
    found = {}
    for one in comparisons:
        if one.measured is not None:
            found[f"{section}_crossing_{one.key}"] = one.measured
        found[f"{section}_ratio_{one.key}_n{scale.lengths[0]}"] = one.shortest
        found[f"{section}_ratio_{one.key}_n{scale.lengths[-1]}"] = one.longest
    return found


def section_of(curves: Mapping[int, Any], comparisons: Sequence[Comparison], scale: Scale) -> dict[str, Any]:
    """All that is recorded of one kind of device, which may not be the machine that the file names."""
    return {
        "machine": machine(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "tokens": scale.tokens,
        "milliseconds": curves,  # by width, pass, layer and length
        "crossings": {
            one.key: {"measured": one.measured, "counted": one.counted, "table": one.width} for one in comparisons
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="cpu or cuda; by default a GPU where there is one")
    parser.add_argument("--threads", type=int, help="of a CPU; by default what torch chooses")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded of the other kind of device")
    parser.add_argument("--growth", action="store_true", help="measure the growth of restricted attention alone")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the program out; records nothing")
    options = parser.parse_args()
    device = choose_device(options.device)
    scale = TINY if options.tiny else SCALES[device.type]
    if options.threads:
        torch.set_num_threads(options.threads)
    keep_freed_memory()
    section, other = ("cpu", "gpu") if device.type == "cpu" else ("gpu", "cpu")
    if options.growth:
        grown = growth(scale.widths[0], scale, device, (256, 2048) if options.tiny else GROWTH)
        before = recorded(NAME, options.results)
        if not options.tiny:
            known = {**before.details, f"{section}_growth": {"machine": machine(), "torch": torch.__version__, **grown}}
            found = Detailed({**before.figures, **growth_figures(grown, section)}, known)
            save(NAME, found, options.results, seeds=[0])
        return
    curves = {width: measure(width, scale, device) for width in scale.widths}
    comparisons = [one for width, times in curves.items() for one in compare(width, times)]
    show(comparisons, scale)
    grown = growth(scale.widths[0], scale, device, (256, 2048) if options.tiny else GROWTH)
    if options.tiny:
        return
    before = recorded(NAME, options.results) if options.merge else Detailed()
    kept = {key: figure for key, figure in before.figures.items() if key.startswith(f"{other}_")}
    details = {key: value for key, value in before.details.items() if key.startswith(other)}
    found = Detailed(
        kept
        | figures_of(comparisons, scale, section)
        | filled_growth(curves[scale.widths[0]], section)
        | growth_figures(grown, section),
        details | {section: section_of(curves, comparisons, scale)},
    )
    save(NAME, found, options.results, seeds=[0])


if __name__ == "__main__":
    main()
