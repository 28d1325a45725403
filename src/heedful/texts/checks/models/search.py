"""Probabilities of sequences, and how searches find likely ones: as loops over all words, and by Heedful's search."""

import itertools
import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from heedful.base.packed import Packed
from heedful.base.trees import Leaf, Tree, from_sequence, linearize, read_tree
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.recurrent import RecurrentModel
from heedful.data.batches.windows import WindowBatch
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN
from heedful.decode.hypothesis import Hypothesis, Shifted
from heedful.decode.query import text_queries
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.metrics.language.kneser_ney import KneserNey
from heedful.metrics.language.perplexity import Likelihood, likelihood
from heedful.models.from_recipe.language import build_language_model
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, LanguageModel
from heedful.texts.checks.computed import Computed, drawn, randomize

_VOCABULARY, _SOURCE, _LIMIT = 9, (4, 5, 6), 7
_SEED = 5  # with which a beam of 3 finds a more likely target than greedy search
Found = tuple[float, list[int]]  # log P, and the tokens, `</s>` included


def _translator() -> EncoderDecoder:
    config = RecurrentModel.model_validate({"family": "recurrent", "width": 6, "embedding": 6, "encoder_width": 6})
    return cast(EncoderDecoder, randomize(build_model(config, _VOCABULARY, _VOCABULARY)))


def _logs(model: EncoderDecoder, before: Sequence[int]) -> Tensor:
    """Return log p(y | x, y_1 .. y_(t-1)) of all words; markers that are no words have none."""
    with torch.no_grad():
        scores = model(Packed.of([[*_SOURCE, END]]), Packed.of([[BEGIN, *before]]))[-1].double()
    logs = scores - scores.exp().sum().log()
    logs[[PAD, BEGIN, UNKNOWN]] = -math.inf
    return logs


def _beam(model: EncoderDecoder, k: int) -> list[Found]:
    """Keep the k most likely strings at each step; those that have ended stay as they are."""
    kept: list[Found] = [(0.0, [])]
    for _ in range(_LIMIT):
        longer: list[Found] = []
        for log, tokens in kept:
            if tokens[-1:] == [END]:
                longer.append((log, tokens))
                continue
            longer += [(log + float(one), [*tokens, word]) for word, one in enumerate(_logs(model, tokens))]
        kept = sorted(longer, key=lambda found: -found[0])[:k]
    return kept


def _searched(model: EncoderDecoder, beam: int) -> Hypothesis:
    queries = text_queries([_SOURCE], _LIMIT - len(_SOURCE))
    settings = SearchSettings(beam=beam, max_extra=_LIMIT, penalty=Shifted(0.0))
    return search(model, queries, settings, batch_tokens=100)[0][0]


def _as_found(found: Hypothesis) -> list[float]:
    tokens = [*found.tokens, END] if found.complete else [*found.tokens]
    return [found.log_probability, *tokens]


def beam_search() -> Computed:
    """At each step, of all strings one word longer, the k = 3 most likely stay; in the end the most likely of them"""
    with drawn(_SEED):
        model = _translator()
        log, tokens = _beam(model, 3)[0]
        return Computed([log, *tokens], _as_found(_searched(model, 3)), tolerance=1e-5)


def greedy_search() -> Computed:
    """The most likely word at each step: k = 1"""
    with drawn(_SEED):
        model, total, tokens = _translator(), 0.0, list[int]()
        while len(tokens) < _LIMIT and tokens[-1:] != [END]:
            log, word = _logs(model, tokens).max(0)
            total, tokens = total + float(log), [*tokens, int(word)]
        return Computed([total, *tokens], _as_found(_searched(model, 1)), tolerance=1e-5)


def probabilities_of_longer_texts() -> Computed:
    """P(y_1 .. y_t) as a product of probabilities below 1, which falls with t"""
    with drawn(_SEED):
        model, target = _translator(), (5, 8, 4, 7, 6)
        product, text = 1.0, []
        for place, word in enumerate(target):
            product *= float(_logs(model, target[:place])[word].exp())
            text.append(product)
        scores = model(Packed.of([[*_SOURCE, END]]), Packed.of([[BEGIN, *target[:-1]]])).log_softmax(-1)
        ours = scores[torch.arange(len(target)), torch.tensor(target)].cumsum(0).exp()
        assert text == sorted(text, reverse=True)
        return Computed(text, ours)


