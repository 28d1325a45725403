"""Which tokens a masked language model is asked for, and what it sees instead      Devlin et al. 2019, 3.1

Of the tokens of each input a share is chosen, one at least; of the chosen, most are replaced by `<mask>`, some by a
random piece, and some stay, so that a model must doubt every token. Drawn anew whenever an input is shown.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heedful.config.train.table import Masking
from heedful.data.collate import places_of

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Masked:
    """Tokens with masks among them, and the P tokens that were chosen, in order."""

    inputs_N: _Numbers
    places_P: _Numbers
    labels_P: _Numbers


def mask(
    tokens_N: _Numbers,
    maskable_N: NDArray[np.bool_],
    owners_N: _Numbers,
    words_N: _Numbers | None,
    masking: Masking,
    vocabulary: range,
    mask_id: int,
    random: np.random.Generator,
) -> Masked:
    """Choose tokens of packed inputs and replace them.

    `owners_N` is the number of the input, and `words_N` of the word, that a token belongs to; both only grow. With
    words, all tokens of one are chosen or none. Random tokens are drawn from `vocabulary`.
    """
    candidates = np.flatnonzero(maskable_N)
    owners = owners_N[candidates]
    counts = np.bincount(owners)
    quotas = np.where(counts > 0, np.maximum(1, np.rint(masking.share * counts)), 0).astype(np.int64)
    if words_N is None:
        chosen = _tokens(owners, counts, quotas, random)
    else:
        chosen = _whole_words(owners, words_N[candidates], quotas, random)
    places_P = candidates[chosen]
    return Masked(
        _replaced(tokens_N, places_P, masking, vocabulary, mask_id, random),
        places_P,
        tokens_N[places_P],
    )


def most_chosen(tokens: int, inputs: int, share: float) -> int:
    """Return the most tokens that are ever chosen in inputs of this number of tokens in all."""
    return int(np.ceil(share * tokens)) + inputs


def _replaced(
    tokens_N: _Numbers,
    places_P: _Numbers,
    masking: Masking,
    vocabulary: range,
    mask_id: int,
    random: np.random.Generator,
) -> _Numbers:
    fates = random.random(len(places_P))
    masked, changed = fates < masking.masked, fates < masking.masked + masking.random
    pieces = random.integers(vocabulary.start, vocabulary.stop, len(places_P))
    inputs_N = tokens_N.copy()
    inputs_N[places_P] = np.where(masked, mask_id, np.where(changed, pieces, tokens_N[places_P]))
    return inputs_N


def _tokens(owners: _Numbers, counts: _Numbers, quotas: _Numbers, random: np.random.Generator) -> _Numbers:
    """Return a random subset of each input's tokens, as large as its quota."""
    order = _shuffled(owners, random)
    firsts = np.cumsum(counts) - counts
    return np.sort(order[places_of(firsts, quotas)])


def _whole_words(owners: _Numbers, words: _Numbers, quotas: _Numbers, random: np.random.Generator) -> _Numbers:
    """Words of each input in random order, each where it fits into what is left of the quota.

    Where every word of an input is longer than its quota, a stretch of one is taken.
    """
    begins = np.flatnonzero(np.diff(words, prepend=-1))
    sizes, owners = np.diff(begins, append=len(words)), owners[begins]
    order = all_words = _shuffled(owners, random)
    left, taken = quotas.copy(), [np.empty(0, np.int64)]
    # What does not fit now never will. Of the rest, the first ones fit together: take them, and look again.
    while len(order := order[sizes[order] <= left[owners[order]]]):
        together = _sums_in_groups(sizes[order], owners[order])
        fits = together <= left[owners[order]]
        taken.append(order[fits])
        left -= np.bincount(owners[order[fits]], sizes[order[fits]], len(left)).astype(np.int64)
        order = order[~fits]
    too_long = all_words[np.flatnonzero(np.diff(owners[all_words], prepend=-1))]  # one of each input
    too_long = too_long[left[owners[too_long]] == quotas[owners[too_long]]]
    parts = quotas[owners[too_long]]
    skipped = random.integers(0, sizes[too_long] - parts, endpoint=True)
    whole = np.concatenate(taken)
    places = (places_of(begins[whole], sizes[whole]), places_of(begins[too_long] + skipped, parts))
    return np.sort(np.concatenate(places))


def _shuffled(owners: _Numbers, random: np.random.Generator) -> _Numbers:
    """Sorted by owner, in random order inside each."""
    return np.argsort(owners + random.random(len(owners)))


def _sums_in_groups(sizes: _Numbers, groups: _Numbers) -> _Numbers:
    """Sums from the first of a group on."""
    sums = np.cumsum(sizes)
    firsts = np.flatnonzero(np.diff(groups, prepend=-1))
    return sums - np.repeat((sums - sizes)[firsts], np.diff(firsts, append=len(groups)))
