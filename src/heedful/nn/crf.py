"""The linear-chain conditional random field: one label for each word of a sentence, chosen together.

Lafferty et al. 2001; over the states of a network, Lample et al. 2016, 2.2.

Shape letters of this file: C  labels
"""

from dataclasses import dataclass, fields
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from heedful.base.label_schemes import AllowedTransitions
from heedful.base.packed import IGNORED, Layout
from heedful.nn.kernels import use_kernels
from heedful.nn.padding import pad, unpad

_LEAST: Final = 1e-300  # of a sum that is divided by
_MOST: Final = 1e200  # of a sum that only counts times a probability: infinity times 0 would not be a number
_FORBIDDEN: Final = -1e6  # the score of a forbidden transition in a loss: exp of it is 0, and no value is infinite


def transition_matrix(rules: AllowedTransitions) -> Bool[Tensor, "C_plus_1 C_plus_1"]:
    """Return which transitions are allowed, as `LinearChain` takes them; sentences of all lengths must have a path."""
    if not any(start and rules.follow[label][label] and rules.end[label] for label, start in enumerate(rules.start)):
        raise ValueError("no label may start, continue and end a sentence: some lengths would have no path")
    rows = [[*follow, end] for follow, end in zip(rules.follow, rules.end, strict=True)]
    return torch.tensor([*rows, [*rules.start, True]])


@dataclass(frozen=True, eq=False)
class BestPaths:
    """The labels with the highest score for each sentence, and these scores."""

    labels_N: Int[Tensor, "N"]
    scores_B: Float[Tensor, "B"]  # 0 for a sentence without words


