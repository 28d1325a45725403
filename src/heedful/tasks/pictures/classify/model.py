"""A trained classifier of pictures: picture in, classes with their probabilities out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from heedful.arguments import check_flag, check_path, check_several, check_text
from heedful.config.rules.classify_pictures import picture_model
from heedful.config.rules.task_rules import TaskRules
from heedful.data.pictures.batches import picture_streams
from heedful.data.pictures.given import AnyPicture, is_one_picture, picture_of
from heedful.data.pictures.reading import Picture
from heedful.data.pictures.stores import decode_all
from heedful.data.token_store import TokenStore
from heedful.errors import UserError
from heedful.metrics.own_metrics import GivenMetrics, check_metrics
from heedful.models.bundle import Bundle, other_task, read_bundle
from heedful.models.networks import Classifier
from heedful.tasks.pictures.classify.evaluation import PictureEvaluation, evaluate_pictures
from heedful.tasks.pictures.classify.scoring import scores_of
from heedful.tasks.pictures.explaining import explain_picture
from heedful.tasks.shared.classes.classification import BLANK, Classification, classifications
from heedful.tasks.shared.evaluation_mode import evaluation_mode
from heedful.tasks.shared.explaining.explanation import Explanation
from heedful.tasks.shared.explaining.pictures import ExplainedPicture
from heedful.tasks.shared.loaded_model import LoadedModel, listed
from heedful.tasks.shared.placement import Placement
from heedful.tasks.shared.streaming import answer_stream, empty_answer

_CHUNK = 256  # pictures that are in memory at once


class PictureClassifier(LoadedModel[Classifier]):
    """A trained classifier of pictures with its recipe.

    It runs on the device and in the precision that `load` chose. Pictures are read as in training: in gray or colour,
    and resized if the recipe says so.
    """

    @classmethod
    def load(cls, path: str | PathLike[str], device: str = "auto", precision: str = "auto") -> Self:
        """Load a classifier of pictures as `heedful.load` does; refuse any other model."""
        return cls(read_picture_classifier(check_path("path", path), Placement.of(device, precision)))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the network's scores."""
        return self.vocabularies.labels

    @property
    def several(self) -> bool:
        """Whether a picture may have several labels, or none."""
        return picture_model(self.recipe).labels == "several"

    @overload
    def classify(self, pictures: str | PathLike[str] | Image.Image) -> Classification: ...  # type: ignore[overload-overlap]
    @overload
    def classify(  # type: ignore[overload-overlap]
        self, pictures: np.ndarray[Any, Any]
    ) -> Classification | list[Classification]: ...
    @overload
    def classify(self, pictures: Iterable[AnyPicture]) -> list[Classification]: ...
    def classify(self, pictures: AnyPicture | Iterable[AnyPicture]) -> Classification | list[Classification]:
        """Classify pictures, or one picture: the path of a file, an array of pixels, or an image of Pillow.

        An array is height x width, or height x width x 3, of bytes from 0 to 255; a longer one holds several pictures.
        """
        if is_one_picture(pictures):
            return self.classify([pictures])[0]  # type: ignore[list-item]
        return list(self.stream(pictures))  # type: ignore[arg-type]

    def stream(
        self, pictures: Iterable[AnyPicture], *, refused: Callable[[UserError], None] | None = None
    ) -> Iterator[Classification]:
        """Classify an endless or a very large number of pictures, some at a time, in order.

        `refused` is called with the error of a picture that cannot be read, which then has an empty classification;
        without it the error is raised.
        """
        given = enumerate(check_several(pictures, "pictures"), start=1)
        read = (self._picture(picture, f"picture {number:,}") for number, picture in given)
        return self.stream_pictures(read, refused=refused)

    def stream_pictures(
        self, pictures: Iterable[Picture], *, refused: Callable[[UserError], None] | None = None
    ) -> Iterator[Classification]:
        """Classify a stream of pictures that are read when their turn comes; `refused` as in `stream`."""

        def classified(part: Sequence[Picture], first: int) -> list[Classification]:
            return classifications(self.scores(part), self.labels, self.several)

        return answer_stream(pictures, classified, chunk=_CHUNK, refused=empty_answer(refused, BLANK))

    def evaluate(
        self,
        data: Iterable[tuple[AnyPicture, str | int | Sequence[str]]],
        *,
        name: str = "data",
        progress: Callable[[int], None] = lambda ready: None,
        metrics: GivenMetrics | None = None,
    ) -> PictureEvaluation:
        """Classify pictures and compare with their labels: accuracy, F1, and which classes are confused.

        `data` are pairs of a picture, as `classify` takes it, and its label, or a list of labels if the model has
        several. `name` is their name in messages; `progress` is called with the number of pictures finished since the
        last call. `metrics` are functions of your own by name, which get the predicted and the true labels: see
        `heedful.Metric`.
        """
        own = check_metrics(metrics, self.recipe.rules)
        pictures = [self._labelled(row, f"{name}, row {number:,}") for number, row in enumerate(data, start=1)]
        return evaluate_pictures(self, pictures, name=name, progress=progress).with_metrics(own)

    def explain(self, picture: AnyPicture, *, gradients: bool = False, name: str = "") -> Explanation:
        """Return the attention between the patches of a picture, and the probability of every class.

        With `gradients`, also return how much each patch would change the most likely class. `name` is what the
        explanation calls the picture, by default its path.
        """
        encoder = picture_model(self.recipe).encoder
        read = self._picture(picture, "`picture`")
        (pixels,) = decode_all([read], self.recipe.data.pictures, encoder.channels)
        explained = ExplainedPicture(pixels, encoder.patch, encoder.class_token)
        return explain_picture(self, explained, name or read.where, check_flag("gradients", gradients))

    @torch.inference_mode()
    def scores(self, pictures: Sequence[Picture]) -> Float[Tensor, "B C"]:
        """Return the scores of every class for pictures, in their order."""
        if not pictures:
            return torch.empty(0, len(self.labels))
        channels = picture_model(self.recipe).encoder.channels
        decoded = list(decode_all(pictures, self.recipe.data.pictures, channels))
        with evaluation_mode(self.network):
            return scores_of(self._bundle, (TokenStore(picture_streams(decoded)),), np.arange(len(decoded)))

    def _own_facts(self) -> Iterator[str]:
        kind = "several labels of " if self.several else ""
        yield f"{kind}{len(self.labels):,} classes: {listed(self.labels)}"

    def _labelled(self, row: object, where: str) -> Picture:
        if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != 2:
            raise UserError(f"{where} must be a picture and its label.")
        picture = self._picture(row[0], where)
        several = self.several and isinstance(row[1], Sequence) and not isinstance(row[1], str | bytes)
        labels = row[1] if several else [row[1]]
        names = [
            str(label) if isinstance(label, int | np.integer) else check_text(label, f"{where}: the label")
            for label in labels
        ]
        return Picture(picture.source, tuple(dict.fromkeys(names)), picture.where)

    def _picture(self, given: object, where: str) -> Picture:
        """Return a picture that a program gave."""
        return picture_of(given, where, picture_model(self.recipe).encoder.channels)


def read_picture_classifier(folder: Path, placement: Placement, rules: TaskRules | None = None) -> Bundle[Classifier]:
    """Read a classifier of pictures from its folder and place it; `rules` are those of its task."""
    bundle = read_bundle(folder, Classifier, rules)
    if bundle.recipe.model.family != "picture_classifier":
        raise other_task(folder, bundle.recipe)
    placement.put(bundle.model)
    return bundle
