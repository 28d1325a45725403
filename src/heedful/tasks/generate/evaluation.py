"""Evaluation of a language model: how well it predicts the texts of a corpus."""

import time
from dataclasses import dataclass

from heedful.base.errors import counted
from heedful.base.notes import ShowProgress, show_nothing
from heedful.config.corpora.containers import AnyCorpus
from heedful.data.corpora.documents import count_words, read_running_text
from heedful.data.corpora.files import content_key
from heedful.data.prepare.stores import build_store
from heedful.data.prepare.texts import TextKind, text_rows
from heedful.data.text_form import TextForm
from heedful.metrics.language.perplexity import Likelihood
from heedful.metrics.scores import Score, scores_of
from heedful.models.bundle import Bundle
from heedful.models.networks import LanguageModel
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.generate.metrics import METRICS
from heedful.tasks.generate.predicted_text import predicted_text
from heedful.tasks.shared.evaluation import Evaluation


@dataclass(frozen=True)
class TextSize:
    """The size of texts, independent of any tokenizer."""

    documents: int
    words: int  # separated by spaces, and one more for each line break
    lines: int
    bytes: int


@dataclass(frozen=True, eq=False)
class LanguageEvaluation(Evaluation):
    """Scores of a language model on documents."""

    likelihood: Likelihood
    size: TextSize
    vocabulary: int
    stride: int | None  # None: the state was carried over the whole text
    seconds: float

    def task_scores(self) -> list[Score]:
        """Return perplexities and bits per byte."""
        return scores_of(METRICS, self)

    def remarks(self) -> list[str]:
        """Return the time taken."""
        return [f"{counted(self.size.documents, 'document')} in {self.seconds:.1f} s"]

    def facts(self) -> dict[str, object]:
        """Return the sizes of the texts, and the time taken."""
        return {
            "documents": self.size.documents,
            "tokens": self.likelihood.tokens,
            "words": self.size.words,
            "lines": self.size.lines,
            "bytes": self.size.bytes,
            "stride": self.stride,
            "seconds": round(self.seconds, 3),
        }


def evaluate_language(
    bundle: Bundle[LanguageModel],
    corpus: AnyCorpus,
    folder: str,
    stride: int | None = None,
    show: ShowProgress = show_nothing,
) -> LanguageEvaluation:
    """Predict every token of a corpus, and score the predictions.

    A window of `data.max_length` tokens moves by `stride` tokens, by default by its own length: a smaller stride gives
    each token more text before it, and takes longer. A recurrent model with open borders reads each corpus from its
    beginning to its end instead, in up to ten parallel streams.
    """
    recipe, tokenizer = bundle.recipe, bundle.vocabularies["text"]
    data = recipe.data.model_copy(update={"folder": folder})
    rows = text_rows(corpus, data, tokenizer, TextKind(running=True))
    store = build_store(corpus, rows, content_key(corpus, folder), lambda message: None)
    text = predicted_text(recipe, [store], stride)
    started = time.perf_counter()
    with evaluation_mode(bundle.model):
        found = text.likelihood(bundle.model, show, "evaluating: batch")
    seconds = time.perf_counter() - started
    documents = words = lines = of_bytes = 0
    for document in read_running_text(corpus, folder, TextForm.of(data)):
        documents += 1
        words += count_words(document)
        lines += document.count("\n") + (not document.endswith("\n"))
        of_bytes += len(document.encode())
    size = TextSize(documents, words, lines, of_bytes)
    return LanguageEvaluation(found, size, tokenizer.size, text.stride, seconds)
