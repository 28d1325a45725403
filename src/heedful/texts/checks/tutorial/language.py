"""Language models of the tutorial: factors of a probability, convolutions, embeddings, perplexity."""

import math
from typing import Any, cast

import torch
from torch import Tensor

from heedful.base.packed import Layout, Packed
from heedful.config.model.language import LanguageModelTable
from heedful.metrics.language.perplexity import Likelihood
from heedful.models.convolutional import ConvolutionalLanguageModel
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import LanguageModel, set_precision
from heedful.nn.layers.embedding import Embedding
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_WORDS, _START = 5, 1
_TEXT = (3, 0, 4, 2)  # x_0 .. x_n


def _model(**decoder: Any) -> LanguageModel:
    table = {"family": "language", "decoder": {"dropout": 0.0, "width": 4, **decoder}}
    model = cast(LanguageModel, randomize(build_language_model(LanguageModelTable.model_validate(table), _WORDS)))
    set_precision(model, torch.float64)
    return model


def _convolutional(**sizes: int) -> LanguageModel:
    return _model(family="convolutional", activation="relu", **sizes)


@torch.no_grad()
def _chances(model: LanguageModel, text: tuple[int, ...]) -> Tensor:
    """Return p(x_t | the tokens before it) of every token, x_0 after the start of a text."""
    scores = model(Packed.of([[_START, *text[:-1]]])).softmax(-1)
    return cast(Tensor, scores[torch.arange(len(text)), torch.tensor(text)])


def bigram_product() -> Computed:
    """p(x_0 .. x_n) = p(x_0) p(x_1 | x_0) .. p(x_n | x_(n-1)), by a model that sees one token"""
    with drawn():
        model = _convolutional(layers=1, kernel=1)
        decoder = cast(ConvolutionalLanguageModel, model.decoder)
        project, table = decoder.blocks[0].convolution.project, decoder.embedding.weight.detach()
        product = 1.0
        for before, after in zip((_START, *_TEXT[:-1]), _TEXT, strict=True):
            x = table[before]
            y = x + torch.relu(project.weight.detach() @ x + project.bias.detach())
            exps = [math.exp(float(y @ word)) for word in table]
            product *= exps[after] / sum(exps)
        return Computed([product], [float(_chances(model, _TEXT).prod())], tolerance=1e-12)


def markov_assumption() -> Computed:
    """p(x_2 | x_0, x_1) does not depend on x_0 by the assumption, which the text doubts; here it does: 1 if it does"""
    with drawn():
        model = _model(family="recurrent", layers=1)
        chances = [float(_chances(model, (first, 0, 4))[2]) for first in (3, 1)]
        return Computed([1.0], [float(abs(chances[0] - chances[1]) > 1e-3)])


def same_vector_in_any_context() -> Computed:
    """A lookup: the vector of a word is its row of the matrix, wherever the word is"""
    with drawn():
        decoder = cast(ConvolutionalLanguageModel, _convolutional(layers=1, kernel=3).decoder)
        table, tokens = decoder.embedding.weight.detach(), Packed.of([[3, 0, 3], [2, 3]])
        text = torch.stack([table[word] for word in (3, 0, 3, 2, 3)])
        return Computed(text, decoder.embedding(tokens.values, tokens.layout))


def one_hot_vectors() -> Computed:
    """A one-hot vector of the size of the vocabulary, times the matrix, is the row that a lookup finds"""
    with drawn():
        weight = torch.nn.Parameter(numbers(_WORDS, 4))
        embedding = Embedding(weight, None, 0.0, scaled=False)
        one_hot = torch.eye(_WORDS, dtype=torch.float64)[list(_TEXT)]
        return Computed(one_hot @ weight, embedding(torch.tensor(_TEXT), Layout.of([len(_TEXT)])))


