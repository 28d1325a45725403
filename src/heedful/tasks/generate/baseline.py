"""The line that a language model has to beat: Kneser-Ney counts of n-grams of up to five of its own tokens.

They predict the same tokens as the model in a validation, each from the tokens before it that the model reads too: in
windows, or in streams. So perplexities compare. They are counted once per run, from the same texts, in seconds.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import counted
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN
from heedful.metrics.language.kneser_ney import KneserNey
from heedful.metrics.language.perplexity import Likelihood

_ORDER: Final = 5
_MOST_TOKENS: Final = 3_000_000  # of training: of more, stretches at equal distances are counted
_STRETCHES: Final = 100

Tokens = NDArray[np.int64]


def count_ngrams(stores: Sequence[TokenStore], vocabulary: int, joined: bool) -> tuple[KneserNey, str]:
    """Count the n-grams of training texts, or of a sample of them; return the model, and of which tokens it is.

    `joined` says whether all documents of a store are one text.
    """
    total = sum(store.tokens("text") for store in stores)
    share = min(1.0, _MOST_TOKENS / total)
    texts: list[Tokens] = []
    for store in stores:
        text = store.streams["text"]
        bounds = [0, len(text.values)] if joined else text.offsets.tolist()
        if share == 1:
            texts += [text.values[start:end].astype(np.int64) for start, end in pairwise(bounds)]
            continue
        places = [len(text.values) * number // _STRETCHES for number in range(_STRETCHES + 1)]
        for place, after in pairwise(places):
            stop = place + int(share * (after - place))
            inside = bounds[np.searchsorted(bounds, place, "right") : np.searchsorted(bounds, stop, "left")]
            texts += [text.values[start:end].astype(np.int64) for start, end in pairwise([place, *inside, stop])]
    tokens, nouns = sum(map(len, texts)), counted(total, "training token")
    sample = f"{tokens:,} of {nouns}" if tokens < total else f"the {nouns}"
    return KneserNey.of(texts, _ORDER, vocabulary, modified=True), sample


def likelihood_of(model: KneserNey, stretches: Iterable[Tokens]) -> Likelihood:
    """Return the likelihood of stretches of text: of every token but the first of each, and but `<s>`."""
    texts = list(stretches)
    tokens, starts = np.concatenate(texts), np.cumsum([0, *map(len, texts[:-1])])
    predicted = tokens != BEGIN
    predicted[starts] = False
    return Likelihood(-float(model.log_probabilities(tokens, starts)[predicted].sum()), int(predicted.sum()))