class LinearChain(nn.Module):
    """s(y) = a[y_1] + sum_i x_i[y_i] + sum_i T[y_(i-1), y_i] + b[y_n],  P(y) = exp s(y) / sum over y' of exp s(y')

    x_i are a network's scores of the labels of word i; start a, transitions T and end b are learned. They start at 0,
    where the labels of a sentence are independent. `allowed` has a row for the label before and a column for the label
    after, False where the transition is forbidden; its last row is the start of a sentence, its last column the end.
    Forbidden transitions are never part of a best path, and have probability 0. A sentence whose own true labels are
    forbidden (a mistake in the data) is trained as if everything were allowed, so that its loss is finite too.

    All sums are in float32 or wider. Nothing waits for the device.
    """

    allowed: Bool[Tensor, "C_plus_1 C_plus_1"] | None

    def __init__(self, labels: int, allowed: Bool[Tensor, "C_plus_1 C_plus_1"] | None = None) -> None:
        super().__init__()
        if allowed is not None and allowed.shape != (labels + 1, labels + 1):
            raise ValueError(f"transitions of shape {tuple(allowed.shape)} for {labels} labels and the two ends")
        self.start = nn.Parameter(torch.zeros(labels))
        self.transitions = nn.Parameter(torch.zeros(labels, labels))
        self.end = nn.Parameter(torch.zeros(labels))
        self.register_buffer("allowed", allowed, persistent=False)  # it follows from the names of the labels

    def loss(self, scores_NC: Float[Tensor, "N C"], labels_N: Int[Tensor, "N"], layout: Layout) -> Float[Tensor, ""]:
        """Return -log P(labels), summed over sentences. A sentence ends before its first label that is IGNORED."""
        if not layout.tokens:
            return scores_NC.sum().to(_wide(scores_NC))
        x_NC = _normalize(scores_NC)
        truth = _Truth.of(labels_N, layout)
        chosen_NC = truth.one_hot(x_NC)
        true_score = (x_NC * chosen_NC).sum()  # for all sentences together: every score times how often it occurs
        marks_N1 = truth.inside_N.unsqueeze(1)
        counts_CC = chosen_NC.roll(1, 0).T @ (chosen_NC * marks_N1)
        true_score = true_score + (counts_CC * self.transitions.to(x_NC.dtype)).sum()
        true_score = true_score + (chosen_NC * truth.first_N.unsqueeze(1)).sum(0) @ self.start.to(x_NC.dtype)
        true_score = true_score + (chosen_NC * truth.last_N.unsqueeze(1)).sum(0) @ self.end.to(x_NC.dtype)
        chain = self._chain(x_NC, layout, truth.lengths_B, self._faultless(truth, labels_N, layout))
        return chain.log_partition().sum() - true_score

    def marginals(self, scores_NC: Float[Tensor, "N C"], layout: Layout) -> Float[Tensor, "N C"]:
        """Return the probability of each label of each word, over all paths of its sentence. No gradients."""
        if not layout.tokens:
            return scores_NC
        with torch.no_grad():
            x_NC = _normalize(scores_NC)
            sums = _Sums.over(*self._chain(x_NC, layout, layout.lengths, None).padded)
            p_LBC, *_ = sums.probabilities()
            return unpad(p_LBC.transpose(0, 1).to(x_NC.dtype), layout)

    def best(self, scores_NC: Float[Tensor, "N C"], layout: Layout) -> BestPaths:
        """Return the path with the highest score of each sentence      Viterbi 1967; no gradients."""
        with torch.no_grad():
            x_NC = scores_NC.to(_wide(scores_NC))
            if not layout.tokens:
                return BestPaths(layout.positions, x_NC.new_zeros(layout.sentences))
            chain = self._chain(x_NC, layout, layout.lengths, None, forbidden=-torch.inf)
            path_LB, scores_B = _best_paths(chain)
            return BestPaths(unpad(path_LB.T.contiguous(), layout), scores_B)

    def _chain(
        self,
        x_NC: Float[Tensor, "N C"],
        layout: Layout,
        lengths_B: Int[Tensor, "B"],
        faultless_B: Bool[Tensor, "B"] | None,
        forbidden: float = _FORBIDDEN,
    ) -> "_Chain":
        """Return the scores of a batch; transitions are forbidden in all sentences, or in those that are faultless."""
        start, steps, end = (part.to(x_NC.dtype) for part in (self.start, self.transitions, self.end))
        rows = layout.sentences
        start_BC, steps_GCC, end_BC = start.expand(rows, -1), steps.unsqueeze(0), end.expand(rows, -1)
        if self.allowed is not None:
            hold_B = torch.ones_like(lengths_B, dtype=torch.bool) if faultless_B is None else faultless_B
            shut = ~self.allowed
            start_BC = start_BC.masked_fill(shut[-1, :-1] & hold_B[:, None], forbidden)
            end_BC = end_BC.masked_fill(shut[:-1, -1] & hold_B[:, None], forbidden)
            ruled_CC = steps.masked_fill(shut[:-1, :-1], forbidden)
            steps_GCC = ruled_CC.unsqueeze(0) if faultless_B is None else torch.stack([ruled_CC, steps])
        free_B = None if faultless_B is None else ~faultless_B
        return _Chain(x_NC, start_BC, steps_GCC, free_B, end_BC, layout, lengths_B)

    def _faultless(self, truth: "_Truth", labels_N: Int[Tensor, "N"], layout: Layout) -> Bool[Tensor, "B"] | None:
        """Return whether the true labels of each sentence are allowed."""
        if self.allowed is None:
            return None
        ends = self.transitions.shape[0]  # the number of the row and the column for the ends of a sentence
        labels_N = labels_N.clamp(min=0)
        before_N = labels_N.roll(1).masked_fill(truth.first_N, ends)
        broken_N = ~self.allowed[before_N, labels_N] & (truth.first_N | truth.inside_N)
        broken_N = broken_N | (~self.allowed[labels_N, torch.full_like(labels_N, ends)] & truth.last_N)
        return ~(pad(broken_N, layout) & layout.keep).any(1)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _normalize(scores_NC: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
    """Subtract log sum exp from the scores of each word: no probability changes, and long sums stay small."""
    x_NC = scores_NC.to(_wide(scores_NC))
    return x_NC - x_NC.detach().logsumexp(1, keepdim=True)


@dataclass(frozen=True, eq=False)
class _Truth:
    """The true labels that count: those of a sentence up to the first that is IGNORED."""

    labels_N: Int[Tensor, "N"]
    lengths_B: Int[Tensor, "B"]
    first_N: Bool[Tensor, "N"]  # the first words of sentences
    inside_N: Bool[Tensor, "N"]  # all words after the first
    last_N: Bool[Tensor, "N"]

    @classmethod
    def of(cls, labels_N: Int[Tensor, "N"], layout: Layout) -> "_Truth":
        real_BL = (pad(labels_N != IGNORED, layout) & layout.keep).to(torch.int64).cumprod(1)
        real_N = unpad(real_BL.bool(), layout)
        inside_N = real_N & (layout.positions > 0)
        following_N = inside_N.roll(-1)  # the very first word is never inside
        return cls(labels_N, real_BL.sum(1), real_N & ~inside_N, inside_N, real_N & ~following_N)

    def one_hot(self, like: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
        """Return 1 at the true label of each word that counts."""
        labels_C = torch.arange(like.shape[1], device=like.device)
        real_N = self.first_N | self.inside_N
        return ((self.labels_N.unsqueeze(1) == labels_C) & real_N.unsqueeze(1)).to(like.dtype)


# --- sums and maxima over all paths -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Chain:
    """All scores of a batch of sentences; `lengths_B` may be shorter than those of the layout."""

    x_NC: Float[Tensor, "N C"]
    start_BC: Float[Tensor, "B C"]
    steps_GCC: Float[Tensor, "G C C"]  # from a label to the next: by the rules, and without rules
    free_B: Bool[Tensor, "B"] | None  # the sentences without rules; None where all have the same
    end_BC: Float[Tensor, "B C"]
    layout: Layout
    lengths_B: Int[Tensor, "B"]

    @property
    def padded(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """The scores in the order of time [L, B, C], and all others."""
        x_LBC = pad(self.x_NC, self.layout).transpose(0, 1)
        return x_LBC, self.start_BC, self.steps_GCC, self.end_BC, self.lengths_B, self.free_B

    @property
    def steps_BCC(self) -> Float[Tensor, "B C C"]:
        """The scores of transitions of each sentence."""
        if self.free_B is None:
            return self.steps_GCC.expand(self.layout.sentences, -1, -1)
        return torch.where(self.free_B[:, None, None], self.steps_GCC[1], self.steps_GCC[0])

    def log_partition(self) -> Float[Tensor, "B"]:
        """Return log sum over y of exp s(y); 0 for a sentence without words."""
        if use_kernels(self.x_NC):
            from heedful.nn.kernels import chain_sums  # imports Triton, which a CPU does not need

            if chain_sums.supports(self.x_NC):
                return self.log_partition_by_kernel()
        total_B: Tensor = _LogPartition.apply(*self.padded)  # type: ignore[no-untyped-call]
        return total_B

    def log_partition_by_kernel(self) -> Float[Tensor, "B"]:
        """Return log sum over y of exp s(y) by one program per sentence."""
        total_B: Tensor = _LogPartitionByKernel.apply(  # type: ignore[no-untyped-call]
            self.x_NC.contiguous(), self.start_BC, self.steps_BCC, self.end_BC, self.layout.offsets, self.lengths_B
        )
        return total_B


class _LogPartitionByKernel(torch.autograd.Function):
    """`_LogPartition` of packed scores, on a GPU."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, start: Tensor, steps: Tensor, end: Tensor, offsets: Tensor, lengths: Tensor
    ) -> Tensor:
        from heedful.nn.kernels.chain_sums import sum_forward

        alphas, totals = sum_forward(x, start, steps, end, offsets, lengths)
        ctx.save_for_backward(x, steps, end, offsets, lengths, alphas, totals)
        return totals

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_B: Tensor) -> tuple[Tensor | None, ...]:
        from heedful.nn.kernels.chain_sums import sum_backward

        x, steps, end, offsets, lengths, alphas, totals = ctx.saved_tensors
        gradients = sum_backward(x, steps, end, offsets, lengths, alphas, totals, dy_B.contiguous())
        return *gradients, None, None


class _LogPartition(torch.autograd.Function):
    """The sum over all paths by the forward algorithm; its gradients are the probabilities of labels and of pairs."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, start: Tensor, steps: Tensor, end: Tensor, lengths: Tensor, free: Tensor | None
    ) -> Tensor:
        sums, ctx.dtype = _Sums.over(x, start, steps, end, lengths, free), x.dtype
        ctx.save_for_backward(*(getattr(sums, part.name) for part in fields(sums)))
        return sums.totals_B.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_B: Tensor) -> tuple[Tensor | None, ...]:
        dy_B1 = dy_B.unsqueeze(1)
        p_LBC, pairs_GCC, last_BC = _Sums(*ctx.saved_tensors).probabilities(dy_B1.double())
        gradients = p_LBC * dy_B1, p_LBC[0] * dy_B1, pairs_GCC, last_BC * dy_B1
        return *(gradient.to(ctx.dtype) for gradient in gradients), None, None


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the paths up to each word, as shares of their total      Rabiner 1989, V.A

    a_t[j] = e_t[j] sum_i a_(t-1)[i] E[i, j] / scale_t, which sums to 1, with e = exp x and E = exp T: products of
    matrices instead of logarithms of sums. The log of the sum over all paths is that of all scales. In float64 a path
    counts unless it is 10^300 times less likely than another. After the end of a sentence a_t stays as it is.
    """

    totals_B: Float[Tensor, "B"]
    a_LBC: Float[Tensor, "L B C"]
    e_LBC: Float[Tensor, "L B C"]
    scales_LB: Float[Tensor, "L B"]
    steps_GCC: Float[Tensor, "G C C"]
    last_BC: Float[Tensor, "B C"]  # exp of the scores of ends, divided by their scale
    lengths_B: Int[Tensor, "B"]
    free_B: Bool[Tensor, "B"] | None

    @classmethod
    def over(
        cls,
        x_LBC: Tensor,
        start_BC: Tensor,
        steps_GCC: Tensor,
        end_BC: Tensor,
        lengths_B: Tensor,
        free_B: Tensor | None,
    ) -> "_Sums":
        """Sum over all paths, from the first words to the last. Greatest scores are taken out before exp."""
        words_LB = torch.arange(len(x_LBC), device=x_LBC.device).unsqueeze(1) < lengths_B
        e_LBC, top_LB = _powers(x_LBC)
        opened_BC, top_start_B = _powers(start_BC)
        closed_BC, top_end_B = _powers(end_BC)
        top_step = steps_GCC.detach().amax().double()
        moves_GCC = (steps_GCC.double() - top_step).exp()
        a_LBC, scales_LB = torch.empty_like(e_LBC), torch.empty_like(top_LB)
        for step, e_BC in enumerate(e_LBC):
            grown_BC = e_BC * (_move(a_LBC[step - 1], moves_GCC, free_B) if step else opened_BC)
            scale_B = grown_BC.sum(1).clamp(min=_LEAST)
            grown_BC /= scale_B.unsqueeze(1)
            a_LBC[step] = grown_BC if not step else torch.where(words_LB[step].unsqueeze(1), grown_BC, a_LBC[step - 1])
            scales_LB[step] = scale_B
        scale_B = (a_LBC[-1] * closed_BC).sum(1).clamp(min=_LEAST)
        tops_B = top_start_B + top_end_B + top_step * (lengths_B - 1)
        totals_B = (scales_LB.log() + top_LB).masked_fill(~words_LB, 0).sum(0) + scale_B.log() + tops_B
        last_BC = closed_BC / scale_B.unsqueeze(1)
        totals_B = totals_B.masked_fill(lengths_B == 0, 0)
        return cls(totals_B, a_LBC, e_LBC, scales_LB, moves_GCC, last_BC, lengths_B, free_B)

    def probabilities(self, weights_B1: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the probabilities of the labels of all words, of pairs of neighbours, and of the last labels.

        P(j at t) = a_t[j] b_t[j] and P(i, j at t-1, t) = a_(t-1)[i] E[i, j] e_t[j] b_t[j] / scale_t, where b are the
        sums from the last word to the first. Pairs are summed over all words, with a weight for each sentence.
        """
        p_LBC, ahead_LBC = torch.empty_like(self.a_LBC), torch.zeros_like(self.a_LBC)
        b_BC, back_GCC = self.last_BC, self.steps_GCC.transpose(1, 2)
        for step in range(len(p_LBC) - 1, -1, -1):
            there_B1 = (self.lengths_B > step).unsqueeze(1)
            p_LBC[step] = (self.a_LBC[step] * b_BC).masked_fill(~there_B1, 0)
            if step:
                ahead_BC = (self.e_LBC[step] * b_BC / self.scales_LB[step].unsqueeze(1)).clamp(max=_MOST)
                ahead_LBC[step] = ahead_BC.masked_fill(~there_B1, 0)
                b_BC = torch.where(there_B1, _move(ahead_BC, back_GCC, self.free_B), b_BC).clamp(max=_MOST)
        last_BC = (self.a_LBC[-1] * self.last_BC).masked_fill((self.lengths_B == 0).unsqueeze(1), 0)
        return p_LBC, self._pairs(ahead_LBC if weights_B1 is None else ahead_LBC * weights_B1), last_BC

    def _pairs(self, ahead_LBC: Tensor) -> Tensor:
        before_NC, after_NC = self.a_LBC[:-1].flatten(0, 1), ahead_LBC[1:].flatten(0, 1)
        if self.free_B is None:
            return (before_NC.T @ after_NC).unsqueeze(0) * self.steps_GCC
        free_N1 = self.free_B.repeat(len(ahead_LBC) - 1).unsqueeze(1)
        parts = (before_NC.T @ after_NC.masked_fill(hidden_N1, 0) for hidden_N1 in (free_N1, ~free_N1))
        return torch.stack(list(parts)) * self.steps_GCC


def _powers(x: Float[Tensor, "*rows C"]) -> tuple[Float[Tensor, "*rows C"], Float[Tensor, "*rows"]]:
    """Return exp(x - max x) and max x, in float64."""
    top = x.amax(-1)
    return (x.double() - top.double().unsqueeze(-1)).exp(), top.double()


def _move(a_BC: Tensor, moves_GCC: Tensor, free_B: Tensor | None) -> Tensor:
    """Return the product with the matrix of each sentence."""
    ruled_BC = a_BC @ moves_GCC[0]
    return ruled_BC if free_B is None else torch.where(free_B.unsqueeze(1), a_BC @ moves_GCC[1], ruled_BC)


def _best_paths(chain: _Chain) -> tuple[Int[Tensor, "L B"], Float[Tensor, "B"]]:
    """Return the labels of the best paths and their scores: maxima instead of sums, then the way back."""
    x_LBC, start_BC, _, end_BC, lengths_B, _ = chain.padded
    same_BC = torch.arange(x_LBC.shape[2], device=x_LBC.device).expand_as(start_BC)
    best_BC, parents, steps_BCC = start_BC + x_LBC[0], [], chain.steps_BCC
    for step in range(1, len(x_LBC)):
        there_B1 = (lengths_B > step).unsqueeze(1)
        reached_BC, parent_BC = (best_BC.unsqueeze(2) + steps_BCC).max(1)
        best_BC = torch.where(there_B1, reached_BC + x_LBC[step], best_BC)
        parents.append(torch.where(there_B1, parent_BC, same_BC))
    scores_B, label_B = (best_BC + end_BC).max(1)
    path = [label_B]
    for parent_BC in reversed(parents):
        path.append(parent_BC.gather(1, path[-1].unsqueeze(1)).squeeze(1))
    return torch.stack(path[::-1]), scores_B.masked_fill(lengths_B == 0, 0)
