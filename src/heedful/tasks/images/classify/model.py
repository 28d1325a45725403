"""A trained classifier of images: image in, classes with their probabilities out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from heedful.base.arguments import check_flag, check_path, check_several, check_text
from heedful.base.errors import UserError
from heedful.config.model.images import ImageClassifierModel
from heedful.config.tables import model_of
from heedful.config.task_rules import TaskRules
from heedful.data.images.batches import image_streams
from heedful.data.images.given import AnyImage, image_of, is_one_image
from heedful.data.images.reading import LabelledImage
from heedful.data.images.stores import decode_all
from heedful.data.token_store import TokenStore
from heedful.explain.explanation import Explanation
from heedful.explain.images import ExplainedImage
from heedful.metrics.own_metrics import GivenMetrics, check_metrics
from heedful.models.bundle import Bundle, other_task, read_bundle
from heedful.models.networks import Classifier
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.images.classify.evaluation import ImageEvaluation, evaluate_images
from heedful.tasks.images.classify.scoring import scores_of
from heedful.tasks.images.explaining import explain_image
from heedful.tasks.shared.classes.classification import BLANK, Classification, classifications
from heedful.tasks.shared.loaded_model import LoadedModel, Placement, listed
from heedful.tasks.shared.old_names import takes_old_names
from heedful.tasks.shared.streaming import answer_stream, empty_answer

_CHUNK = 256  # images that are in memory at once


@takes_old_names
class ImageClassifier(LoadedModel[Classifier]):
    """A trained classifier of images with its recipe.

    It runs on the device and in the precision that `load` chose. Images are read as in training: in gray or colour,
    and resized if the recipe says so.
    """

    @classmethod
    def load(cls, path: str | PathLike[str], device: str = "auto", precision: str = "auto") -> Self:
        """Load a classifier of images as `heedful.load` does; refuse any other model."""
        return cls(read_image_classifier(check_path("path", path), Placement.of(device, precision)))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the network's scores."""
        return self.vocabularies.labels

    @property
    def several(self) -> bool:
        """Whether an image may have several labels, or none."""
        return model_of(self.recipe, ImageClassifierModel).labels == "several"

    @overload
    def classify(self, images: str | PathLike[str] | Image.Image) -> Classification: ...  # type: ignore[overload-overlap]
    @overload
    def classify(  # type: ignore[overload-overlap]
        self, images: np.ndarray[Any, Any]
    ) -> Classification | list[Classification]: ...
    @overload
    def classify(self, images: Iterable[AnyImage]) -> list[Classification]: ...
    def classify(self, images: AnyImage | Iterable[AnyImage]) -> Classification | list[Classification]:
        """Classify images, or one image: the path of a file, an array of pixels, or an image of Pillow.

        An array is height x width, or height x width x 3, of bytes from 0 to 255; a longer one holds several images.
        """
        if is_one_image(images):
            return self.classify([images])[0]  # type: ignore[list-item]
        return list(self.stream(images))  # type: ignore[arg-type]

    def stream(
        self, images: Iterable[AnyImage], *, refused: Callable[[UserError], None] | None = None
    ) -> Iterator[Classification]:
        """Classify an endless or a very large number of images, some at a time, in order.

        `refused` is called with the error of an image that cannot be read, which then has an empty classification;
        without it the error is raised.
        """
        given = enumerate(check_several(images, "images"), start=1)
        read = (self._image(image, f"image {number:,}") for number, image in given)
        return self.stream_images(read, refused=refused)

    def stream_images(
        self, images: Iterable[LabelledImage], *, refused: Callable[[UserError], None] | None = None
    ) -> Iterator[Classification]:
        """Classify a stream of images that are read when their turn comes; `refused` as in `stream`."""

        def classified(part: Sequence[LabelledImage], first: int) -> list[Classification]:
            return classifications(self.scores(part), self.labels, self.several)

        return answer_stream(images, classified, chunk=_CHUNK, refused=empty_answer(refused, BLANK))

    def evaluate(
        self,
        data: Iterable[tuple[AnyImage, str | int | Sequence[str]]],
        *,
        name: str = "data",
        progress: Callable[[int], None] = lambda ready: None,
        metrics: GivenMetrics | None = None,
    ) -> ImageEvaluation:
        """Classify images and compare with their labels: accuracy, F1, and which classes are confused.

        `data` are pairs of an image, as `classify` takes it, and its label, or a list of labels if the model has
        several. `name` is their name in messages; `progress` is called with the number of images finished since the
        last call. `metrics` are functions of your own by name, which get the predicted and the true labels: see
        `heedful.Metric`.
        """
        own = check_metrics(metrics, self.recipe.rules)
        images = [self._labelled(row, f"{name}, row {number:,}") for number, row in enumerate(data, start=1)]
        return evaluate_images(self, images, name=name, progress=progress).with_metrics(own)

    def explain(self, image: AnyImage, *, gradients: bool = False, name: str = "") -> Explanation:
        """Return the attention between the patches of an image, and the probability of every class.

        With `gradients`, also return how much each patch would change the most likely class. `name` is what the
        explanation calls the image, by default its path.
        """
        encoder = model_of(self.recipe, ImageClassifierModel).encoder
        read = self._image(image, "`image`")
        (pixels,) = decode_all([read], self.recipe.data.images, encoder.channels)
        explained = ExplainedImage(pixels, encoder.patch, encoder.class_token)
        return explain_image(self, explained, name or read.where, check_flag("gradients", gradients))

    @torch.inference_mode()
    def scores(self, images: Sequence[LabelledImage]) -> Float[Tensor, "B C"]:
        """Return the scores of every class for images, in their order."""
        if not images:
            return torch.empty(0, len(self.labels))
        channels = model_of(self.recipe, ImageClassifierModel).encoder.channels
        decoded = list(decode_all(images, self.recipe.data.images, channels))
        with evaluation_mode(self.network):
            return scores_of(self._bundle, (TokenStore(image_streams(decoded)),), np.arange(len(decoded)))

    def _own_facts(self) -> Iterator[str]:
        kind = "several labels of " if self.several else ""
        yield f"{kind}{len(self.labels):,} classes: {listed(self.labels)}"

    def _labelled(self, row: object, where: str) -> LabelledImage:
        if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != 2:
            raise UserError(f"{where} must be an image and its label.")
        image = self._image(row[0], where)
        several = self.several and isinstance(row[1], Sequence) and not isinstance(row[1], str | bytes)
        labels = row[1] if several else [row[1]]
        names = [
            str(label) if isinstance(label, int | np.integer) else check_text(label, f"{where}: the label")
            for label in labels
        ]
        return LabelledImage(image.source, tuple(dict.fromkeys(names)), image.where)

    def _image(self, given: object, where: str) -> LabelledImage:
        """Return an image that a program gave."""
        return image_of(given, where, model_of(self.recipe, ImageClassifierModel).encoder.channels)


def read_image_classifier(folder: Path, placement: Placement, rules: TaskRules | None = None) -> Bundle[Classifier]:
    """Read a classifier of images from its folder and place it; `rules` are those of its task."""
    bundle = read_bundle(folder, Classifier, rules)
    if bundle.recipe.model.family != "image_classifier":
        raise other_task(folder, bundle.recipe)
    placement.put(bundle.model)
    return bundle
