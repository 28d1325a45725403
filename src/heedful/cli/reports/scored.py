"""Scores by model and corpus, whatever they are of, and the figures to record of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev
from typing import Final, Generic, TypeVar

from heedful.runs.progress import training_readings
from heedful.runs.run import CHECKPOINTS
from heedful.training.checkpoints import seconds_trained

Found = TypeVar("Found", covariant=True)  # what is known of a corpus
Given = TypeVar("Given")

_OF_TRAINING: Final = (("minutes", 2), ("steps", 0), ("tokens_s", 0))  # and their digits


@dataclass(frozen=True)
class CorpusResult(Generic[Found]):
    """The scores of one corpus."""

    name: str  # its own, or its number
    unnamed: bool  # the first, without a name: its figures stand for themselves
    evaluation: Found


@dataclass(frozen=True)
class ModelResult(Generic[Found]):
    """The scores of one model."""

    model: str
    seed: int
    results: Sequence[CorpusResult[Found]]
    training: Mapping[str, float]  # what its folder tells of it: minutes, steps, tokens in a second


def training_of(folder: Path) -> dict[str, float]:
    """How long the run in a folder trained, and how fast: as far as the folder tells."""
    seconds, readings = seconds_trained(folder / CHECKPOINTS), training_readings(folder)
    found = {} if seconds is None else {"minutes": seconds / 60}
    if readings:
        found["steps"] = readings[-1]["step"]
        found["tokens_s"] = median(reading["tokens_per_second"] for reading in readings)
    return found


def figures_of(
    judged: Sequence[ModelResult[Given]],
    scores: Callable[[Sequence[Given]], Mapping[str, Sequence[float]]],
    deviating: Callable[[str], bool] = lambda metric: True,
) -> dict[str, float]:
    """Figures by name, the corpus's name behind; of several models the means, and the deviations of some metrics."""
    found: dict[str, float] = {}
    for places in zip(*(one.results for one in judged), strict=True):
        behind = "" if places[0].unnamed else f"_{places[0].name}"
        for metric, of_models in scores([place.evaluation for place in places]).items():
            found[f"{metric}{behind}"] = round(mean(of_models), 4)
            if len(judged) > 1 and deviating(metric):
                found[f"{metric}_sd{behind}"] = round(deviation(of_models), 4)
    for name, digits in _OF_TRAINING:
        known = [one.training[name] for one in judged if name in one.training]
        if len(known) == len(judged):
            found[name] = round(mean(known), digits)
    return found


def deviation(scores: Sequence[float]) -> float:
    """The sample deviation; none of what is infinite or not a number."""
    return stdev(scores) if all(map(math.isfinite, scores)) else math.nan


def title_of(one: ModelResult[object], scored: CorpusResult[object], of_several: bool) -> list[str]:
    """The line above a block, where there are several: of models, or of corpora."""
    titles = [one.model] if of_several else []
    titles += [scored.name] if len(one.results) > 1 else []
    return [": ".join(titles)] if titles else []
