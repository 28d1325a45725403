"""The scores of classifiers and masked language models: as people and programs read them, and as figures to record."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Final

import numpy as np

from heedful.cli.output import one_column
from heedful.cli.reports import scored
from heedful.cli.reports.scored import CorpusResult, deviation, figures_of, title_of
from heedful.errors import counted
from heedful.metrics.classification import ClassificationResult
from heedful.tasks.classify.evaluation import ClassEvaluation
from heedful.tasks.fill.evaluation import MaskedEvaluation

Evaluation = ClassEvaluation | MaskedEvaluation
TextScores = CorpusResult[Evaluation]  # of one corpus
JudgedModel = scored.ModelResult[Evaluation]

_NAMES: Final[Mapping[str, str]] = {  # figures as people call them
    "accuracy": "accuracy",
    "f1": "macro F1",
    "micro_f1": "micro F1",
    "next_accuracy": "next sentence",
    "loss": "loss",
    "perplexity": "perplexity",
}
_SHARES: Final = ("accuracy", "f1", "micro_f1", "next_accuracy")  # shown in percent
_LABEL: Final = max(map(len, _NAMES.values())) + 2  # columns
_WIDEST: Final = 10  # classes whose whole matrix is shown; of more, so many of the commonest mistakes


# --- figures ----------------------------------------------------------------------------------------------------------


def scores_of(evaluation: Evaluation) -> dict[str, float]:
    """What is compared and recorded, by name."""
    if isinstance(evaluation, MaskedEvaluation):
        found = evaluation.predictions
        of_tokens = {
            "accuracy": found.accuracy,
            "perplexity": found.likelihood.perplexity,
            "loss": found.likelihood.loss,
        }
        return of_tokens if found.next_accuracy is None else {**of_tokens, "next_accuracy": found.next_accuracy}
    judged = evaluation.judged
    micro = {"micro_f1": judged.micro_f1} if evaluation.several else {}  # else it is the accuracy
    return {"accuracy": judged.accuracy, "f1": judged.macro_f1, **micro, "loss": evaluation.loss}


def figures(judged: Sequence[JudgedModel]) -> dict[str, float]:
    """Figures by name, the corpus's name behind; of several models the means and their deviations."""
    return figures_of(judged, _by_name)


def _by_name(evaluations: Sequence[Evaluation]) -> dict[str, list[float]]:
    scores = [scores_of(evaluation) for evaluation in evaluations]
    return {name: [of_model[name] for of_model in scores] for name in scores[0]}


# --- for people -------------------------------------------------------------------------------------------------------


def as_text(judged: Sequence[JudgedModel]) -> str:
    """One block a model and corpus, then the means."""
    blocks = [_block(one, result, len(judged) > 1) for one in judged for result in one.results]
    if len(judged) > 1:
        blocks += [_means(judged, place) for place in range(len(judged[0].results))]
    return "\n\n".join(blocks)


def _block(one: JudgedModel, result: TextScores, of_several: bool) -> str:
    evaluation = result.evaluation
    lines = _masked_lines(evaluation) if isinstance(evaluation, MaskedEvaluation) else _class_lines(evaluation)
    return "\n".join([*title_of(one, result, of_several), *lines])


def _means(judged: Sequence[JudgedModel], place: int) -> str:
    results = [one.results[place] for one in judged]
    name = f", {results[0].name}" if len(judged[0].results) > 1 else ""
    scores = _by_name([result.evaluation for result in results])
    lines = [
        _line(key, mean(of_key), f"± {_shown(key, deviation(of_key)).rstrip('%')}") for key, of_key in scores.items()
    ]
    return "\n".join([f"mean of {len(judged)} models{name}", *lines])


def _line(key: str, value: float, note: str = "") -> str:
    return f"{_NAMES[key]:{_LABEL}}{_shown(key, value):>8}  {note}".rstrip()


def _shown(key: str, value: float) -> str:
    return f"{100 * value:.2f}%" if key in _SHARES else f"{value:.4f}" if key == "loss" else f"{value:.2f}"


def _masked_lines(evaluation: MaskedEvaluation) -> list[str]:
    found = evaluation.predictions
    notes = {
        "accuracy": f"{found.right:,} of {found.likelihood.tokens:,} masked tokens",
        "next_accuracy": f"{found.right_pairs:,} of {found.pairs:,} pairs",
    }
    lines = [_line(key, value, notes.get(key, "")) for key, value in scores_of(evaluation).items()]
    return [*lines, f"{counted(evaluation.documents, 'document')} in {evaluation.seconds:.1f} s"]


