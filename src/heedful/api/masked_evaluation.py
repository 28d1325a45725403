"""A masked language model judged on running text, always by the same masks."""

import time
from dataclasses import dataclass

from heedful.api.evaluating import evaluating
from heedful.api.filling import masked_feed
from heedful.config.corpora import AnyCorpus
from heedful.data.corpora import content_key
from heedful.data.masked_feed import validation_batches
from heedful.data.prepare import Prepared
from heedful.data.text_stores import TextStores
from heedful.evaluate.masked import Foreseen, foreseen
from heedful.models.bundle import Bundle
from heedful.models.families import MaskedModel


@dataclass(frozen=True)
class MaskedEvaluation:
    """Scores of a masked language model on documents."""

    foreseen: Foreseen
    documents: int
    seconds: float  # of filling masks


def evaluate_masked(bundle: Bundle[MaskedModel], corpus: AnyCorpus, folder: str) -> MaskedEvaluation:
    """Mask the documents of a corpus as training does, and count what the model makes of them.

    The cuts and the masks are a function of the corpus, the tokenizer and `train.masking` alone.
    """
    tokenizer, data = bundle.tokenizers.source, bundle.recipe.data.model_copy(update={"folder": folder})
    contents = {corpus: content_key(corpus, folder)}
    store = TextStores(data, tokenizer, contents, lambda message: None, documents=True).store(corpus)
    prepared = Prepared(tokenizer, tokenizer, train=(store,), weights=(1.0,), valid=())
    began = time.perf_counter()
    with evaluating(bundle.model):
        found = foreseen(bundle.model, validation_batches(masked_feed(bundle.recipe, prepared)))
    return MaskedEvaluation(found, len(store), time.perf_counter() - began)
