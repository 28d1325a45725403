"""Evaluation of a masked language model on running text, always with the same masks."""

import time
from dataclasses import dataclass

from heedful.base.errors import counted
from heedful.config.corpora.containers import AnyCorpus
from heedful.data.corpora.files import content_key
from heedful.data.prepare.stores import build_store
from heedful.data.prepare.texts import TextKind, text_rows
from heedful.metrics.language.perplexity import MaskedPredictions, predict_masked
from heedful.metrics.scores import Score, scores_of
from heedful.models.bundle import Bundle
from heedful.models.networks import MaskedModel
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.fill.data import evaluation_feed
from heedful.tasks.fill.metrics import METRICS
from heedful.tasks.shared.evaluation import Evaluation


@dataclass(frozen=True, eq=False)
class MaskedEvaluation(Evaluation):
    """Scores of a masked language model on documents."""

    predictions: MaskedPredictions
    documents: int
    seconds: float  # time to fill masks

    def task_scores(self) -> list[Score]:
        """Return accuracy and perplexity over masked tokens, and next-sentence accuracy if the model predicts it."""
        return scores_of(METRICS, self.predictions)

    def remarks(self) -> list[str]:
        """Return the time taken."""
        return [f"{counted(self.documents, 'document')} in {self.seconds:.1f} s"]

    def facts(self) -> dict[str, object]:
        """Return the numbers of documents, masked tokens and pairs, and the time taken."""
        found = self.predictions
        return {
            "documents": self.documents,
            "masked_tokens": found.likelihood.tokens,
            "pairs": found.pairs,
            "seconds": round(self.seconds, 3),
        }


def evaluate_masked(bundle: Bundle[MaskedModel], corpus: AnyCorpus, folder: str) -> MaskedEvaluation:
    """Mask the documents of a corpus as in training, and score the model's predictions.

    The cuts and the masks are a function of the corpus, the tokenizer, `data.max_length` and `train.masking` alone.
    """
    tokenizer, data = bundle.vocabularies["text"], bundle.recipe.data.model_copy(update={"folder": folder})
    rows = text_rows(corpus, data, tokenizer, TextKind(documents=True))
    store = build_store(corpus, rows, content_key(corpus, folder), lambda message: None)
    feed = evaluation_feed(bundle, [store], corpus.title)
    began = time.perf_counter()
    with evaluation_mode(bundle.model):
        found = predict_masked(bundle.model, map(feed.batch, feed.plan(0)))
    return MaskedEvaluation(found, len(store), time.perf_counter() - began)
