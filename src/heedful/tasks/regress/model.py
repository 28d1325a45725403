"""Trained regressors: a text, a pair of texts or an image in, a number out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Unpack, overload

from torch import Tensor

from heedful.base.arguments import check_number
from heedful.base.columns import in_digits
from heedful.base.options import show_options
from heedful.data.corpora.images import AnyImage, LabelledImage, OneImage, is_one_image
from heedful.data.corpora.texts import Text
from heedful.models.networks import Regressor
from heedful.tasks.regress.evaluation import NumberEvaluation
from heedful.tasks.regress.numbers import NumberResult
from heedful.tasks.regress.rules import REGRESS, REGRESS_IMAGES
from heedful.tasks.shared.loaded_model import EvaluateOptions
from heedful.tasks.shared.pooled.explaining import Output
from heedful.tasks.shared.pooled.models import IMAGES, PooledImageModel, PooledModel, PooledTextModel


class AnyRegressor(PooledModel[Regressor, NumberEvaluation, float | None]):
    """A trained model that predicts a number for what it reads."""

    _network = Regressor
    _nothing = None

    def numbers(self, rows: Sequence[Any], advance: Callable[[int], None] = lambda finished: None) -> list[float]:
        """Return the number of each row, in order; texts are normalised and not blank."""
        return self._outputs(rows, advance)[:, 0].tolist() if rows else []

    def _predictions(self, outputs_BC: Tensor, /) -> list[float | None]:
        return outputs_BC[:, 0].tolist()

    def _output(self, outputs_BC: Tensor) -> Output:
        number = in_digits(float(outputs_BC[0, 0]), 4)
        return Output(0, number, number)

    def _truth(self, rows: Sequence[Text | LabelledImage], name: str) -> list[float]:
        return [row.number for row in rows if row.number is not None]

    def _evaluation(
        self, rows: Sequence[Text | LabelledImage], true: Sequence[float], outputs_BC: Tensor, **facts: Any
    ) -> NumberEvaluation:
        squared = getattr(self.recipe.model, "loss", "squared") == "squared"
        result = NumberResult.of(outputs_BC[:, 0].tolist(), true, self.network.scale.deviation, squared)
        shown = [
            (row.where,)
            if isinstance(row, LabelledImage)
            else (row.text, *([] if row.second is None else [row.second]))
            for row in rows
        ]
        return NumberEvaluation(result=result, noun=self._noun, rows=tuple(shown), **facts)

    def _own_facts(self) -> Iterator[str]:
        scale = self.network.scale
        yield f"numbers of mean {in_digits(scale.mean, 4)} and deviation {in_digits(scale.deviation, 4)}"


class TextRegressor(AnyRegressor, PooledTextModel[Regressor, NumberEvaluation, float | None]):
    """A trained regressor of texts, or of pairs of texts, with its recipe and its tokenizer.

    It runs on the device and in the precision that `load` chose. Texts are read as in training, so long ones are cut.
    """

    _rules = REGRESS

    @overload
    def regress(self, texts: str, seconds: str | None = None) -> float | None: ...  # type: ignore[overload-overlap]
    @overload
    def regress(self, texts: Iterable[str], seconds: Iterable[str] | None = None) -> list[float | None]: ...
    def regress(
        self, texts: str | Iterable[str], seconds: str | Iterable[str] | None = None
    ) -> float | list[float | None] | None:
        """Predict the number of each text, or of one; None for a blank one. A model of pairs needs second texts."""
        return self._predict(texts, seconds)

    @show_options(EvaluateOptions)
    def evaluate(self, data: object, **options: Unpack[EvaluateOptions]) -> NumberEvaluation:
        """Predict numbers and compare with the true ones: correlations and errors.

        `data` are texts with numbers in any form that `heedful.train` takes: tuples, dictionaries, columns, frames.
        """
        return self._evaluate(data, **options)


class ImageRegressor(AnyRegressor, PooledImageModel[Regressor, NumberEvaluation, float | None]):
    """A trained regressor of images with its recipe.

    It runs on the device and in the precision that `load` chose. Images are read as in training: in gray or colour,
    and resized if the recipe sets it.
    """

    _rules = REGRESS_IMAGES
    _noun, _chunk, _truth_of = "image", IMAGES, "number"

    @overload
    def regress(self, images: OneImage) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def regress(self, images: Iterable[AnyImage]) -> list[float]: ...
    def regress(self, images: AnyImage | Iterable[AnyImage]) -> float | list[float]:
        """Predict the number of each image, or of one.

        An image is a path, the bytes of a file, an open file, an array of pixels, or an image of Pillow.
        """
        if is_one_image(images):
            return self.regress([images])[0]  # type: ignore[list-item]
        return [number for number in self.stream(images) if number is not None]  # type: ignore[arg-type]

    @show_options(EvaluateOptions)
    def evaluate(self, data: Iterable[tuple[AnyImage, float]], **options: Unpack[EvaluateOptions]) -> NumberEvaluation:
        """Predict numbers and compare with the true ones: correlations and errors.

        `data` are pairs of an image, as `regress` takes it, and its number.
        """
        return self._evaluate(data, **options)

    def _known(self, said: Any, where: str) -> dict[str, Any]:
        return {"number": check_number(f"{where}: `number`", said)}
