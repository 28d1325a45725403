"""A trained classifier of texts: text in, classes with their probabilities out; and what all classifiers share."""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.base.arguments import check_several, check_text, check_texts, check_whole
from heedful.base.errors import UserError
from heedful.config.model.pooled import ClassifierModel
from heedful.config.tables import model_of
from heedful.data.corpora.in_memory import labels_of_row, read_rows
from heedful.data.corpora.texts import Text, classes_of
from heedful.data.epochs.loader import Collator
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore
from heedful.explain.explanation import Explanation
from heedful.explain.texts import explain_swapped, refuse_blank
from heedful.metrics.own_metrics import GivenMetrics, check_metrics
from heedful.models.bundle import Bundle, NetworkType
from heedful.models.networks import Classifier
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.classify.classification import BLANK, classifications, compare_classes
from heedful.tasks.classify.classification import Classification as Classification
from heedful.tasks.classify.evaluation import ClassEvaluation
from heedful.tasks.classify.explaining import PoolWeights, explain_text, pool_weights
from heedful.tasks.classify.rules import CLASSIFY
from heedful.tasks.shared.embeddings import Embeds
from heedful.tasks.shared.inputs import TextInputs, outputs_of_rows, text_collator
from heedful.tasks.shared.loaded_model import LoadedModel, listed
from heedful.tasks.shared.streaming import CHUNK, answer_stream, chunks


class AnyClassifier(LoadedModel[NetworkType]):
    """A trained model that chooses classes for what it reads."""

    _noun = "text"  # what has classes
    _classes = "classes"  # what they are called
    _chunk = CHUNK  # number of inputs that are in memory at once when they are evaluated

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the network's scores."""
        return self.vocabularies.labels

    @property
    def several(self) -> bool:
        """Whether what is classified may have several labels, or none."""
        return bool(getattr(self.recipe.model, "labels", "one") == "several")

    @abstractmethod
    def store(self, rows: Sequence[Any]) -> TokenStore:
        """Make a store of what is classified, as in training."""

    @abstractmethod
    def _collator(self) -> Collator[Any]:
        """Return what makes batches of a store."""

    def _questions(self, store: TokenStore) -> Indices | None:
        """Return the number of questions of each row of a store; None where a row is classified itself."""
        return None

    @torch.inference_mode()
    def scores(
        self, rows: Sequence[Any], advance: Callable[[int], None] = lambda finished: None
    ) -> Float[Tensor, "B C"]:
        """Return the scores of every class for what is classified, in its order; texts are normalised and not blank.

        `advance` is called with the number of rows finished since the last call.
        """
        if not rows:
            return torch.empty(0, len(self.labels))
        store, tokens = self.store(rows), self.recipe.data.batch_tokens
        with evaluation_mode(self.network):
            return outputs_of_rows(
                self.network, self._collator(), [store], np.arange(len(rows)), tokens, self._questions(store), advance
            )

    def classified(self, scores_BC: Float[Tensor, "B C"]) -> list[Classification]:
        """Turn scores into classifications."""
        return classifications(scores_BC, self.labels, self.several)

    def _evaluated(
        self, rows: Sequence[Any], classes: Sequence[Sequence[int]], progress: Callable[[int], None]
    ) -> dict[str, Any]:
        """Classify rows and compare with their true classes, given by number."""
        began = time.perf_counter()
        scores_BC = torch.cat([self.scores(part, progress) for part in chunks(rows, self._chunk)])
        seconds = time.perf_counter() - began
        result = compare_classes(scores_BC, classes, self.labels, self.several, self._noun)
        return {"found": tuple(self.classified(scores_BC)), "result": result, "seconds": seconds}

    def _own_facts(self) -> Iterator[str]:
        kind = "several labels of " if self.several else ""
        yield f"{kind}{len(self.labels):,} {self._classes}: {listed(self.labels)}"


