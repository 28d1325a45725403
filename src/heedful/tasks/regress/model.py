"""Trained regressors: a text, a pair of texts or an image in, a number out."""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, overload

import numpy as np
from PIL import Image

from heedful.base.arguments import check_flag, check_number, check_several, check_text, check_texts, check_whole
from heedful.base.errors import UserError
from heedful.config.model.pooled import ImageRegressorModel, RegressorModel
from heedful.config.tables import model_of
from heedful.data.corpora.images import AnyImage, is_one_image
from heedful.data.corpora.in_memory import read_rows
from heedful.data.corpora.texts import Text
from heedful.data.epochs.loader import Collator
from heedful.data.token_store import TokenStore
from heedful.explain.explanation import Explanation
from heedful.explain.texts import explain_swapped, refuse_blank
from heedful.metrics.own_metrics import GivenMetrics, check_metrics
from heedful.models.bundle import Bundle
from heedful.models.networks import Regressor
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.regress.evaluation import NumberEvaluation
from heedful.tasks.regress.explaining import explain_number
from heedful.tasks.regress.numbers import NumberResult
from heedful.tasks.regress.rules import REGRESS, REGRESS_IMAGES
from heedful.tasks.shared.embeddings import Embeds
from heedful.tasks.shared.inputs import ImageInputs, TextInputs, image_collator, outputs_of_rows, text_collator
from heedful.tasks.shared.loaded_model import LoadedModel
from heedful.tasks.shared.streaming import CHUNK, answer_stream, chunks, empty_answer

_IMAGES = 256  # images that are in memory at once


class AnyRegressor(LoadedModel[Regressor]):
    """A trained model that predicts a number for what it reads."""

    _network = Regressor
    _noun = "text"
    _chunk = CHUNK

    @abstractmethod
    def store(self, rows: Sequence[Any]) -> TokenStore:
        """Make a store of what is read, as in training."""

    @abstractmethod
    def _collator(self) -> Collator[Any]:
        """Return what makes batches of a store."""

    def numbers(self, rows: Sequence[Any], advance: Callable[[int], None] = lambda finished: None) -> list[float]:
        """Return the number of each row, in order; texts are normalised and not blank."""
        if not rows:
            return []
        tokens = self.recipe.data.batch_tokens
        with evaluation_mode(self.network):
            found = outputs_of_rows(
                self.network, self._collator(), [self.store(rows)], np.arange(len(rows)), tokens, advance=advance
            )
        return found[:, 0].tolist()

    def _evaluated(
        self,
        rows: Sequence[Any],
        true: Sequence[float],
        shown: Iterable[tuple[str, ...]],
        progress: Callable[[int], None],
        blank: int = 0,
    ) -> NumberEvaluation:
        """Predict the numbers of rows and compare with the true ones."""
        began = time.perf_counter()
        predicted = [number for part in chunks(rows, self._chunk) for number in self.numbers(part, progress)]
        seconds = time.perf_counter() - began
        squared = getattr(self.recipe.model, "loss", "squared") == "squared"
        result = NumberResult.of(predicted, true, self.network.scale.deviation, squared)
        return NumberEvaluation(result=result, noun=self._noun, rows=tuple(shown), blank=blank, seconds=seconds)

    def _own_facts(self) -> Iterator[str]:
        scale = self.network.scale
        yield f"numbers of mean {scale.mean:.4g} and deviation {scale.deviation:.4g}"


