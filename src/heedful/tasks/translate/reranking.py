"""Reranking of n-best lists: candidates of any system, ordered by a translator's score."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar

from heedful.base.arguments import check_number, check_one_each, check_text, check_texts
from heedful.base.errors import UserError
from heedful.config.recipe import Recipe
from heedful.decode.penalties import LengthPenalty
from heedful.tasks.shared.sequences.search_options import PENALTIES
from heedful.tasks.translate.scoring import PairScore


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


class ScoresPairs(Protocol):
    """What is asked of a translator: see `Translator`."""

    @property
    def recipe(self) -> Recipe:
        """Recipe that the model was trained with."""
        ...

    def score_stream(
        self,
        pairs: Iterable[tuple[str, str]],
        to: str | None = None,
        *,
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
    ) -> Iterator[PairScore]:
        """Score (source, target) pairs in order."""
        ...


def rerank(
    model: ScoresPairs,
    lists: Iterable[Listed],
    *,
    weight: object = 0.0,
    length_penalty: object = None,
    to: str | None = None,
    ready: Callable[[], bool] = lambda: True,
    name: str = "texts",
) -> Iterator[tuple[Listed, list[Reranked]]]:
    """Yield each list with its candidates, best first, by log P / length penalty + weight * given score.

    The length penalty is that of the recipe's [decode], with another alpha if `length_penalty` is given.
    """
    decode = model.recipe.decode
    factor = check_number("weight", weight)
    alpha = decode.length_penalty if length_penalty is None else check_number("length_penalty", length_penalty)
    penalty = PENALTIES[decode.length_penalty_kind](alpha, decode.length_shift)
    waiting: deque[Listed] = deque()

    def pairs() -> Iterator[tuple[str, str]]:
        for listed in lists:
            _refuse_missing_scores(listed, factor)
            waiting.append(listed)
            yield from ((listed.source, candidate.text) for candidate in listed.candidates)

    scored = model.score_stream(pairs(), to, ready=ready, name=name)
    for first in scored:
        listed = waiting.popleft()
        scores = [first, *islice(scored, len(listed.candidates) - 1)]
        yield listed, _reorder(listed.candidates, scores, penalty, factor)


def rerank_one(
    model: ScoresPairs,
    source: object,
    candidates: object,
    scores: Sequence[float] | None,
    *,
    weight: object,
    length_penalty: object,
    to: str | None,
) -> list[Reranked]:
    """Check the arguments of a call, and return the candidates of one source, best first."""
    listed = NBestList.of(check_text(source, "`source`"), check_texts(candidates, "candidates"), scores)
    return next(rerank(model, [listed], weight=weight, length_penalty=length_penalty, to=to, name="candidates"))[1]


def _reorder(
    candidates: Sequence[Candidate], scores: Sequence[PairScore], penalty: LengthPenalty, weight: float
) -> list[Reranked]:
    """Order candidates, best first; equal ones keep their order."""
    found = []
    for index, (candidate, scored) in enumerate(zip(candidates, scores, strict=True)):
        log_p = scored.log_probability
        model_score = log_p / penalty(len(scored.log_probabilities))
        mixed = model_score + weight * (candidate.given or 0.0)
        found.append(Reranked(candidate.text, mixed, model_score, log_p, candidate.given, index))
    return sorted(found, key=lambda one: -one.score)


def _refuse_missing_scores(listed: NBestList, weight: float) -> None:
    if weight and any(candidate.given is None for candidate in listed.candidates):
        raise UserError(
            f"{listed.where} has a candidate without a score, which {weight:g} cannot weigh: leave out the weight."
        )
