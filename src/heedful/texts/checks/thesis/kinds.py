"""Kinds of attention (Chaudhari et al. 2019), section 2.1.3: by sequences, levels, positions, representations."""

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from heedful.base.packed import Layout, Nested, Packed
from heedful.models.hierarchical import HierarchicalEncoder, Pooled
from heedful.nn.alignments.distributions import Hard, softmax
from heedful.nn.alignments.products import Dot
from heedful.nn.attention.coattention import CoAttention
from heedful.nn.attention.windows import MonotoneView, PredictedView
from heedful.nn.layers.meta_embedding import MetaEmbedding
from heedful.nn.layers.pooling import AttentionPool, MultiDimensionalPool
from heedful.nn.recurrent.attention import RecurrentAttention
from heedful.texts.checks.computed import Computed, drawn, given, numbers, randomize

_WIDTH, _LENGTH = 3, 4


def _softmax(scores: list[Tensor]) -> list[Tensor]:
    exps = [torch.exp(score) for score in scores]
    return [exp / sum(exps) for exp in exps]


def _mean(weights: list[Tensor], x: Tensor) -> Tensor:
    return sum((weight * one for weight, one in zip(weights, x, strict=True)), torch.zeros_like(x[0]))


# --- by sequences -----------------------------------------------------------------------------------------------------


def co_attention() -> Computed:
    """Words and regions of an image, each weighed in view of the other by tanh(a W b / sqrt(d)) (Lu et al. 2016)"""
    with drawn():
        module = cast(CoAttention, randomize(CoAttention(_WIDTH, 2, 5)))
        words, regions = numbers(_LENGTH, _WIDTH), numbers(6, 2)
        w_c, w_a, w_b = (one.weight.detach() for one in (module.affinity, module.into_a, module.into_b))
        v_a, v_b = (one.weight.detach()[0] for one in (module.score_a, module.score_b))
        near = torch.tanh(words @ w_c @ regions.T / math.sqrt(_WIDTH))
        of_words = _softmax(
            [v_a @ torch.tanh(w_a @ a + w_b @ (row @ regions)) for a, row in zip(words, near, strict=True)]
        )
        of_regions = _softmax(
            [v_b @ torch.tanh(w_b @ b + w_a @ (row @ words)) for b, row in zip(regions, near.T, strict=True)]
        )
        keep_a, keep_b = torch.ones(1, _LENGTH, dtype=torch.bool), torch.ones(1, 6, dtype=torch.bool)
        ours = module(words[None], keep_a, regions[None], keep_b)
        return Computed(torch.cat([_mean(of_words, words), _mean(of_regions, regions)]), torch.cat(ours, dim=1))


# --- by levels --------------------------------------------------------------------------------------------------------


class _Embedded(nn.Module):
    """Words as they are: an encoder that looks up vectors, so that the levels of attention alone are compared."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(words, _WIDTH))

    def forward(self, text: Packed) -> Packed:
        """Return the vectors of words."""
        return text.with_values(self.weight[text.values])


class _Unchanged(nn.Module):
    """Sentences as they are."""

    def forward(self, vectors: Packed) -> Packed:
        """Return the vectors."""
        return vectors


def _attended(pool: AttentionPool, x: Tensor) -> Tensor:
    """Return sum_i p_i x_i, p = softmax(u_i . c), u_i = tanh(W x_i + b)."""
    weight, bias = pool.inner.weight.detach(), pool.inner.bias.detach()
    return _mean(_softmax([pool.context.weight.detach()[0] @ torch.tanh(weight @ one + bias) for one in x]), x)


def attention_at_two_levels() -> Computed:
    """Attention to the words of each sentence, then to the sentences: one vector of a document (Yang et al. 2016)"""
    with drawn():
        words, sentences = AttentionPool(_WIDTH), AttentionPool(_WIDTH)
        network = randomize(Pooled(HierarchicalEncoder(Pooled(_Embedded(6), words), _Unchanged()), sentences))
        table = cast(Tensor, next(network.parameters())).detach()
        document = [[2, 5, 0], [1, 3]]
        text = _attended(sentences, torch.stack([_attended(words, table[sentence]) for sentence in document]))
        return Computed(text, network(Nested(Packed.of(document), Layout.of([2]))))


# --- by positions -----------------------------------------------------------------------------------------------------


def hard_choices() -> Computed:
    """Hard attention draws one key, multinoulli by the weights: shares of 20,000 draws, and how many draw one key"""
    with drawn():
        scores = given(torch.tensor([0.5, -1.0, 1.2, 0.0], dtype=torch.float64))
        chosen = Hard(softmax).train()(scores.expand(20_000, -1))
        exps = [math.exp(score) for score in scores.tolist()]
        text = [exp / sum(exps) for exp in exps]
        single = float(((chosen == 1).sum(1) == 1).double().mean())
        return Computed([*text, 1.0], [*chosen.mean(0).tolist(), single], tolerance=0.02)


def products_of_hard_attention() -> Computed:
    """Products of hard attention over those of soft attention, 10 keys: (10 + 1) / 20 if one value were read; 1"""
    counts = []
    for distribution in (softmax, Hard(softmax)):
        attention = RecurrentAttention(Dot(_WIDTH, _WIDTH, 1), distribution)
        memory = attention.prepare(Packed(torch.ones(10, _WIDTH), Layout.of([10])))
        with drawn(), FlopCounterMode(display=False) as counter:
            attention(torch.ones(1, 1, _WIDTH), memory, torch.zeros(1, dtype=torch.int64))
        counts.append(counter.get_total_flops())
    return Computed([(10 + 1) / 20], [counts[1] / counts[0]])


def _local(view: MonotoneView | PredictedView | None, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return a query, keys, what Heedful reads with dot products, and its weights."""
    attention = RecurrentAttention(Dot(_WIDTH, _WIDTH, 1), softmax, view)
    randomize(attention)
    q, keys = numbers(_WIDTH), numbers(7, _WIDTH)
    memory = attention.prepare(Packed(keys, Layout.of([7])))
    read, weights = attention(q[None, None], memory, torch.tensor([step]))
    return q, keys, read[0, 0].detach(), weights[0, 0].detach()