def most_likely_class() -> Computed:
    """y = argmax_i p_i, with p = softmax of the scores"""
    with drawn(_SEED):
        model = _translator()
        p = _logs(model, (5,)).exp().tolist()
        rows = model.decoder.start(model.encoder(Packed.of([[*_SOURCE, END]])))
        for token in (BEGIN, 5):
            scores, rows = model.decoder.step(torch.tensor([token]), rows)
        scores[:, [PAD, BEGIN, UNKNOWN]] = -math.inf
        return Computed([max(range(_VOCABULARY), key=lambda word: p[word])], [int(scores.argmax())])


# --- perplexity -------------------------------------------------------------------------------------------------------


def perplexity_as_root() -> Computed:
    """The N-th root of 1 / P(w_1 .. w_N)"""
    chances = [0.5, 0.1, 0.9, 0.25]
    ours = Likelihood(-sum(map(math.log, chances)), len(chances)).perplexity
    return Computed([(1 / math.prod(chances)) ** (1 / len(chances))], [ours])


def perplexity_by_chain_rule() -> Computed:
    """The N-th root of 1 / prod_i P(w_i | w_1 .. w_(i-1)), of a language model of Heedful"""
    with drawn():
        table = {"family": "language", "decoder": {"family": "recurrent", "width": 4}}
        model = cast(LanguageModel, randomize(build_language_model(LanguageModelTable.model_validate(table), 8)))
        text, product = [5, 7, 4, 6, 2], 1.0
        for place, word in enumerate(text):
            scores = model(Packed.of([[BEGIN, *text[:place]]]))[-1].detach()
            product *= float((scores.exp() / scores.exp().sum())[word])
        batch = WindowBatch(Packed.of([[BEGIN, *text[:-1]]]), torch.tensor(text), 1, len(text))
        return Computed([(1 / product) ** (1 / len(text))], [likelihood(model, [batch]).perplexity], tolerance=1e-5)


def bigram_perplexity() -> Computed:
    """The N-th root of 1 / prod_i P(w_i | w_(i-1)), with the counted bigrams of Heedful's n-gram model

    P is Kneser and Ney's, written out for two tokens: discounted counts of pairs, and the rest by how many different
    tokens a token follows.
    """
    trained, text, size = [0, 1, 2, 0, 1, 3, 0, 2, 1, 0, 3, 0, 1], [0, 1, 3, 0, 2], 4
    model = KneserNey.of([trained], 2, size)
    ours = Likelihood(-float(model.log_probabilities(text).sum()), len(text)).perplexity
    pairs = list(itertools.pairwise(trained))
    followed = {word: len({a for a, b in pairs if b == word}) for word in range(size)}

    def discount(counts: Sequence[int]) -> float:
        once, twice = counts.count(1), counts.count(2)
        return once / (once + 2 * twice) if once else 0.5

    kinds, single = sum(followed.values()), discount([count for count in followed.values() if count])
    double = discount([pairs.count(pair) for pair in set(pairs)])
    seen = sum(count > 0 for count in followed.values())

    def alone(word: int) -> float:
        return (max(followed[word] - single, 0) + single * seen / size) / kinds

    def after(word: int, before: int) -> float:
        total, types = sum(a == before for a, _ in pairs), len({b for a, b in pairs if a == before})
        return (max(pairs.count((before, word)) - double, 0) + double * types * alone(word)) / total

    chances = [alone(text[0]), *(after(word, before) for before, word in itertools.pairwise(text))]
    return Computed([(1 / math.prod(chances)) ** (1 / len(chances))], [ours])


def phrases() -> Computed:
    """A tree groups the words of a sentence into phrases: where each begins and ends, from its brackets

    As the brackets of the text say it, counted by hand, and by the tree that a decoder's sequence stands for.
    """
    tree = read_tree("(S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN dog))))", "the example")
    read = from_sequence(linearize(tree), tree.words)
    assert read is not None
    found: list[float] = []

    def span(node: Tree | Leaf, start: int) -> int:
        if isinstance(node, Leaf):
            return start + 1
        end, place = start, len(found)
        found.extend([start, 0])
        for child in node.children:
            end = span(child, end)
        found[place + 1] = end
        return end

    span(read, 0)
    return Computed([0, 5, 0, 2, 2, 5, 3, 5], found)