def _class_lines(evaluation: ClassEvaluation) -> list[str]:
    judged = evaluation.judged
    low, high = (100 * end for end in judged.accuracy_interval)
    notes = {"accuracy": f"{judged.right_texts:,} of {judged.texts:,}; 95% interval {low:.1f}% to {high:.1f}%"}
    blank = f", {counted(evaluation.blank, 'blank one')} left out" if evaluation.blank else ""
    return [
        *(_line(key, value, notes.get(key, "")) for key, value in scores_of(evaluation).items()),
        f"{counted(judged.texts, 'text')} in {evaluation.seconds:.1f} s{blank}, "
        f"{evaluation.texts_per_second:,.0f} texts/s",
        "",
        *_classes(judged),
        *([] if evaluation.several else ["", *_confusion(judged)]),
    ]


def _classes(judged: ClassificationResult) -> list[str]:
    """A line a class."""
    rows = zip(judged.labels, judged.precision, judged.recall, judged.f1, judged.true.sum(axis=0), strict=True)
    shown = [[one_column(label), *(f"{100 * share:.2f}%" for share in shares), f"{count:,}"]
             for label, *shares, count in rows]  # fmt: skip
    return _table([["class", "precision", "recall", "F1", "texts"], *shown])


def _confusion(judged: ClassificationResult) -> list[str]:
    """Which classes were taken for which: a line a class, or the commonest mistakes where classes are many."""
    labels, counts = [one_column(label) for label in judged.labels], judged.confusion
    if len(labels) <= _WIDEST:
        rows = [[label, *(f"{count:,}" for count in row)] for label, row in zip(labels, counts, strict=True)]
        return _table([["true \\ said", *labels], *rows])
    wrong = counts * (1 - np.eye(len(labels), dtype=np.int64))
    commonest = np.argsort(-wrong, axis=None, kind="stable")[:_WIDEST]
    pairs = [divmod(int(place), len(labels)) for place in commonest]
    rows = [[labels[true], labels[said], f"{wrong[true, said]:,}"] for true, said in pairs if wrong[true, said]]
    return _table([["true", "said", "texts"], *rows], names=2) if rows else []


def _table(rows: Sequence[Sequence[str]], names: int = 1) -> list[str]:
    """Columns in line: the first ones hold names, the others numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, widths, names)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int], names: int) -> Iterator[str]:
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.ljust(width) if place < names else cell.rjust(width)


# --- for programs -----------------------------------------------------------------------------------------------------


def as_object(judged: Sequence[JudgedModel]) -> str:
    """One JSON object: of a model alone, or of all with the figures over them."""
    models = [{"model": one.model, "corpora": [_corpus(result) for result in one.results]} for one in judged]
    shown = models[0] if len(models) == 1 else {"models": models, "figures": _finite(figures(judged))}
    return json.dumps(shown, ensure_ascii=False)


def _corpus(result: TextScores) -> dict[str, object]:
    evaluation = result.evaluation
    scores = _finite(scores_of(evaluation))
    details = _masked_details if isinstance(evaluation, MaskedEvaluation) else _class_details
    return {"name": result.name, **scores, **details(evaluation), "seconds": round(evaluation.seconds, 3)}  # type: ignore[arg-type]


def _masked_details(evaluation: MaskedEvaluation) -> dict[str, object]:
    found = evaluation.predictions
    return {"documents": evaluation.documents, "masked_tokens": found.likelihood.tokens, "pairs": found.pairs}


def _class_details(evaluation: ClassEvaluation) -> dict[str, object]:
    judged = evaluation.judged
    rows = zip(judged.labels, judged.precision, judged.recall, judged.f1, judged.true.sum(axis=0), strict=True)
    classes = [
        {"label": label, "precision": precision, "recall": recall, "f1": f1, "texts": int(count)}
        for label, precision, recall, f1, count in rows
    ]
    confusion = {} if evaluation.several else {"confusion": judged.confusion.tolist()}  # rows: true; columns: said
    return {
        "accuracy_interval": judged.accuracy_interval,
        "texts": judged.texts,
        "blank": evaluation.blank,
        "classes": classes,
        **confusion,
        "texts_per_second": round(evaluation.texts_per_second, 1),
    }


def _finite(scores: Mapping[str, float]) -> dict[str, float | None]:
    return {name: score if math.isfinite(score) else None for name, score in scores.items()}
