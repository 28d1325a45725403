"""Evaluation of a tagger on words with labels."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from jaxtyping import Float
from torch import Tensor

from heedful.base.columns import one_column
from heedful.base.errors import UserError, counted
from heedful.base.label_schemes import first_forbidden, scheme_of
from heedful.data.corpora.tagged import TaggedText, label_numbers
from heedful.metrics.label_spans import SpanCounts
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.scores import ItemScores, Score, finite_scores
from heedful.models.networks import WordClassifier
from heedful.tasks.shared.streaming import CHUNK, chunks
from heedful.tasks.tag.label_scores import LabelScores, label_table, span_table
from heedful.tasks.tag.scoring import Scores, decide_labels, label_loss


class Tags(Protocol):
    """What is asked of a tagger: see `Tagger`."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels."""
        ...

    @property
    def network(self) -> WordClassifier:
        """PyTorch module."""
        ...

    def formed(self, text: TaggedText) -> TaggedText:
        """Return a sentence as the model reads it."""
        ...

    def scores(self, texts: Sequence[TaggedText]) -> Scores:
        """Return the scores of every label for the words of normalised sentences."""
        ...


@dataclass(frozen=True, eq=False)
class TagEvaluation:
    """Scores of a tagger on sentences, and its labels."""

    texts: tuple[TaggedText, ...]  # sentences as they were given, with the true labels; none is blank
    result: LabelScores
    loss: float  # -log P of the true labels, mean over words
    blank: int  # number of blank sentences, which were left out
    seconds: float  # time to tag
    forbidden: tuple[int, str] = (0, "")  # number of sentences whose true labels break the rules of spans; the first
    own: Mapping[str, float] = field(default_factory=dict)  # scores by metrics of the caller's program

    def with_metrics(self, metrics: Metrics) -> Self:
        """Return the evaluation with the scores of these metrics as well."""
        return replace(self, own={**self.own, **score_outputs(metrics, self.result.said, self.result.true)})

    @property
    def words_per_second(self) -> float:
        """Number of words tagged per second."""
        return self.result.words.texts / self.seconds

    def scores(self) -> list[Score]:
        """Return accuracy with its interval; precision, recall and F1 of spans, or the mean F1 of labels; loss."""
        words, spans = self.result.words, self.result.spans
        low, high = (100 * end for end in words.accuracy_interval)
        right = f"{words.right_texts:,} of {words.texts:,} words; 95% interval {low:.1f}% to {high:.1f}%"
        if spans is None:
            of_labels = [Score("f1", "macro F1", self.result.f1, "percent")]
        else:
            found = spans.spans
            of_labels = [
                Score("precision", "precision", found.precision, "percent", f"of {found.predicted:,} predicted spans"),
                Score("recall", "recall", found.recall, "percent", f"of {found.true:,} true spans"),
                Score("f1", "F1", found.f1, "percent", f"{found.right:,} spans are right"),
            ]
        return [
            Score("accuracy", "accuracy", words.accuracy, "percent", right),
            *of_labels,
            Score("loss", "loss", self.loss, "loss"),
            *(Score(name, name, value) for name, value in self.own.items()),
        ]

    def item_scores(self) -> ItemScores:
        """Return what each sentence adds to the scores."""
        return ItemScores(
            "sentence",
            [(text.words, text.labels) for text in self.texts],
            self.result.item_scores(),
            [
                (" ".join(text.words), " ".join(text.labels), " ".join(said))
                for text, said in zip(self.texts, self.result.said, strict=True)
            ],
            [len(text.words) for text in self.texts],
            "sentence",
        )

    def remarks(self) -> list[str]:
        """Return the time taken, and a table of scores per type of span, or per label."""
        blank = f", {counted(self.blank, 'blank one')} left out" if self.blank else ""
        spans, speed = self.result.spans, f"{self.words_per_second:,.0f} words/s"
        return [
            f"{counted(len(self.texts), 'sentence')} in {self.seconds:.1f} s{blank}, {speed}",
            *self._forbidden_labels(),
            "",
            *(label_table(self.result.words) if spans is None else span_table(spans)),
        ]

    def _forbidden_labels(self) -> Iterator[str]:
        count, first = self.forbidden
        if count:
            yield (
                f"{counted(count, 'sentence')} with true labels that break the rules, the first at {first}; such a "
                "label is read as the start of a span, as seqeval does"
            )

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        words, spans = self.result.words, self.result.spans
        types = {} if spans is None else {"types": [_row(name, counts) for name, counts in spans.by_type.items()]}
        return {
            **finite_scores([score for score in self.scores() if score.name not in self.own]),
            **({"metrics": dict(self.own)} if self.own else {}),
            "accuracy_interval": words.accuracy_interval,
            "sentences": len(self.texts),
            "words": words.texts,
            "blank": self.blank,
            "forbidden": self.forbidden[0],
            **types,
            "labels": [
                {"label": label, "precision": precision, "recall": recall, "f1": f1, "words": int(count)}
                for label, precision, recall, f1, count in words.by_class()
            ],
            "words_per_second": round(self.words_per_second, 1),
            "seconds": round(self.seconds, 3),
        }

    def outputs(self) -> Iterator[str]:
        """Yield one line per word: the word, its true label and the predicted one; a blank line after each sentence."""
        for text, said in zip(self.texts, self.result.said, strict=True):
            for row in zip(text.words, text.labels, said, strict=True):
                yield "\t".join(map(one_column, row))
            yield ""


def _row(name: str, counts: SpanCounts) -> dict[str, object]:
    return {
        "type": name,
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
        "spans": counts.true,
        "predicted": counts.predicted,
    }


def evaluate_tagger(
    tagger: Tags,
    texts: Sequence[TaggedText],
    *,
    name: str = "texts",
    progress: Callable[[int], None] = lambda ready: None,
) -> TagEvaluation:
    """Tag sentences and compare with their labels; blank ones are left out.

    `name` is the corpus's name in messages; `progress` is called with the number of sentences finished since the last
    call.
    """
    read = tuple(text for text in texts if not text.blank)
    if not read:
        raise UserError(f"{name} has no word to tag.")
    true = label_numbers(read, tagger.labels, name)
    scores: list[Float[Tensor, "W C"]] = []
    began = time.perf_counter()
    for part in chunks(read, CHUNK):
        scores += tagger.scores([tagger.formed(text) for text in part])
        progress(len(part))
    said = [decided.tolist() for decided in decide_labels(tagger.network, scores)]
    seconds = time.perf_counter() - began
    return TagEvaluation(
        read,
        LabelScores.of(tagger.labels, said, true),
        label_loss(tagger.network, scores, true),
        len(texts) - len(read),
        seconds,
        _forbidden(read, tagger.labels, name),
    )


def _forbidden(texts: Sequence[TaggedText], labels: tuple[str, ...], name: str) -> tuple[int, str]:
    """Return the number of sentences whose labels break the rules of spans, and where the first does so."""
    scheme = scheme_of(labels)
    if scheme is None:
        return 0, ""
    found = [(text, wrong) for text in texts if (wrong := first_forbidden(text.labels, scheme)) is not None]
    if not found:
        return 0, ""
    text, wrong = found[0]
    return len(found), f"{text.where(wrong.index, name)}: {wrong.reason}"
