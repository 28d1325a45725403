"""Evaluation of a tagger on words with labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heedful.base.columns import one_column
from heedful.base.errors import counted
from heedful.base.label_schemes import first_forbidden, scheme_of
from heedful.data.corpora.tagged import TaggedText
from heedful.metrics.classification import score_table
from heedful.tasks.shared.evaluation import Item, ItemEvaluation
from heedful.tasks.tag.label_scores import LabelScores
from heedful.tasks.tag.metrics import METRICS


@dataclass(frozen=True, eq=False, kw_only=True)
class TagEvaluation(ItemEvaluation):
    """Scores of a tagger on sentences, and its labels."""

    metrics = METRICS
    lengths_of = "sentence"

    texts: tuple[TaggedText, ...]  # sentences as they were given, with the true labels; none is blank
    result: LabelScores
    noun: str = "sentence"
    forbidden: tuple[int, str] = (0, "")  # number of sentences whose true labels break the rules of spans; the first

    @property
    def words_per_second(self) -> float:
        """Number of words tagged per second."""
        return self.result.words.texts / self.seconds

    def items(self) -> Iterator[Item]:
        """Yield the sentences with their labels."""
        for text, said in zip(self.texts, self.result.said, strict=True):
            shown, true = " ".join(text.words), " ".join(text.labels)
            yield Item((text.words, text.labels), shown, true, " ".join(said), len(text.words))

    def remarks(self) -> list[str]:
        """Return the time taken, and a table of scores per type of span, or per label."""
        count, first = self.forbidden
        words, spans = self.result.words, self.result.spans
        broken = (
            f"{counted(count, 'sentence')} with true labels that break the rules, the first at {first}; such a "
            "label is read as the start of a span, as seqeval does"
        )
        table = score_table("label", words.by_class(), "words")
        if spans is not None:
            types = spans.by_type.items()
            rows = [(name, one.precision, one.recall, one.f1, one.true) for name, one in types]
            table = score_table("type", rows, "spans")
        timing = self.timing(counted(len(self.texts), "sentence"), words.texts, "word")
        return [timing, *([broken] if count else []), "", *table]

    def facts(self) -> dict[str, object]:
        """Return sizes, the scores of each type of span and of each label, and times."""
        words, spans = self.result.words, self.result.spans
        types = [
            {
                "type": name,
                "precision": counts.precision,
                "recall": counts.recall,
                "f1": counts.f1,
                "spans": counts.true,
                "predicted": counts.predicted,
            }
            for name, counts in ({} if spans is None else spans.by_type).items()
        ]
        return {
            "accuracy_interval": words.accuracy_interval,
            "sentences": len(self.texts),
            "words": words.texts,
            "blank": self.blank,
            "forbidden": self.forbidden[0],
            **({} if spans is None else {"types": types}),
            "labels": words.facts_by_class("words"),
            "words_per_second": round(self.words_per_second, 1),
            "seconds": round(self.seconds, 3),
        }

    def outputs(self) -> Iterator[str]:
        """Yield one line per word: the word, its true label and the predicted one; a blank line after each sentence."""
        for text, said in zip(self.texts, self.result.said, strict=True):
            for row in zip(text.words, text.labels, said, strict=True):
                yield "\t".join(map(one_column, row))
            yield ""


def find_forbidden(texts: Sequence[TaggedText], labels: tuple[str, ...], name: str) -> tuple[int, str]:
    """Return the number of sentences whose labels break the rules of spans, and where the first does so."""
    scheme = scheme_of(labels)
    if scheme is None:
        return 0, ""
    found = [(text, wrong) for text in texts if (wrong := first_forbidden(text.labels, scheme)) is not None]
    if not found:
        return 0, ""
    text, wrong = found[0]
    return len(found), f"{text.where(wrong.index, name)}: {wrong.reason}"