def global_attention() -> Computed:
    """Global attention: softmax(s . h(i)) over all states, as soft attention has it"""
    with drawn():
        q, keys, read, weights = _local(None, 3)
        text = _softmax([q @ key for key in keys])
        return Computed(torch.cat([torch.stack(text), _mean(text, keys)]), torch.cat([weights, read]))


def local_monotone() -> Computed:
    """Local attention around the step t = 3: softmax(s . h(i)) over i from t - 2 to t + 2"""
    with drawn():
        q, keys, read, weights = _local(MonotoneView(2), 3)
        near = _softmax([q @ key for key in keys[1:6]])
        zero = torch.zeros(1, dtype=torch.float64)
        text = torch.cat([zero, torch.stack(near), zero])
        return Computed(torch.cat([text, _mean(near, keys[1:6])]), torch.cat([weights, read]))


def local_predicted() -> Computed:
    """Around p = S sigmoid(v . tanh(W s)): softmax(s . h(i)) over |i - p| <= D, times exp(-(i - p)^2 / (2 (D/2)^2))"""
    with drawn():
        view, half = PredictedView(_WIDTH, 2), 2
        q, keys, read, weights = _local(view, 0)
        inner, out = view.predicted.inner.weight.detach(), view.predicted.out.weight.detach()[0]
        place = 7 / (1 + math.exp(-float(out @ torch.tanh(inner @ q))))
        near = [i for i in range(7) if abs(i - place) <= half]
        soft = dict(zip(near, _softmax([q @ keys[i] for i in near]), strict=True))
        text = [
            float(soft[i]) * math.exp(-((i - place) ** 2) / (2 * (half / 2) ** 2)) if i in soft else 0.0
            for i in range(7)
        ]
        expected = torch.tensor(text, dtype=torch.float64)
        return Computed(torch.cat([expected, expected @ keys]), torch.cat([weights, read]))


# --- by representations -----------------------------------------------------------------------------------------------


def several_representations() -> Computed:
    """sum_i p_i x'_i over embeddings of one word, x'_i = P_i x_i + b_i, p = softmax(a . x'_i) (Kiela et al. 2018)"""
    with drawn():
        module = cast(MetaEmbedding, randomize(MetaEmbedding([2, 5], _WIDTH)))
        embeddings = [numbers(1, 2), numbers(1, 5)]
        projected = torch.stack(
            [
                cast(Tensor, one.weight).detach() @ x[0] + cast(Tensor, one.bias).detach()
                for one, x in zip(module.project, embeddings, strict=True)
            ]
        )
        weights = _softmax([module.score.weight.detach()[0] @ one for one in projected])
        return Computed(_mean(weights, projected), module(embeddings))


def weights_per_dimension() -> Computed:
    """sum_i p_i * x_i, p a softmax over i for every dimension, of W elu(W_1 x_i + b_1) + b (Shen et al. 2018)"""
    with drawn():
        pool, x = cast(MultiDimensionalPool, randomize(MultiDimensionalPool(_WIDTH))), numbers(_LENGTH, _WIDTH)
        inner = x @ pool.inner.weight.detach().T + pool.inner.bias.detach()
        elu = torch.where(inner > 0, inner, torch.exp(inner) - 1)
        scores = elu @ pool.out.weight.detach().T + pool.out.bias.detach()
        text = [float(_mean(_softmax(list(scores[:, d])), x[:, d])) for d in range(_WIDTH)]
        return Computed(text, pool(x, Layout.of([_LENGTH])))
