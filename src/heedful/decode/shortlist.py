"""Search among the tokens of a shortlist: each sentence has a small vocabulary of its own.

    P(v | y_<t, x) = exp(score_v) / sum_{u in S(x)} exp(score_u)      S(x)  the shortlist of sentence x

A search with shortlists is an ordinary one in which the ids of tokens are their indices in the sentence's list. Lists
are sorted and begin with the special tokens, so that these keep their ids, and others their order. The output layer
scores the words that are on any list of the batch, and each row takes those of its own list: a neighbour adds words
that a sentence never sees.

Shape letters of this file: U  words that are on any list of a batch    L  words of the longest list, rounded up
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import PAD, SPECIALS
from heedful.decode.constraints.protocol import OfSentences
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings

# Lists are filled up to a multiple of this, so that sums over them have the same order in every batch: vectors of
# processors are parts of it.
_MULTIPLE: Final = 64
SPECIAL: Final = np.arange(len(SPECIALS))  # ids that every list begins with


@dataclass(frozen=True, eq=False)
class Shortlists(OfSentences):
    """The shortlists of B sentences."""

    tokens_BL: Int[Tensor, "B L"]  # `<pad>` after the end of a list
    columns_BL: Int[Tensor, "B L"]  # where these are among the words of the batch
    empty_BL: Bool[Tensor, "B L"]  # after the end of a list

    @classmethod
    def of(cls, queries: Sequence[Query], device: torch.device) -> "tuple[Shortlists, Int[Tensor, 'U']]":
        """Return the shortlists of queries, and the words that are on any of them."""
        lists = [_list_of(query) for query in queries]
        every = np.concatenate(lists)
        listed = np.zeros(every.max() + 1, bool)  # faster than sorting
        listed[every] = True
        words_U, places = np.flatnonzero(listed), np.cumsum(listed) - 1
        longest = -(-max(map(len, lists)) // _MULTIPLE) * _MULTIPLE
        tokens_BL = np.full((len(lists), longest), PAD)
        empty_BL = np.ones((len(lists), longest), bool)
        for row, tokens in enumerate(lists):
            tokens_BL[row, : len(tokens)], empty_BL[row, : len(tokens)] = tokens, False
        columns_BL = places[tokens_BL]
        made = cls(*(torch.from_numpy(part).to(device) for part in (tokens_BL, columns_BL, empty_BL)))
        return made, torch.from_numpy(words_U).to(device)

    def tokens(self, indices_R: Int[Tensor, "R"]) -> Int[Tensor, "R"]:
        """Return the tokens at indices in the lists of their sentences."""
        return self.tokens_BL.gather(1, indices_R.unflatten(0, (len(self.tokens_BL), -1))).flatten()

    def own(self, logits_RU: Float[Tensor, "R U"]) -> Float[Tensor, "R L"]:
        """Return the scores of the words on each row's list, and minus infinity after its end."""
        logits_BKU = logits_RU.unflatten(0, (len(self.columns_BL), -1))
        beams = logits_BKU.shape[1]
        own_BKL = logits_BKU.gather(2, self.columns_BL.unsqueeze(1).expand(-1, beams, -1))
        return own_BKL.masked_fill_(self.empty_BL.unsqueeze(1), -math.inf).flatten(0, 1)


@dataclass(frozen=True, eq=False)
class NeverListed(OfSentences):
    """Some tokens are never output, by their indices in the lists of sentences."""

    never_BL: Bool[Tensor, "B L"]

    def forbid(self, scores_RV: Float[Tensor, "R L"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid them after anything."""
        scores_RV.unflatten(0, (len(self.never_BL), -1)).masked_fill_(self.never_BL.unsqueeze(1), -math.inf)

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "NeverListed":
        """Return this rule."""
        return self


def takes_shortlists(queries: Sequence[Query], settings: SearchSettings) -> bool:
    """Whether all sentences have a shortlist that can be used: further constraints need the whole vocabulary."""
    return not settings.constraints and all(query.shortlist is not None for query in queries)


def listed_queries(queries: Sequence[Query]) -> list[Query]:
    """Return queries with indices in their lists instead of tokens."""
    return [replace(query, prefix=np.searchsorted(_list_of(query), query.prefix).tolist()) for query in queries]


def listed_settings(settings: SearchSettings, lists: Shortlists) -> SearchSettings:
    """Return settings for indices in lists instead of tokens."""
    if not settings.never:
        return settings
    never_BL = torch.isin(lists.tokens_BL, torch.tensor(settings.never, device=lists.tokens_BL.device))
    return replace(settings, never=(), constraints=(lambda queries, device: NeverListed(never_BL),))


def with_tokens(found: Sequence[Sequence[Hypothesis]], queries: Sequence[Query]) -> list[list[Hypothesis]]:
    """Return what was found, with tokens instead of indices in lists."""
    return [
        [replace(one, tokens=tuple(_list_of(query)[list(one.tokens)].tolist())) for one in some]
        for some, query in zip(found, queries, strict=True)
    ]


def _list_of(query: Query) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    assert query.shortlist is not None
    return query.shortlist