class TextClassifier(AnyClassifier[Classifier], Embeds[Classifier]):
    """A trained classifier with its recipe and its tokenizer.

    It runs on the device and in the precision that `load` chose. Texts are read as in training, so long ones are cut.
    """

    _rules, _network = CLASSIFY, Classifier

    def __init__(self, bundle: Bundle[Classifier]) -> None:
        super().__init__(bundle)
        model = model_of(bundle.recipe, ClassifierModel)
        self._inputs = TextInputs(model, bundle.recipe.data, bundle.vocabularies["text"])

    @property
    def paired(self) -> bool:
        """Whether the model reads pairs of texts."""
        return self._inputs.paired

    @overload
    def classify(self, texts: str, seconds: str | None = None) -> Classification: ...  # type: ignore[overload-overlap]
    @overload
    def classify(self, texts: Iterable[str], seconds: Iterable[str] | None = None) -> list[Classification]: ...
    def classify(
        self, texts: str | Iterable[str], seconds: str | Iterable[str] | None = None
    ) -> Classification | list[Classification]:
        """Classify texts, or one text; a model of pairs needs the second text of each."""
        if seconds is not None and isinstance(texts, str) != isinstance(seconds, str):
            raise UserError("`texts` and `seconds` must be one text each, or a list of texts each.")
        if isinstance(texts, str):
            return self.classify([texts], [seconds] if isinstance(seconds, str) else None)[0]
        firsts, others = check_texts(texts), None if seconds is None else check_texts(seconds, "seconds")
        self._inputs.check_seconds(firsts, others)
        return list(self.stream_texts(map(Text, firsts) if others is None else map(Text, firsts, others)))

    def stream(self, texts: Iterable[str]) -> Iterator[Classification]:
        """Classify an endless or a very large number of single texts, some at a time, in order."""
        if self.paired:
            raise UserError("This model reads pairs of texts: use `stream_texts`.")
        lines = enumerate(check_several(texts, "texts"), start=1)
        return self.stream_texts(Text(check_text(text, f"texts, line {number:,}")) for number, text in lines)

    def stream_texts(
        self,
        texts: Iterable[Text],
        *,
        chunk: int = CHUNK,
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
    ) -> Iterator[Classification]:
        """Classify a stream of single texts, or of pairs, `chunk` of them at a time.

        Fewer are taken when `ready` says that the next one has not arrived yet. `name` is the stream's name in
        messages.
        """
        check_whole("chunk", chunk, least=1)

        def classified(part: Sequence[Text], first: int) -> list[Classification]:
            self._inputs.check(part, name, first)
            formed = [self.formed(text) for text in part]
            found = iter(self.classified(self.scores([text for text in formed if not text.blank])))
            return [BLANK if text.blank else next(found) for text in formed]

        return answer_stream(texts, classified, chunk=chunk, ready=ready)

    def evaluate(
        self,
        data: object,
        *,
        name: str = "data",
        progress: Callable[[int], None] = lambda ready: None,
        metrics: GivenMetrics | None = None,
    ) -> ClassEvaluation:
        """Classify texts and compare with their labels: accuracy, F1, and which classes are confused.

        `data` are texts with labels in any form that `heedful.train` takes: tuples, dictionaries, columns, frames.
        `name` is their name in messages; `progress` is called with the number of texts finished since the last call.
        `metrics` are functions of your own by name, which get the predicted and the true labels: see `heedful.Metric`.
        """
        own = check_metrics(metrics, self.recipe.rules)
        rows = read_rows(data, CLASSIFY, name)
        texts = [Text(row["text"], row.get("second"), labels_of_row(row), line) for line, row in enumerate(rows, 1)]
        seconds = [text.second for text in texts if text.second is not None]
        self._inputs.check_seconds([text.text for text in texts], seconds or None)
        return self.evaluate_rows(texts, name=name, progress=progress).with_metrics(own)

    def evaluate_rows(
        self, rows: Sequence[Text], *, name: str = "texts", progress: Callable[[int], None] = lambda ready: None
    ) -> ClassEvaluation:
        """Classify texts and compare with their labels; blank ones are left out, as in training."""
        read = tuple(text for text in map(self.formed, rows) if not text.blank)
        if not read:
            raise UserError(f"{name} has no text to classify.")
        classes = classes_of(read, self.labels, name)
        return ClassEvaluation(texts=read, blank=len(rows) - len(read), **self._evaluated(read, classes, progress))

    def weights(self, text: str, second: str | None = None) -> list[PoolWeights]:
        """Return the pool's weights of the tokens of a text; for a document, sentence by sentence.

        If co-attention joins a pair, there are weights for each of its texts.
        """
        check_text(text, "`text`")
        if not hasattr(self.network, "pooled"):
            raise UserError("The network of this model is its program's own and has no pool: it has no weights.")
        formed = self._inputs.check_pair(text, second)
        if formed.blank:
            return []
        batch = self._collator().batch([self.store([formed])], np.arange(1))
        with evaluation_mode(self.network):
            return pool_weights(self.network, batch.to(self.device).inputs, self.vocabularies["text"].pieces)

    def explain(
        self,
        text: str,
        second: str | None = None,
        *,
        gradients: bool = False,
        swapped: Mapping[str, str] | None = None,
    ) -> Explanation:
        """Return the weights with which the model read a text or a pair, and the probability of every class.

        With `gradients`, also return how much each token would change the most likely class.
        `swapped` asks what if: it has words of the text and those that replace them, and `before` is the explanation of
        the text as it is.
        """
        refuse_blank(check_text(text, "`text`"))
        if swapped is not None:
            return explain_swapped(lambda other: self.explain(other, second, gradients=gradients), text, swapped)
        store = self.store([self._inputs.check_pair(text, second)])
        batch = self._collator().batch([store], np.arange(1)).to(self.device)
        return explain_text(self, text, batch.inputs, self.several, gradients)

    def formed(self, text: Text) -> Text:
        """Return a text as the model reads it: normalised, and lowercased if the recipe sets it."""
        return self._inputs.formed(text)

    def store(self, rows: Sequence[Text]) -> TokenStore:
        """Tokenize normalised texts as in training; documents also have the lengths of their sentences."""
        return self._inputs.store(rows)

    def _collator(self) -> Collator[Any]:
        classes = len(self.labels) if self.several else 0
        return text_collator(self._inputs.model, self.recipe.data, classes)


load_classifier = TextClassifier.load
