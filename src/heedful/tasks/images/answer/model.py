"""A trained model that answers questions about images: a question and an image in, an answer out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Self, overload

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.base.arguments import (
    check_flag,
    check_one_each,
    check_path,
    check_several,
    check_text,
    check_texts,
    check_whole,
)
from heedful.base.errors import UserError
from heedful.config.model.images import ImageAnswererModel
from heedful.config.tables import model_of
from heedful.config.task_rules import TaskRules
from heedful.data.images.given import AnyImage, image_of, is_one_image
from heedful.data.images.questions.reading import AskedImage, make_image_question
from heedful.data.images.questions.stores import asked_streams
from heedful.data.images.reading import LabelledImage
from heedful.data.images.stores import decode_all
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.explain.explanation import Explanation
from heedful.explain.images import ExplainedImage
from heedful.metrics.own_metrics import GivenMetrics, check_metrics
from heedful.models.bundle import Bundle, read_bundle
from heedful.models.images import ImageAnswerer as Network
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.images.answer.answer import ImageAnswer, image_answers
from heedful.tasks.images.answer.evaluation import ImageAnswerEvaluation, evaluate_answers
from heedful.tasks.images.answer.scoring import collator_of, scores_of
from heedful.tasks.images.explaining import explain_image_answer
from heedful.tasks.shared.loaded_model import LoadedModel, Placement, listed
from heedful.tasks.shared.old_names import takes_old_names
from heedful.tasks.shared.streaming import answer_stream

_CHUNK = 256  # questions that are answered together


@takes_old_names
class ImageAnswerer(LoadedModel[Network]):
    """A trained model that answers questions about images, with its recipe, its tokenizer and its answers.

    It runs on the device and in the precision that `load` chose. Its answers are those that occur in its training data.
    """

    @classmethod
    def load(cls, path: str | PathLike[str], device: str = "auto", precision: str = "auto") -> Self:
        """Load a model that answers questions about images as `heedful.load` does; refuse any other model."""
        return cls(read_answerer(check_path("path", path), Placement.of(device, precision)))

    def __init__(self, bundle: Bundle[Network]) -> None:
        super().__init__(bundle)
        self._form = TextForm.of(bundle.recipe.data)

    @property
    def answers(self) -> tuple[str, ...]:
        """All answers that the model can give, in the order of the network's scores."""
        return self.vocabularies.labels

    @overload
    def answer(self, questions: str, images: AnyImage) -> ImageAnswer: ...  # type: ignore[overload-overlap]
    @overload
    def answer(self, questions: Iterable[str], images: AnyImage | Iterable[AnyImage]) -> list[ImageAnswer]: ...
    def answer(
        self, questions: str | Iterable[str], images: AnyImage | Iterable[AnyImage]
    ) -> ImageAnswer | list[ImageAnswer]:
        """Answer a question about an image, or several questions: about one image, or each about its own.

        An image is the path of a file, an array of pixels (height x width, or height x width x 3), or an image of
        Pillow.
        """
        if isinstance(questions, str):
            if not is_one_image(images):
                raise UserError("`questions` is one question, so `images` must be one image.")
            asked = make_image_question(check_text(questions, "`questions`"), where="`answer`")
            return self._answered([AskedImage(self._image(images, "`images`"), (asked,))])[0]
        several = [
            make_image_question(question, where=f"questions, line {number:,}")
            for number, question in enumerate(check_texts(questions, "questions"), start=1)
        ]
        if is_one_image(images):
            return self._answered([AskedImage(self._image(images, "`images`"), tuple(several))]) if several else []
        about = list(check_several(images, "images"))
        check_one_each(len(several), "question", len(about), "image")
        rows = (
            AskedImage(self._image(image, f"image {number:,}"), (question,))
            for number, (question, image) in enumerate(zip(several, about, strict=True), start=1)
        )
        return [found for found in self.stream_asked(rows) if found is not None]

    def stream_asked(
        self,
        asked: Iterable[AskedImage | None],
        *,
        chunk: int = _CHUNK,
        ready: Callable[[], bool] = lambda: True,
    ) -> Iterator[ImageAnswer | None]:
        """Answer a stream of questions, one per image, in order, `chunk` of them at a time; None stays None.

        Fewer are taken when `ready` says that the next one has not arrived yet.
        """
        check_whole("chunk", chunk, least=1)

        def answered(part: Sequence[AskedImage | None], first: int) -> list[ImageAnswer | None]:
            found = iter(self._answered([each for each in part if each is not None]))
            return [None if each is None else next(found) for each in part]

        return answer_stream(asked, answered, chunk=chunk, ready=ready)

    def evaluate(
        self,
        data: Iterable[tuple[AnyImage, str, str] | tuple[AnyImage, str, str, str]],
        *,
        name: str = "data",
        progress: Callable[[int], None] = lambda ready: None,
        metrics: GivenMetrics | None = None,
    ) -> ImageAnswerEvaluation:
        """Answer questions and compare with their answers: accuracy, and F1 over answers.

        `data` are tuples of an image, as `answer` takes it, a question and its answer; a fourth value may be the kind
        of the question. `name` is their name in messages; `progress` is called with the number of questions finished
        since the last call. `metrics` are functions of your own by name, which get the answers found and the true ones:
        see `heedful.Metric`.
        """
        own = check_metrics(metrics, self.recipe.rules)
        asked = [self._row(row, f"{name}, row {number:,}") for number, row in enumerate(data, start=1)]
        return evaluate_answers(self, asked, name=name, progress=progress).with_metrics(own)

    def explain(self, image: AnyImage, question: str, *, gradients: bool = False, name: str = "") -> Explanation:
        """Return how the model read a question and an image together, and the probability of every answer.

        Co-attention weighs the words of the question and the patches of the image. With `gradients`, also return how
        much each patch would change the most likely answer. `name` is what the explanation calls the image, by
        default its path.
        """
        encoder = model_of(self.recipe, ImageAnswererModel).encoder
        asked = make_image_question(check_text(question, "`question`"), where="`question`")
        self._form.check_text(question, "`question`")
        read = self._image(image, "`image`")
        (pixels,) = decode_all([read], self.recipe.data.images, encoder.channels)
        store = TokenStore(asked_streams([pixels], [(asked,)], self.vocabularies["text"], self._form))
        batch = collator_of(self.recipe, len(self.answers)).batch([store], np.arange(1)).to(self.device)
        explained = ExplainedImage(pixels, encoder.patch, encoder.class_token)
        flag = check_flag("gradients", gradients)
        return explain_image_answer(self, explained, name or read.where, batch.inputs, question, flag)

    @torch.inference_mode()
    def scores(
        self, asked: Sequence[AskedImage], advance: Callable[[int], None] = lambda finished: None
    ) -> Float[Tensor, "Q C"]:
        """Return the scores of every answer to the questions about images, in their order."""
        if not asked:
            return torch.empty(0, len(self.answers))
        channels, form = model_of(self.recipe, ImageAnswererModel).encoder.channels, self.recipe.data.images
        decoded = list(decode_all((each.image for each in asked), form, channels))
        questions = [each.questions for each in asked]
        store = TokenStore(asked_streams(decoded, questions, self.vocabularies["text"], self._form))
        with evaluation_mode(self.network):
            return scores_of(self._bundle, (store,), np.arange(len(asked)), advance)

    def _answered(self, asked: Sequence[AskedImage]) -> list[ImageAnswer]:
        for each in asked:
            for question in each.questions:
                self._form.check_text(question.question, question.where)
        return image_answers(self.scores(asked), self.answers)

    def _own_facts(self) -> Iterator[str]:
        yield f"{len(self.answers):,} answers: {listed(self.answers)}"

    def _image(self, given: object, where: str) -> LabelledImage:
        return image_of(given, where, model_of(self.recipe, ImageAnswererModel).encoder.channels)

    def _row(self, row: object, where: str) -> AskedImage:
        if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) not in (3, 4):
            raise UserError(f"{where} must be an image, a question and its answer.")
        image, *texts = row
        question, answer, *kind = (check_text(text, where) for text in texts)
        return AskedImage(self._image(image, where), (make_image_question(question, answer, "".join(kind), where),))


def read_answerer(folder: Path, placement: Placement, rules: TaskRules | None = None) -> Bundle[Network]:
    """Read a model that answers questions about images and place it; `rules` are those of its task."""
    bundle = read_bundle(folder, Network, rules)
    placement.put(bundle.model)
    return bundle
