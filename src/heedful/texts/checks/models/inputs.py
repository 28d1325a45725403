"""What goes into a model and what it is compared with: vocabularies, embeddings, positions, targets and losses."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from heedful.base.packed import Packed
from heedful.config.tokenizer import Words
from heedful.data.tokenize.tokenizer import END
from heedful.data.tokenize.training import train_tokenizer
from heedful.nn.layers.embedding import Embedding
from heedful.nn.layers.positions import Sinusoidal
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy
from heedful.texts.checks.computed import Computed, drawn, numbers

_WIDTH, _TOKENS = 4, (3, 0, 3)
_WORDS = ("a", "am", "I", "thanks", "student", "<eos>")  # the slides' vocabulary, numbered from 0
_TARGETS = ("I", "am", "a", "student", "<eos>")


def _embedding(positions: nn.Module | None) -> Embedding:
    module = Embedding(nn.Parameter(numbers(5, _WIDTH)), positions, 0.0)
    module.precision = torch.float64
    return module


def scaled_embeddings() -> Computed:
    """sqrt(d) C, whose rows are the embeddings of the tokens"""
    with drawn():
        module, packed = _embedding(None), Packed.of([_TOKENS])
        rows = [[math.sqrt(_WIDTH) * float(value) for value in module.weight[token].detach()] for token in _TOKENS]
        return Computed(torch.tensor(rows), module(packed.values, packed.layout).detach(), tolerance=1e-6)


def static_and_dynamic() -> Computed:
    """One token at places 1 and 3 has equal embeddings without positions, and different ones with them (1: equal)"""
    with drawn():
        packed, equal = Packed.of([_TOKENS]), []
        for positions in (None, Sinusoidal(_WIDTH)):
            x = _embedding(positions)(packed.values, packed.layout)
            equal.append(float(torch.equal(x[0], x[2])))
        return Computed([1, 0], equal)


def positions_from_one() -> Computed:
    """X = sqrt(d) C + (PE(1) .. PE(T)) in the text; Heedful's positions are counted from 0, PE(0) .. PE(T - 1)"""
    with drawn():
        module, packed = _embedding(Sinusoidal(_WIDTH)), Packed.of([_TOKENS])
        rows = []
        for t, token in enumerate(_TOKENS, start=1):
            waves = [
                (math.sin if j % 2 == 0 else math.cos)(t / 10_000 ** (2 * (j // 2) / _WIDTH)) for j in range(_WIDTH)
            ]
            rows.append(
                [math.sqrt(_WIDTH) * float(c) + w for c, w in zip(module.weight[token].detach(), waves, strict=False)]
            )
        return Computed(torch.tensor(rows), module(packed.values, packed.layout).detach())


def bounded_positions() -> Computed:
    """The numbers of 20 positions in 512 dimensions lie between -1 and 1"""
    table = Sinusoidal(512).table[:20]
    return Computed([1.0], [float(table.abs().max())])


def numbered_words() -> Computed:
    """a 0, am 1, I 2, thanks 3, student 4, <eos> 5 in the text; markers come first in Heedful, and </s> is 2"""
    tokenizer = train_tokenizer(Words(kind="word"), ["a am I thanks student"] * 2)
    ours = [END if word == "<eos>" else tokenizer.encode(word)[0] for word in _WORDS]
    return Computed(range(6), ours)


def one_hot() -> Computed:
    """The one-hot vector of "am", 0 1 0 0 0 0, times a matrix is the row that an embedding looks up"""
    with drawn():
        weight = numbers(6, _WIDTH)
        vector = [float(word == "am") for word in _WORDS]
        text = [sum(one * float(row) for one, row in zip(vector, column, strict=True)) for column in weight.T]
        module = Embedding(nn.Parameter(weight), None, 0.0, scaled=False)
        packed = Packed.of([[_WORDS.index("am")]])
        return Computed([*vector, *text], [*vector, *module(packed.values, packed.layout)[0].tolist()])


def target_outputs() -> Computed:
    """The rows of the slides' target outputs, "I am a student <eos>": the gradient of the loss is p minus such a row"""
    with drawn():
        scores = numbers(5, 6).requires_grad_()
        words = torch.tensor([_WORDS.index(word) for word in _TARGETS])
        loss, _ = smoothed_cross_entropy(scores, torch.eye(6).double(), None, words, 0.0)
        (gradient,) = torch.autograd.grad(loss, scores)
        text = [[0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1]]
        p = scores.detach().exp() / scores.detach().exp().sum(1, keepdim=True)
        return Computed(torch.tensor(text), p - gradient)


def divergence() -> Computed:
    """The Kullback-Leibler divergence of the outputs from one-hot targets: sum t log(t / p), which is -log p"""
    with drawn():
        scores, words = numbers(5, 6), [_WORDS.index(word) for word in _TARGETS]
        loss, _ = smoothed_cross_entropy(scores, torch.eye(6).double(), None, torch.tensor(words), 0.0)
        total = 0.0
        for row, target in zip(scores, F.one_hot(torch.tensor(words), 6).tolist(), strict=True):
            p = (row.exp() / row.exp().sum()).tolist()
            total += sum(t * math.log(t / one) for t, one in zip(target, p, strict=True) if t)
        return Computed([total], [float(loss)])


def smoothed_optimum() -> Computed:
    """The loss is least, its gradient 0, where p has 0.9 + 0.1 / V for the word, not 1: the model is unsure"""
    words, size = torch.tensor([2, 1, 0]), 6
    text = F.one_hot(words, size) * 0.9 + 0.1 / size
    scores = text.double().log().requires_grad_()
    loss, _ = smoothed_cross_entropy(scores, torch.eye(size).double(), None, words, 0.1)
    (gradient,) = torch.autograd.grad(loss, scores)
    return Computed(text, scores.detach().exp() - gradient)
