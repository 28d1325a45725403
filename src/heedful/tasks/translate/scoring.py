"""Log probabilities of given translations, for filtering corpora and for reranking n-best lists of any system."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from heedful.base.arguments import check_number, check_one_each
from heedful.base.errors import UserError
from heedful.config.decode import Decode
from heedful.data.batches.pairs import collate, pair_costs
from heedful.data.epochs.plan import batches_by_length
from heedful.data.token_store import TokenStore
from heedful.metrics.language.perplexity import token_log_probabilities
from heedful.models.networks import EncoderDecoder
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.shared.sequences.search_options import PENALTIES
from heedful.tasks.shared.sequences.token_scores import TokenScores


@dataclass(frozen=True)
class PairScore(TokenScores):
    """The log probability that a model gives to each token of a target, given its source."""


def score_tokens(
    networks: Sequence[EncoderDecoder],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    batch_tokens: int,
) -> list[list[float]]:
    """Return the log probabilities of each target's tokens, then of `</s>`, by the mean probability of the networks."""
    store = TokenStore.of(source=sources, target=targets)
    plan = batches_by_length(pair_costs([store]), batch_tokens=batch_tokens)
    found: dict[int, list[float]] = {}
    with evaluation_mode(*networks):
        scored = token_log_probabilities(networks, (collate([store], indices) for indices in plan))
        for indices, batch in zip(plan, scored, strict=True):
            found.update(zip(indices.tolist(), batch, strict=True))
    return [found[row] for row in range(len(sources))]


@dataclass(frozen=True)
class Candidate:
    """A translation that some system proposes, with the score that the system gives it, if it is known."""

    text: str
    given: float | None = None


@dataclass(frozen=True)
class NBestList:
    """A source and its candidates."""

    source: str
    candidates: tuple[Candidate, ...]
    where: str = "the list"  # its name in messages

    @classmethod
    def of(cls, source: str, texts: Sequence[str], scores: Sequence[float] | None) -> "NBestList":
        """Combine candidates with the scores that they were given, if any; refuse another number of scores."""
        if not texts:
            raise UserError("`candidates` is empty: give at least one.")
        if scores is not None:
            check_one_each(len(texts), "candidate", len(scores), "score")
        given = [None] * len(texts) if scores is None else scores
        return cls(source, tuple(map(Candidate, texts, given)), "`candidates`")


@dataclass(frozen=True)
class Reranked:
    """A candidate in its new order."""

    text: str
    score: float  # what candidates are ordered by: the model's score + weight * the given one
    model_score: float  # log P / length penalty, as in a search
    log_probability: float
    given: float | None
    index: int  # in the list as it was given, counted from 0


Listed = TypeVar("Listed", bound=NBestList)


def rerank(
    score: Callable[[Iterable[tuple[str, str]]], Iterator[PairScore]],
    decode: Decode,
    lists: Iterable[Listed],
    *,
    weight: object = 0.0,
    length_penalty: object = None,
) -> Iterator[tuple[Listed, list[Reranked]]]:
    """Yield each list with its candidates, best first, by log P / length penalty + weight * given score.

    `score` scores (source, target) pairs in order: see `Translator.score_stream`. The length penalty is that of
    [decode], with another alpha if `length_penalty` is given.
    """
    factor = check_number("weight", weight)
    alpha = decode.length_penalty if length_penalty is None else check_number("length_penalty", length_penalty)
    penalty = PENALTIES[decode.length_penalty_kind](alpha, decode.length_shift)
    waiting: deque[Listed] = deque()

    def pairs() -> Iterator[tuple[str, str]]:
        for listed in lists:
            if factor and any(candidate.given is None for candidate in listed.candidates):
                raise UserError(
                    f"{listed.where} has a candidate without a score, which {factor:g} cannot weigh: leave out the "
                    "weight."
                )
            waiting.append(listed)
            yield from ((listed.source, candidate.text) for candidate in listed.candidates)

    scored = score(pairs())
    for first in scored:
        listed, found = waiting.popleft(), []
        scores = [first, *islice(scored, len(listed.candidates) - 1)]
        for index, (candidate, one) in enumerate(zip(listed.candidates, scores, strict=True)):
            model_score = one.log_probability / penalty(len(one.log_probabilities))
            mixed = model_score + factor * (candidate.given or 0.0)
            found.append(Reranked(candidate.text, mixed, model_score, one.log_probability, candidate.given, index))
        yield listed, sorted(found, key=lambda one: -one.score)  # equal ones keep their order