class TextRegressor(AnyRegressor, Embeds[Regressor]):
    """A trained regressor of texts, or of pairs of texts, with its recipe and its tokenizer.

    It runs on the device and in the precision that `load` chose. Texts are read as in training, so long ones are cut.
    """

    _rules = REGRESS

    def __init__(self, bundle: Bundle[Regressor]) -> None:
        super().__init__(bundle)
        model = model_of(bundle.recipe, RegressorModel)
        self._inputs = TextInputs(model, bundle.recipe.data, bundle.vocabularies["text"])

    @property
    def paired(self) -> bool:
        """Whether the model reads pairs of texts."""
        return self._inputs.paired

    @overload
    def regress(self, texts: str, seconds: str | None = None) -> float | None: ...  # type: ignore[overload-overlap]
    @overload
    def regress(self, texts: Iterable[str], seconds: Iterable[str] | None = None) -> list[float | None]: ...
    def regress(
        self, texts: str | Iterable[str], seconds: str | Iterable[str] | None = None
    ) -> float | list[float | None] | None:
        """Predict the number of each text, or of one; None for a blank one. A model of pairs needs second texts."""
        if seconds is not None and isinstance(texts, str) != isinstance(seconds, str):
            raise UserError("`texts` and `seconds` must be one text each, or a list of texts each.")
        if isinstance(texts, str):
            return self.regress([texts], [seconds] if isinstance(seconds, str) else None)[0]
        firsts, others = check_texts(texts), None if seconds is None else check_texts(seconds, "seconds")
        self._inputs.check_seconds(firsts, others)
        return list(self.stream_texts(map(Text, firsts) if others is None else map(Text, firsts, others)))

    def stream_texts(
        self,
        texts: Iterable[Text],
        *,
        chunk: int = CHUNK,
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
    ) -> Iterator[float | None]:
        """Predict the numbers of a stream of texts or pairs, `chunk` of them at a time.

        Fewer are taken when `ready` says that the next one has not arrived yet. `name` is the stream's name in
        messages.
        """
        check_whole("chunk", chunk, least=1)

        def predicted(part: Sequence[Text], first: int) -> list[float | None]:
            self._inputs.check(part, name, first)
            formed = [self._inputs.formed(text) for text in part]
            found = iter(self.numbers([text for text in formed if not text.blank]))
            return [None if text.blank else next(found) for text in formed]

        return answer_stream(texts, predicted, chunk=chunk, ready=ready)

    def evaluate(
        self,
        data: object,
        *,
        name: str = "data",
        progress: Callable[[int], None] = lambda ready: None,
        metrics: GivenMetrics | None = None,
    ) -> NumberEvaluation:
        """Predict numbers and compare with the true ones: correlations and errors.

        `data` are texts with numbers in any form that `heedful.train` takes: tuples, dictionaries, columns, frames.
        `name` is their name in messages; `progress` is called with the number of texts finished since the last call.
        `metrics` are functions of your own by name, which get the predicted and the true numbers: see `heedful.Metric`.
        """
        own = check_metrics(metrics, self.recipe.rules)
        rows = read_rows(data, REGRESS, name)
        texts = [Text(row["text"], row.get("second"), (), line, row["number"]) for line, row in enumerate(rows, 1)]
        seconds = [text.second for text in texts if text.second is not None]
        self._inputs.check_seconds([text.text for text in texts], seconds or None)
        return self.evaluate_rows(texts, name=name, progress=progress).with_metrics(own)

    def evaluate_rows(
        self, rows: Sequence[Text], *, name: str = "texts", progress: Callable[[int], None] = lambda ready: None
    ) -> NumberEvaluation:
        """Predict numbers and compare with the true ones; blank texts are left out, as in training."""
        read = [text for text in map(self._inputs.formed, rows) if not text.blank]
        if not read:
            raise UserError(f"{name} has no text to read.")
        shown = [(text.text, *([] if text.second is None else [text.second])) for text in read]
        true = [text.number for text in read if text.number is not None]
        return self._evaluated(read, true, shown, progress, len(rows) - len(read))

    def explain(
        self,
        text: str,
        second: str | None = None,
        *,
        gradients: bool = False,
        swapped: Mapping[str, str] | None = None,
    ) -> Explanation:
        """Return the weights with which the model read a text or a pair, and its number.

        With `gradients`, also return how much each token would change the number. `swapped` asks what if: it has words
        of the text and those that replace them, and `before` is the explanation of the text as it is.
        """
        refuse_blank(check_text(text, "`text`"))
        if swapped is not None:
            return explain_swapped(lambda other: self.explain(other, second, gradients=gradients), text, swapped)
        store = self.store([self._inputs.check_pair(text, second)])
        batch = self._collator().batch([store], np.arange(1)).to(self.device)
        return explain_number(self, text, batch.inputs, gradients)

    def store(self, rows: Sequence[Text]) -> TokenStore:
        """Tokenize normalised texts as in training."""
        return self._inputs.store(rows)

    def _collator(self) -> Collator[Any]:
        return text_collator(self._inputs.model, self.recipe.data)


