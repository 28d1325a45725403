"""The scores of models on test sets: as a person reads them, as a program does, and as figures to record."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev
from typing import Final

from heedful.metrics.scores import Score
from heedful.runs.progress import recorded_metrics
from heedful.runs.run import CHECKPOINTS
from heedful.tasks.shared.evaluation import Evaluation
from heedful.training.checkpoints import seconds_trained

_OF_TRAINING: Final = (("minutes", 2), ("steps", 0), ("tokens_s", 0))  # and their digits


@dataclass(frozen=True)
class CorpusResult:
    """The scores of a model on one corpus."""

    name: str  # its own, or its number
    unnamed: bool  # the first, without a name: its figures need no suffix
    evaluation: Evaluation


@dataclass(frozen=True)
class ModelResult:
    """The scores of one model."""

    model: str
    seed: int
    results: Sequence[CorpusResult]
    training: Mapping[str, float]  # what its folder tells of it: minutes, steps, tokens per second


def describe_training(folder: Path) -> dict[str, float]:
    """How long the run in a folder trained, and how fast, as far as the folder tells."""
    seconds, readings = seconds_trained(folder / CHECKPOINTS), recorded_metrics(folder, "train")
    found = {} if seconds is None else {"minutes": seconds / 60}
    if readings:
        found["steps"] = readings[-1]["step"]
        found["tokens_s"] = median(reading["tokens_per_second"] for reading in readings)
    return found


def figures(models: Sequence[ModelResult]) -> dict[str, float]:
    """Figures by name, with the corpus's name as suffix; of several models the means and their deviations."""
    found: dict[str, float] = {}
    for results in zip(*(model.results for model in models), strict=True):
        suffix = "" if results[0].unnamed else f"_{results[0].name}"
        for score, values in _by_score(results):
            found[f"{score.name}{suffix}"] = round(mean(values), 4)
            if len(models) > 1:
                found[f"{score.name}_sd{suffix}"] = round(_deviation(values), 4)
    for name, digits in _OF_TRAINING:
        known = [model.training[name] for model in models if name in model.training]
        if len(known) == len(models):
            found[name] = round(mean(known), digits)
    return found


# --- for a person -----------------------------------------------------------------------------------------------------


def as_text(models: Sequence[ModelResult]) -> str:
    """One block per model and corpus, then the means."""
    blocks = [_block(model, result, len(models) > 1) for model in models for result in model.results]
    if len(models) > 1:
        corpora = list(zip(*(model.results for model in models), strict=True))
        blocks += [_means(results, len(corpora) > 1) for results in corpora]
    return "\n\n".join(blocks)


def _block(model: ModelResult, result: CorpusResult, of_several: bool) -> str:
    titles = [model.model] if of_several else []
    titles += [result.name] if len(model.results) > 1 else []
    scores = result.evaluation.scores()
    lines = [_line(score, score.show(), score.note, scores) for score in scores]
    return "\n".join([*([": ".join(titles)] if titles else []), *lines, *result.evaluation.remarks()])


def _means(results: Sequence[CorpusResult], of_several: bool) -> str:
    first = results[0].evaluation.scores()
    lines = [
        _line(score, score.show(mean(values)), f"± {score.show(_deviation(values)).rstrip('%')}", first)
        for score, values in _by_score(results)
    ]
    name = f", {results[0].name}" if of_several else ""
    return "\n".join([f"mean of {len(results)} models{name}", *lines])


def _line(score: Score, value: str, note: str, scores: Sequence[Score]) -> str:
    width = max(len(other.label) for other in scores) + 2
    return f"{score.label:{width}}{value:>8}  {note}".rstrip()


# --- for a program ----------------------------------------------------------------------------------------------------


def to_json(models: Sequence[ModelResult]) -> str:
    """One JSON object: of a single model, or of all with the figures over them."""
    shown = [
        {"model": model.model, "corpora": [{"name": r.name, **r.evaluation.to_json()} for r in model.results]}
        for model in models
    ]
    over_all = {name: figure if math.isfinite(figure) else None for name, figure in figures(models).items()}
    return json.dumps(shown[0] if len(shown) == 1 else {"models": shown, "figures": over_all}, ensure_ascii=False)


# --- over models ------------------------------------------------------------------------------------------------------


def _by_score(results: Sequence[CorpusResult]) -> list[tuple[Score, list[float]]]:
    """Each score of the first result, and its values in all."""
    of_models = [result.evaluation.scores() for result in results]
    return [(scores[0], [score.value for score in scores]) for scores in zip(*of_models, strict=True)]


def _deviation(values: Sequence[float]) -> float:
    """The sample deviation; not a number where a value is infinite or not a number."""
    return stdev(values) if all(map(math.isfinite, values)) else math.nan
