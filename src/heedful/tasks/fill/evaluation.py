"""A masked language model judged on running text, always by the same masks."""

import time
from dataclasses import dataclass

from heedful.config.corpora import AnyCorpus
from heedful.data.corpora.files import content_key
from heedful.data.prepare.text_stores import TextStores
from heedful.metrics.masked_tokens import MaskedPredictions, predict_masked
from heedful.models.bundle import Bundle
from heedful.models.networks import MaskedModel
from heedful.tasks.fill.task import judging_feed
from heedful.tasks.shared.evaluation_mode import evaluation_mode


@dataclass(frozen=True)
class MaskedEvaluation:
    """Scores of a masked language model on documents."""

    predictions: MaskedPredictions
    documents: int
    seconds: float  # of filling masks


def evaluate_masked(bundle: Bundle[MaskedModel], corpus: AnyCorpus, folder: str) -> MaskedEvaluation:
    """Mask the documents of a corpus as training does, and count what the model makes of them.

    The cuts and the masks are a function of the corpus, the tokenizer, `data.max_length` and `train.masking` alone.
    """
    tokenizer, data = bundle.vocabularies["text"], bundle.recipe.data.model_copy(update={"folder": folder})
    contents = {corpus: content_key(corpus, folder)}
    store = TextStores(data, tokenizer, contents, lambda message: None, documents=True).store(corpus)
    feed = judging_feed(bundle, [store], corpus.title)
    began = time.perf_counter()
    with evaluation_mode(bundle.model):
        found = predict_masked(bundle.model, map(feed.batch, feed.plan(0)))
    return MaskedEvaluation(found, len(store), time.perf_counter() - began)