class ImageRegressor(AnyRegressor):
    """A trained regressor of images with its recipe.

    It runs on the device and in the precision that `load` chose. Images are read as in training: in gray or colour,
    and resized if the recipe sets it.
    """

    _rules = REGRESS_IMAGES
    _noun, _chunk = "image", _IMAGES

    def __init__(self, bundle: Bundle[Regressor]) -> None:
        super().__init__(bundle)
        self._inputs = ImageInputs(model_of(bundle.recipe, ImageRegressorModel).encoder, bundle.recipe.data.images)

    @overload
    def regress(self, images: str | PathLike[str] | Image.Image) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def regress(self, images: Iterable[AnyImage]) -> list[float]: ...
    def regress(self, images: AnyImage | Iterable[AnyImage]) -> float | list[float]:
        """Predict the number of each image, or of one.

        An image is the path of a file, an array of pixels, or an image of Pillow.
        """
        if is_one_image(images):
            return self.regress([images])[0]  # type: ignore[list-item]
        return [number for number in self.stream(images) if number is not None]  # type: ignore[arg-type]

    def stream(
        self,
        images: Iterable[AnyImage],
        *,
        chunk: int = _IMAGES,
        refused: Callable[[UserError], None] | None = None,
    ) -> Iterator[float | None]:
        """Predict the numbers of a stream of images, `chunk` of them at a time.

        An image that cannot be read ends the stream with an error; with `refused`, that is called, its number is None,
        and the stream continues.
        """
        check_whole("chunk", chunk, least=1)
        given = enumerate(check_several(images, "images"), start=1)
        read = (self._inputs.image(image, f"images, image {number:,}") for number, image in given)
        return answer_stream(
            read, lambda part, first: self.numbers(part), chunk=chunk, refused=empty_answer(refused, None)
        )

    def evaluate(
        self,
        data: Iterable[tuple[AnyImage, float]],
        *,
        name: str = "data",
        progress: Callable[[int], None] = lambda ready: None,
        metrics: GivenMetrics | None = None,
    ) -> NumberEvaluation:
        """Predict numbers and compare with the true ones: correlations and errors.

        `data` are pairs of an image, as `regress` takes it, and its number; the other arguments are those of
        `TextRegressor.evaluate`.
        """
        own = check_metrics(metrics, self.recipe.rules)
        images, true = [], []
        for row, (image, number) in enumerate(data, start=1):
            images.append(self._inputs.image(image, f"{name}, row {row:,}"))
            true.append(check_number(f"{name}, row {row:,}: `number`", number))
        return self._images_evaluated(images, true, name, progress).with_metrics(own)

    def evaluate_rows(
        self, rows: Sequence[Any], *, name: str = "images", progress: Callable[[int], None] = lambda ready: None
    ) -> NumberEvaluation:
        """Predict the numbers of images and compare with the true ones."""
        return self._images_evaluated(rows, [image.number for image in rows], name, progress)

    def _images_evaluated(
        self, images: Sequence[Any], true: Sequence[float], name: str, progress: Callable[[int], None]
    ) -> NumberEvaluation:
        if not images:
            raise UserError(f"{name} has no image to read.")
        return self._evaluated(images, true, [(image.where,) for image in images], progress)

    def explain(self, image: AnyImage, *, gradients: bool = False, name: str = "") -> Explanation:
        """Return the attention between the patches of an image, and its number.

        With `gradients`, also return how much each patch would change the number. `name` is what the explanation calls
        the image, by default its path.
        """
        read = self._inputs.image(image, "`image`")
        flag = check_flag("gradients", gradients)
        return explain_number(self, name or read.where, self._inputs.explained(read), flag)

    def store(self, rows: Sequence[Any]) -> TokenStore:
        """Decode images as in training."""
        return self._inputs.store(rows)

    def _collator(self) -> Collator[Any]:
        return image_collator(self._inputs.encoder)
