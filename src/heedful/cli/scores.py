"""The scores of models on test sets: as a person reads them, as a program does, and as figures to record."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev

from heedful.api.evaluation import Evaluation
from heedful.api.running import CHECKPOINTS
from heedful.train.checkpoints import seconds_trained
from heedful.train.progress import training_readings


@dataclass(frozen=True)
class Scored:
    """The scores of one corpus."""

    name: str  # its own, or its number
    unnamed: bool  # the first, without a name: its figures stand for themselves
    evaluation: Evaluation


@dataclass(frozen=True)
class Judged:
    """The scores of one model."""

    model: str
    seed: int
    results: Sequence[Scored]
    training: Mapping[str, float]  # what its folder tells of it: minutes, steps, target tokens in a second


def training_of(folder: Path) -> dict[str, float]:
    """How long the run in a folder trained, and how fast: as far as the folder tells."""
    seconds, readings = seconds_trained(folder / CHECKPOINTS), training_readings(folder)
    found = {} if seconds is None else {"minutes": seconds / 60}
    if readings:
        found["steps"] = readings[-1]["step"]
        found["tokens_s"] = median(reading["tokens_per_second"] for reading in readings)
    return found


def figures(judged: Sequence[Judged]) -> dict[str, float]:
    """Figures by name, the corpus's name behind; of several models the mean, and the deviation of BLEU and chrF."""
    found: dict[str, float] = {}
    for places in zip(*(one.results for one in judged), strict=True):
        behind = "" if places[0].unnamed else f"_{places[0].name}"
        for metric, scores in _scores([place.evaluation for place in places]).items():
            found[f"{metric}{behind}"] = round(mean(scores), 4)
            if len(judged) > 1 and metric in ("bleu", "chrf"):
                found[f"{metric}_sd{behind}"] = round(stdev(scores), 4)
    for name, digits in (("minutes", 2), ("steps", 0), ("tokens_s", 0)):
        known = [one.training[name] for one in judged if name in one.training]
        if len(known) == len(judged):
            found[name] = round(mean(known), digits)
    return found


def as_text(judged: Sequence[Judged]) -> str:
    """One block a model and corpus, then the means."""
    blocks = [_block(one, result, len(judged) > 1) for one in judged for result in one.results]
    if len(judged) > 1:
        blocks += [_means(judged, place) for place in range(len(judged[0].results))]
    return "\n\n".join(blocks)


def as_object(judged: Sequence[Judged]) -> str:
    """One JSON object: of a model alone, or of all with the figures over them."""
    models = [{"model": one.model, "corpora": [_corpus(result) for result in one.results]} for one in judged]
    over_all = {name: figure if math.isfinite(figure) else None for name, figure in figures(judged).items()}
    shown = models[0] if len(models) == 1 else {"models": models, "figures": over_all}
    return json.dumps(shown, ensure_ascii=False)


def _scores(evaluations: Sequence[Evaluation]) -> dict[str, list[float]]:
    return {
        "bleu": [one.bleu.score for one in evaluations],
        "chrf": [one.chrf.score for one in evaluations],
        "exact_match": [one.exact / one.sentences for one in evaluations],
        "perplexity": [one.perplexity for one in evaluations],
    }


def _block(one: Judged, scored: Scored, of_several: bool) -> str:
    result = scored.evaluation
    titles = [one.model] if of_several else []
    titles += [scored.name] if len(one.results) > 1 else []
    title = f"{': '.join(titles)}\n" if titles else ""
    cut = f", {result.cut:,} of them cut at the maximum length" if result.cut else ""
    return (
        f"{title}"
        f"BLEU        {result.bleu.score:7.2f}  {result.bleu.signature}\n"
        f"chrF        {result.chrf.score:7.2f}  {result.chrf.signature}\n"
        f"exact       {100 * result.exact / result.sentences:6.2f}%  {result.exact:,} of {result.sentences:,}\n"
        f"perplexity  {result.perplexity:7.2f}  over {result.likelihood.tokens:,} target tokens\n"
        f"{result.sentences:,} sentences in {result.seconds:.1f} s{cut}, "
        f"{result.tokens_per_second:,.0f} tokens/s"
    )


def _means(judged: Sequence[Judged], place: int) -> str:
    results = [one.results[place] for one in judged]
    name = f", {results[0].name}" if len(judged[0].results) > 1 else ""
    scores = _scores([result.evaluation for result in results])
    lines = [
        f"{label:11} {mean(scores[metric]):7.2f}  ± {_deviation(scores[metric]):.2f}"
        for label, metric in (("BLEU", "bleu"), ("chrF", "chrf"), ("perplexity", "perplexity"))
    ]
    return "\n".join([f"mean of {len(judged)} models{name}", *lines])


def _deviation(scores: Sequence[float]) -> float:
    """The sample deviation; none of what is infinite or not a number."""
    return stdev(scores) if all(map(math.isfinite, scores)) else math.nan


def _corpus(scored: Scored) -> dict[str, object]:
    result = scored.evaluation
    return {
        "name": scored.name,
        "sentences": result.sentences,
        "bleu": {"score": result.bleu.score, "signature": result.bleu.signature},
        "chrf": {"score": result.chrf.score, "signature": result.chrf.signature},
        "exact_match": result.exact / result.sentences,
        "perplexity": result.perplexity if math.isfinite(result.perplexity) else None,
        "target_tokens": result.likelihood.tokens,
        "cut": result.cut,
        "seconds": round(result.seconds, 3),
        "tokens_per_second": round(result.tokens_per_second, 1),
    }