def same_network_at_each_step() -> Computed:
    """y(t) = f(x(t), x(t-1), x(t-2)) with the same f at each step: a one-dimensional convolution"""
    with drawn():
        model = _convolutional(layers=1, kernel=3)
        decoder = cast(ConvolutionalLanguageModel, model.decoder)
        project, table = decoder.blocks[0].convolution.project, decoder.embedding.weight.detach()
        weight, bias = project.weight.detach(), project.bias.detach()
        x = [torch.zeros(4, dtype=torch.float64)] * 2 + [table[word] for word in _TEXT]
        text = [x[t] + torch.relu(weight @ torch.cat([x[t], x[t - 1], x[t - 2]]) + bias) for t in range(2, len(x))]
        return Computed(torch.stack(text), decoder.states(Packed.of([_TEXT])))


def bounded_context() -> Computed:
    """Of two layers with a kernel of 2 the last of five tokens sees two before it: others change nothing, these do"""
    with drawn():
        model, changes = _convolutional(layers=2, kernel=2), []
        last = model(Packed.of([[0, 0, 0, 0, 0]]))[-1]
        for place in range(5):
            changed = model(Packed.of([[3 if at == place else 0 for at in range(5)]]))[-1]
            changes.append(float((changed - last).abs().max() > 1e-9))
        return Computed([0, 0, 1, 1, 1], changes)


def vector_for_every_word() -> Computed:
    """The text so far becomes a vector, whose product with the vector of every word scores the next word"""
    with drawn():
        model = _convolutional(layers=1, kernel=3)
        tokens = Packed.of([_TEXT])
        states, table = model.decoder.states(tokens, None), model.output.weight
        text = [[float(state @ word) for word in table.detach()] for state in states.detach()]
        return Computed(torch.tensor(text, dtype=torch.float64), model(tokens))


# --- perplexity -------------------------------------------------------------------------------------------------------

_CHANCES = (0.5, 0.1, 0.9, 0.25)  # P(x_t | x_(t-1) .. x_1) for t = 1 .. n


def _likelihood() -> Likelihood:
    return Likelihood(-sum(map(math.log, _CHANCES)), len(_CHANCES))


def cross_entropy_over_tokens() -> Computed:
    """1/n sum_(i=1..n) -log P(x_t | ..) in the text, whose terms do not depend on i, here with t = n; sum over t"""
    n = len(_CHANCES)
    text = sum(-math.log(_CHANCES[n - 1]) for _ in range(n)) / n
    return Computed([text], [_likelihood().loss], [sum(-math.log(chance) for chance in _CHANCES) / n])


def perplexity_over_tokens() -> Computed:
    """exp(1/n sum_(i=1..n) -log P(x_t | ..)) in the text, whose terms do not depend on i, here with t = n; over t"""
    n = len(_CHANCES)
    text = math.exp(sum(-math.log(_CHANCES[n - 1]) for _ in range(n)) / n)
    right = math.exp(sum(-math.log(chance) for chance in _CHANCES) / n)
    return Computed([text], [_likelihood().perplexity], [right])


def mean_of_choices() -> Computed:
    """The harmonic mean of the numbers of choices 1 / P in the text; their geometric mean"""
    choices = [1 / chance for chance in _CHANCES]
    harmonic = len(choices) / sum(1 / choice for choice in choices)
    return Computed([harmonic], [_likelihood().perplexity], [math.prod(choices) ** (1 / len(choices))])


def bits_of_a_text() -> Computed:
    """-sum log2 P bits for a text: as many as its tokens times log2 of the perplexity, so fewer for a better model"""
    better = [math.sqrt(chance) for chance in _CHANCES]
    text = [-sum(map(math.log2, chances)) for chances in (_CHANCES, better)]
    found = [Likelihood(-sum(map(math.log, chances)), len(chances)) for chances in (_CHANCES, better)]
    return Computed(text, [one.tokens * math.log2(one.perplexity) for one in found])


def uniform_model() -> Computed:
    """A model that finds all words equally likely has a perplexity of the vocabulary's size, and log2 of it in bits"""
    with drawn():
        states, table, words = numbers(len(_TEXT), 4), torch.zeros(_WORDS, 4).double(), torch.tensor(_TEXT)
        loss, _ = smoothed_cross_entropy(states, table, None, words, 0.0)
        found = Likelihood(float(loss), len(_TEXT))
        ours = [found.perplexity, found.tokens * math.log2(found.perplexity)]
        return Computed([_WORDS, len(_TEXT) * math.log2(_WORDS)], ours)
