"""A trained classifier of texts: text in, classes with their probabilities out; and what all classifiers share."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, Unpack, overload

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from heedful.base.arguments import check_text
from heedful.base.errors import UserError
from heedful.base.options import show_options
from heedful.base.packed import Packed
from heedful.data.corpora.texts import Text, classes_of
from heedful.explain.readings import log_probabilities
from heedful.models.bundle import NetworkType
from heedful.models.hierarchical import HierarchicalEncoder
from heedful.models.networks import Classifier
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.classify.classification import BLANK, classifications, compare_classes
from heedful.tasks.classify.classification import Classification as Classification
from heedful.tasks.classify.evaluation import ClassEvaluation, ClassScores
from heedful.tasks.classify.rules import CLASSIFY
from heedful.tasks.shared.loaded_model import EvaluateOptions, listed
from heedful.tasks.shared.pooled.explaining import Output
from heedful.tasks.shared.pooled.models import PooledModel, PooledTextModel

Scored = TypeVar("Scored", bound=ClassScores)


class AnyClassifier(PooledModel[NetworkType, Scored, Classification], Generic[NetworkType, Scored]):
    """A trained model that chooses classes for what it reads."""

    _does = "classify"
    _classes: ClassVar = "classes"  # what they are called
    _evaluation_type: type[Scored]
    _nothing = BLANK

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the network's scores."""
        return self.vocabularies.labels

    @property
    def several(self) -> bool:
        """Whether what is classified may have several labels, or none."""
        return bool(getattr(self.recipe.model, "labels", "one") == "several")

    def scores(
        self, rows: Sequence[Any], advance: Callable[[int], None] = lambda finished: None
    ) -> Float[Tensor, "B C"]:
        """Return the scores of every class for what is classified, in its order; texts are normalised and not blank.

        `advance` is called with the number of rows finished since the last call.
        """
        return self._outputs(rows, advance) if rows else torch.empty(0, len(self.labels))

    def classified(self, scores_BC: Float[Tensor, "B C"]) -> list[Classification]:
        """Turn scores into classifications."""
        return classifications(scores_BC, self.labels, self.several)

    _predictions = classified

    def _output(self, outputs_BC: Tensor) -> Output:
        best, (found,) = int(outputs_BC[0].argmax()), self.classified(outputs_BC)
        return Output(best, self.labels[best], ", ".join(found.labels), found.probabilities)

    def _evaluation(self, rows: Sequence[Any], true: Sequence[Any], outputs_BC: Tensor, **facts: Any) -> Scored:
        result = compare_classes(outputs_BC, true, self.labels, self.several, self._noun)
        found = tuple(self.classified(outputs_BC))
        return self._evaluation_type(**self._shown(rows), found=found, result=result, noun=self._noun, **facts)

    def _shown(self, rows: Sequence[Any]) -> Mapping[str, Any]:
        """Return the fields of an evaluation that hold what was classified."""
        return {f"{self._noun}s": tuple(rows)}

    def _own_facts(self) -> Iterator[str]:
        kind = "several labels of " if self.several else ""
        yield f"{kind}{len(self.labels):,} {self._classes}: {listed(self.labels)}"


@dataclass(frozen=True)
class PoolWeights:
    """Weights within a sentence of a document, or within a text or a pair that is read as one sequence."""

    pieces: tuple[str, ...]  # markers included, as the pool weights them too
    weights: tuple[float, ...]  # weight of each piece; they sum to one, unless the pool's own weights do not
    weight: float  # weight of the sentence in its document, which sum to one; 1 where the text is one sequence


class TextClassifier(
    AnyClassifier[Classifier, ClassEvaluation], PooledTextModel[Classifier, ClassEvaluation, Classification]
):
    """A trained classifier with its recipe and its tokenizer.

    It runs on the device and in the precision that `load` chose. Texts are read as in training, so long ones are cut.
    """

    _rules, _network, _evaluation_type = CLASSIFY, Classifier, ClassEvaluation

    @overload
    def classify(self, texts: str, seconds: str | None = None) -> Classification: ...  # type: ignore[overload-overlap]
    @overload
    def classify(self, texts: Iterable[str], seconds: Iterable[str] | None = None) -> list[Classification]: ...
    def classify(
        self, texts: str | Iterable[str], seconds: str | Iterable[str] | None = None
    ) -> Classification | list[Classification]:
        """Classify texts, or one text; a model of pairs needs the second text of each.

        The classification of a text that is longer than the model reads says that it was `cut`.
        """
        return self._predict(texts, seconds)

    def _of_cut(self, prediction: Classification) -> Classification:
        return replace(prediction, cut=True)

    @show_options(EvaluateOptions)
    def evaluate(self, data: object, **options: Unpack[EvaluateOptions]) -> ClassEvaluation:
        """Classify texts and compare with their labels: accuracy, F1, and which classes are confused.

        `data` are texts with labels in any form that `heedful.train` takes: tuples, dictionaries, columns, frames.
        """
        return self._evaluate(data, **options)

    def _scale(self) -> Callable[[Tensor], Tensor]:
        return logsigmoid if self.several else log_probabilities

    def _output_of(self, name: str) -> int:
        if name not in self.labels:
            raise UserError(f"`{name}` is not a class of this model: it has {listed(self.labels)}.")
        return self.labels.index(name)

    def _output_names(self, outputs: Sequence[int]) -> Sequence[str]:
        return [self.labels[number] for number in outputs]

    def _truth(self, rows: Sequence[Text], name: str) -> Sequence[Sequence[int]]:
        return classes_of(rows, self.labels, name)

    @torch.inference_mode()
    def weights(self, text: str, second: str | None = None) -> list[PoolWeights]:
        """Return the pool's weights of the tokens of a text; for a document, sentence by sentence.

        If co-attention joins a pair, there are weights for each of its texts. If a pool has a weight for each feature,
        it is their mean.
        """
        if not hasattr(self.network, "pooled"):
            raise UserError("The network of this model is its program's own and has no pool: it has no weights.")
        formed = self._checked(check_text(text, "`text`"), second)
        if formed.blank:
            return []
        read = self._inputs(formed)
        with evaluation_mode(self.network):
            outer = self.network.pooled.weights(read).mean(dim=1).tolist()
            if isinstance(read, Packed):
                words, inner, outer = read, outer, [1.0] * read.layout.sentences
            else:
                assert isinstance(self.network.encoder, HierarchicalEncoder)
                words, inner = read.words, self.network.encoder.words.weights(read.words).mean(dim=1).tolist()
        pieces, ends = self.vocabularies["text"].pieces(words.values.tolist()), words.layout.offsets.tolist()
        spans = zip(ends, ends[1:], outer, strict=False)
        return [PoolWeights(tuple(pieces[begin:end]), tuple(inner[begin:end]), weight) for begin, end, weight in spans]


load_classifier = TextClassifier.load
