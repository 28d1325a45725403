"""A trained classifier: text in, classes with their probabilities out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Self, overload

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.base.arguments import check_one_each, check_path, check_several, check_text, check_texts, check_whole
from heedful.base.errors import UserError
from heedful.config.model.encoder_only import ClassifierModel
from heedful.config.tables import model_of
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.in_memory import labels_of_row, read_rows
from heedful.data.corpora.texts import Text
from heedful.data.prepare.document_pieces import document_of, document_store
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.explain.capture import capture_weights
from heedful.explain.explanation import Explanation, TokenSequence
from heedful.explain.gradients import explain_by_gradients
from heedful.explain.texts import explain_reading, explain_swapped, name_inputs, only_used, refuse_blank
from heedful.metrics.own_metrics import GivenMetrics, check_metrics
from heedful.models.bundle import Bundle, other_task, read_bundle
from heedful.models.networks import Classifier
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.classify.evaluation import ClassEvaluation, evaluate_classifier
from heedful.tasks.classify.pool_weights import PoolWeights, pool_weights
from heedful.tasks.classify.rules import CLASSIFY
from heedful.tasks.classify.scoring import collator_of, scores_of
from heedful.tasks.shared.classes.classification import BLANK, classifications
from heedful.tasks.shared.classes.classification import Classification as Classification
from heedful.tasks.shared.embeddings import Embeds
from heedful.tasks.shared.loaded_model import Placement, listed
from heedful.tasks.shared.streaming import CHUNK, answer_stream


class TextClassifier(Embeds[Classifier]):
    """A trained classifier with its recipe and its tokenizer.

    It runs on the device and in the precision that `load` chose. Texts are read as in training, so long ones are cut.
    """

    @classmethod
    def load(cls, path: str | PathLike[str], device: str = "auto", precision: str = "auto") -> Self:
        """Load a classifier as `heedful.load` does; refuse any other model."""
        return cls(read_classifier(check_path("path", path), Placement.of(device, precision)))

    def __init__(self, bundle: Bundle[Classifier]) -> None:
        super().__init__(bundle)
        self._form = TextForm.of(bundle.recipe.data)
        self._collator = collator_of(bundle.recipe, len(bundle.vocabularies.labels))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the network's scores."""
        return self.vocabularies.labels

    @property
    def several(self) -> bool:
        """Whether a text may have several labels, or none."""
        return self._config.labels == "several"

    @property
    def paired(self) -> bool:
        """Whether the model reads pairs of texts."""
        return not self._config.nested and self.recipe.data.paired

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
        self._check_seconds(firsts, others)
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
            for texts in ([text.text for text in part], [text.second or "" for text in part]):
                self._form.check(texts, name, first)
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
        self._check_seconds([text.text for text in texts], _seconds(texts))
        return evaluate_classifier(self, texts, name=name, progress=progress).with_metrics(own)

    def weights(self, text: str, second: str | None = None) -> list[PoolWeights]:
        """Return the pool's weights of the tokens of a text; for a document, sentence by sentence.

        If co-attention joins a pair, there are weights for each of its texts.
        """
        check_text(text, "`text`")
        self._check_seconds([text], None if second is None else [second])
        if not hasattr(self.network, "pooled"):
            raise UserError("The network of this model is its program's own and has no pool: it has no weights.")
        for name, content in (("`text`", text), ("`second`", second or "")):
            self._form.check_text(content, name)
        formed = self.formed(Text(text, second))
        if formed.blank:
            return []
        batch = self._collator.batch((self.store([formed]),), np.arange(1))
        with evaluation_mode(self.network):
            return pool_weights(self.network, batch.to(self.device).text, self.vocabularies["text"].pieces)

    @torch.no_grad()
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
        self._check_seconds([text], None if second is None else [second])
        for name, content in (("`text`", text), ("`second`", second or "")):
            self._form.check_text(content, name)
        batch = self._collator.batch((self.store([self.formed(Text(text, second))]),), np.arange(1)).to(self.device)
        with evaluation_mode(self.network), capture_weights(self.network) as captured:
            scores_BC = self.network(batch.text)
        (found,) = self.classified(scores_BC.float().cpu())
        best, attentions = int(scores_BC[0].argmax()), explain_reading(captured)
        if gradients:
            run = partial(self.network, batch.text)
            attentions += (*explain_by_gradients(self.network, run, [best], "output", "text"),)
        named = name_inputs(self.vocabularies["text"], batch.text)
        sequences = only_used(named | {"output": TokenSequence.named([self.labels[best]])}, attentions)
        recipe, output = self.recipe, ", ".join(found.labels)
        gates = captured.explain_gates(named)
        gates_along = {one.steps for one in gates}
        return Explanation(
            recipe.rules.name,
            recipe.model.family,
            text,
            output,
            sequences | {name: named[name] for name in gates_along},
            attentions,
            classes=found.probabilities,
            gates=gates,
            states=captured.explain_states(named),
        )

    def formed(self, text: Text) -> Text:
        """Return a text as the model reads it: normalised and lowercased if the recipe says so."""
        if self._config.nested:
            return text  # normalised later, after it is split into sentences: see `store`
        return text.formed(self._form)

    @torch.inference_mode()
    def scores(self, texts: Sequence[Text]) -> Float[Tensor, "B C"]:
        """Return the scores of every class for normalised texts, none of them blank, in their order."""
        if not texts:
            return torch.empty(0, len(self.labels))
        with evaluation_mode(self.network):
            return scores_of(self._bundle, (self.store(texts),), np.arange(len(texts)))

    def classified(self, scores_BC: Float[Tensor, "B C"]) -> list[Classification]:
        """Turn scores into classifications."""
        return classifications(scores_BC, self.labels, self.several)

    def store(self, texts: Sequence[Text]) -> TokenStore:
        """Tokenize normalised texts as in training; documents also have the lengths of their sentences."""
        encode = self.vocabularies["text"].encode_batch
        if self._config.nested:
            documents = [document_of(text.text, self._form) for text in texts]
            return document_store(documents, self.vocabularies["text"], self._config.reads_letters)
        streams = {"text": encode([text.text for text in texts])}
        if self.paired:
            streams["second"] = encode([text.second or "" for text in texts])
        return TokenStore.of(**streams)

    @property
    def _config(self) -> ClassifierModel:
        return model_of(self.recipe, ClassifierModel)

    def _own_facts(self) -> Iterator[str]:
        kind = "several labels of " if self.several else ""
        yield f"{kind}{len(self.labels):,} classes: {listed(self.labels)}"

    def _check_seconds(self, texts: Sequence[str], seconds: Sequence[str] | None) -> None:
        if seconds is None and self.paired:
            raise UserError("This model reads pairs of texts: give `seconds`, one per text.")
        if seconds is not None and not self.paired:
            raise UserError("This model reads single texts: leave out `seconds`.")
        if seconds is not None:
            check_one_each(len(texts), "text", len(seconds), "second text")


def _seconds(texts: Sequence[Text]) -> list[str] | None:
    found = [text.second for text in texts if text.second is not None]
    return found or None


load_classifier = TextClassifier.load


def read_classifier(folder: Path, placement: Placement, rules: TaskRules | None = None) -> Bundle[Classifier]:
    """Read a classifier from its folder and place it; `rules` are those of the task that it was trained for."""
    bundle = read_bundle(folder, Classifier, rules)
    if not isinstance(bundle.recipe.model, ClassifierModel):
        raise other_task(folder, bundle.recipe)
    placement.put(bundle.model)
    return bundle
