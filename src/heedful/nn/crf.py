"""The linear-chain conditional random field: one label for each word of a sentence, chosen together.

Lafferty et al. 2001; over the states of a network, Lample et al. 2016, 2.2.

Shape letters of this file: C  labels
"""

from dataclasses import dataclass
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from heedful.label_schemes import AllowedTransitions
from heedful.nn.kernels import use_kernels
from heedful.nn.padding import pad, unpad
from heedful.packed import IGNORED, Layout

_FORBIDDEN: Final = -1e4  # the score of a forbidden transition in a loss: exp of it is 0, and no value is infinite


def transition_matrix(rules: AllowedTransitions) -> Bool[Tensor, "C_plus_1 C_plus_1"]:
    """Return which transitions are allowed, as `LinearChain` takes them."""
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
        if allowed is not None:
            if allowed.shape != (labels + 1, labels + 1):
                raise ValueError(f"transitions of shape {tuple(allowed.shape)} for {labels} labels and the two ends")
            if not (allowed[:-1, :-1].diag() & allowed[-1, :-1] & allowed[:-1, -1]).any():
                raise ValueError("no label may start, continue and end a sentence: some lengths would have no path")
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
            chain = self._chain(x_NC, layout, layout.lengths, None)
            alphas_LBC, totals_B = _sum_forward(*chain.padded)
            p_LBC, _ = _sum_backward(alphas_LBC, totals_B, *chain.padded)
            return unpad(p_LBC.transpose(0, 1).contiguous(), layout)

    def best(self, scores_NC: Float[Tensor, "N C"], layout: Layout) -> BestPaths:
        """Return the path with the highest score of each sentence      Viterbi 1967; no gradients."""
        with torch.no_grad():
            x_NC = scores_NC.to(_wide(scores_NC))
            if not layout.tokens:
                return BestPaths(layout.positions, x_NC.new_zeros(layout.sentences))
            chain = self._chain(x_NC, layout, layout.lengths, None, forbidden=-torch.inf)
            path_LB, scores_B = _best_forward(*chain.padded)
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
        start_BC, steps_BCC, end_BC = start.expand(rows, -1), steps.expand(rows, -1, -1), end.expand(rows, -1)
        if self.allowed is not None:
            hold_B = torch.ones_like(lengths_B, dtype=torch.bool) if faultless_B is None else faultless_B
            shut = ~self.allowed
            start_BC = start_BC.masked_fill(shut[-1, :-1] & hold_B[:, None], forbidden)
            steps_BCC = steps_BCC.masked_fill(shut[:-1, :-1] & hold_B[:, None, None], forbidden)
            end_BC = end_BC.masked_fill(shut[:-1, -1] & hold_B[:, None], forbidden)
        return _Chain(x_NC, start_BC, steps_BCC, end_BC, layout, lengths_B)

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
    steps_BCC: Float[Tensor, "B C C"]  # from a label to the next
    end_BC: Float[Tensor, "B C"]
    layout: Layout
    lengths_B: Int[Tensor, "B"]

    @property
    def padded(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The scores in the order of time [L, B, C], and what the references take besides."""
        x_LBC = pad(self.x_NC, self.layout).transpose(0, 1)
        return x_LBC, self.start_BC, self.steps_BCC, self.end_BC, self.lengths_B

    def log_partition(self) -> Float[Tensor, "B"]:
        """Return log sum over y of exp s(y); 0 for a sentence without words."""
        if use_kernels(self.x_NC):
            from heedful.nn.kernels import chain_sums  # imports Triton, which a CPU does not need

            if chain_sums.supports(self.x_NC):
                return self.log_partition_by_kernel()
        total_B: Tensor = _LogPartition.apply(*self.padded)  # type: ignore[no-untyped-call]
        return total_B

    def log_partition_by_kernel(self) -> Float[Tensor, "B"]:
        """Return the same by one program per sentence."""
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
    def forward(ctx: Any, x: Tensor, start: Tensor, steps: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
        alphas, totals = _sum_forward(x, start, steps, end, lengths)
        ctx.save_for_backward(alphas, totals, x, start, steps, end, lengths)
        return totals

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy_B: Tensor) -> tuple[Tensor | None, ...]:
        alphas, totals, x, start, steps, end, lengths = ctx.saved_tensors
        p_LBC, pairs_BCC = _sum_backward(alphas, totals, x, start, steps, end, lengths)
        last_BC = _last_probabilities(alphas, totals, end, lengths)
        each_B1 = dy_B.unsqueeze(1)
        return p_LBC * each_B1, p_LBC[0] * each_B1, pairs_BCC * each_B1.unsqueeze(2), last_BC * each_B1, None


def _sum_forward(
    x_LBC: Tensor, start_BC: Tensor, steps_BCC: Tensor, end_BC: Tensor, lengths_B: Tensor
) -> tuple[Tensor, Tensor]:
    """Return alpha_t[j] = log sum over the paths of t words that end in j, and the sum over all paths.

    alpha_1 = a + x_1,  alpha_t[j] = x_t[j] + log sum_i exp(alpha_(t-1)[i] + T[i, j]). It stays at the last word's value
    after the end of a sentence.
    """
    alpha_BC = start_BC + x_LBC[0]
    alphas = [alpha_BC]
    for step in range(1, len(x_LBC)):
        reached_BC = (alpha_BC.unsqueeze(2) + steps_BCC).logsumexp(1) + x_LBC[step]
        alpha_BC = torch.where((lengths_B > step).unsqueeze(1), reached_BC, alpha_BC)
        alphas.append(alpha_BC)
    totals_B = (alpha_BC + end_BC).logsumexp(1).masked_fill(lengths_B == 0, 0)
    return torch.stack(alphas), totals_B


def _last_probabilities(alphas_LBC: Tensor, totals_B: Tensor, end_BC: Tensor, lengths_B: Tensor) -> Tensor:
    """Return the probabilities of the labels of each last word; 0 for a sentence without words."""
    p_BC = (alphas_LBC[-1] + end_BC - totals_B.unsqueeze(1)).exp()
    return p_BC.masked_fill((lengths_B == 0).unsqueeze(1), 0)


def _sum_backward(
    alphas_LBC: Tensor,
    totals_B: Tensor,
    x_LBC: Tensor,
    start_BC: Tensor,
    steps_BCC: Tensor,
    end_BC: Tensor,
    lengths_B: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the probability of each label of each word, and of each pair of neighbours, summed over a sentence.

    P(i, j at t-1, t) = P(j at t) exp(alpha_(t-1)[i] + T[i, j] + x_t[j] - alpha_t[j]): all factors are at most 1.
    """
    p_LBC, pairs_BCC = torch.empty_like(alphas_LBC), torch.zeros_like(steps_BCC)
    p_BC = _last_probabilities(alphas_LBC, totals_B, end_BC, lengths_B)
    for step in range(len(x_LBC) - 1, 0, -1):
        there_B11 = (lengths_B > step)[:, None, None]
        reached_BC = alphas_LBC[step] - x_LBC[step]
        given_BCC = (alphas_LBC[step - 1].unsqueeze(2) + steps_BCC - reached_BC.unsqueeze(1)).exp()
        pair_BCC = torch.where(there_B11, given_BCC * p_BC.unsqueeze(1), 0)
        pairs_BCC += pair_BCC
        p_LBC[step] = torch.where(there_B11.squeeze(2), p_BC, 0)
        p_BC = torch.where(there_B11.squeeze(2), pair_BCC.sum(2), p_BC)
    p_LBC[0] = p_BC
    return p_LBC, pairs_BCC


def _best_forward(
    x_LBC: Tensor, start_BC: Tensor, steps_BCC: Tensor, end_BC: Tensor, lengths_B: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the labels of the best paths [L, B] and their scores: maxima instead of sums, then the way back."""
    same_BC = torch.arange(x_LBC.shape[2], device=x_LBC.device).expand_as(start_BC)
    best_BC, parents = start_BC + x_LBC[0], []
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
