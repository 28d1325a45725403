"""Trained classifiers of images, and of questions about images by their answers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, overload

import numpy as np
from PIL import Image

from heedful.base.arguments import check_flag, check_one_each, check_several, check_text, check_texts, check_whole
from heedful.base.errors import UserError
from heedful.config.model.images import ImageAnswererModel
from heedful.config.model.pooled import ImageClassifierModel
from heedful.data.corpora.images import AnyImage, AskedImage, LabelledImage, is_one_image, make_image_question
from heedful.data.epochs.loader import Collator
from heedful.data.epochs.plan import Indices
from heedful.data.prepare.image_questions import asked_streams
from heedful.data.prepare.images import class_numbers
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.explain.explanation import Explanation
from heedful.metrics.own_metrics import GivenMetrics, check_metrics
from heedful.models.bundle import Bundle, NetworkType
from heedful.models.images import ImageAnswerer as AnswererNetwork
from heedful.models.networks import Classifier
from heedful.tasks.classify.classification import BLANK, Classification, ImageAnswer, image_answers
from heedful.tasks.classify.evaluation import ImageAnswerEvaluation, ImageEvaluation
from heedful.tasks.classify.explaining import explain_image, explain_image_answer
from heedful.tasks.classify.model import AnyClassifier
from heedful.tasks.classify.rules import ANSWER_IMAGES, CLASSIFY_IMAGES
from heedful.tasks.shared.inputs import ImageInputs, image_collator, question_collator
from heedful.tasks.shared.old_names import takes_old_names
from heedful.tasks.shared.streaming import answer_stream, empty_answer

_CHUNK = 256  # images, or questions, that are in memory at once


class AnyImageClassifier(AnyClassifier[NetworkType]):
    """A trained model that chooses classes for what it sees."""

    def __init__(self, bundle: Bundle[NetworkType]) -> None:
        super().__init__(bundle)
        table = bundle.recipe.model
        assert isinstance(table, ImageClassifierModel | ImageAnswererModel), f"{table.family} reads no images"
        self._inputs = ImageInputs(table.encoder, bundle.recipe.data.images)


@takes_old_names
class ImageClassifier(AnyImageClassifier[Classifier]):
    """A trained classifier of images with its recipe.

    It runs on the device and in the precision that `load` chose. Images are read as in training: in gray or colour,
    and resized if the recipe says so.
    """

    _rules, _network = CLASSIFY_IMAGES, Classifier
    _noun = "image"

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
        read = (self._inputs.image(image, f"image {number:,}") for number, image in given)
        return self.stream_images(read, refused=refused)

    def stream_images(
        self, images: Iterable[LabelledImage], *, refused: Callable[[UserError], None] | None = None
    ) -> Iterator[Classification]:
        """Classify a stream of images that are read when their turn comes; `refused` as in `stream`."""

        def classified(part: Sequence[LabelledImage], first: int) -> list[Classification]:
            return self.classified(self.scores(part))

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
        return self.evaluate_rows(images, name=name, progress=progress).with_metrics(own)

    def evaluate_rows(
        self,
        rows: Sequence[LabelledImage],
        *,
        name: str = "images",
        progress: Callable[[int], None] = lambda ready: None,
    ) -> ImageEvaluation:
        """Classify images and compare with their labels."""
        if not rows:
            raise UserError(f"{name} has no image to classify.")
        classes = class_numbers(rows, self.labels, name)
        return ImageEvaluation(images=tuple(rows), **self._evaluated(rows, classes, progress))

    def explain(self, image: AnyImage, *, gradients: bool = False, name: str = "") -> Explanation:
        """Return the attention between the patches of an image, and the probability of every class.

        With `gradients`, also return how much each patch would change the most likely class. `name` is what the
        explanation calls the image, by default its path.
        """
        read = self._inputs.image(image, "`image`")
        flag = check_flag("gradients", gradients)
        return explain_image(self, self._inputs.explained(read), name or read.where, flag)

    def store(self, rows: Sequence[LabelledImage]) -> TokenStore:
        """Decode images as in training."""
        return self._inputs.store(rows)

    def _collator(self) -> Collator[Any]:
        return image_collator(self._inputs.encoder, len(self.labels) if self.several else 0)

    def _labelled(self, row: object, where: str) -> LabelledImage:
        if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != 2:
            raise UserError(f"{where} must be an image and its label.")
        image = self._inputs.image(row[0], where)
        several = self.several and isinstance(row[1], Sequence) and not isinstance(row[1], str | bytes)
        labels = row[1] if several else [row[1]]
        names = [
            str(label) if isinstance(label, int | np.integer) else check_text(label, f"{where}: the label")
            for label in labels
        ]
        return LabelledImage(image.source, tuple(dict.fromkeys(names)), image.where)


@takes_old_names
class ImageAnswerer(AnyImageClassifier[AnswererNetwork]):
    """A trained model that answers questions about images, with its recipe, its tokenizer and its answers.

    It runs on the device and in the precision that `load` chose. Its answers are those that occur in its training data.
    """

    _rules, _network = ANSWER_IMAGES, AnswererNetwork
    _noun, _classes, _chunk = "question", "answers", _CHUNK

    def __init__(self, bundle: Bundle[AnswererNetwork]) -> None:
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
            return self._answered([AskedImage(self._inputs.image(images, "`images`"), (asked,))])[0]
        several = [
            make_image_question(question, where=f"questions, line {number:,}")
            for number, question in enumerate(check_texts(questions, "questions"), start=1)
        ]
        if is_one_image(images):
            return (
                self._answered([AskedImage(self._inputs.image(images, "`images`"), tuple(several))]) if several else []
            )
        about = list(check_several(images, "images"))
        check_one_each(len(several), "question", len(about), "image")
        rows = (
            AskedImage(self._inputs.image(image, f"image {number:,}"), (question,))
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
        return self.evaluate_rows(asked, name=name, progress=progress).with_metrics(own)

    def evaluate_rows(
        self, rows: Sequence[AskedImage], *, name: str = "data", progress: Callable[[int], None] = lambda ready: None
    ) -> ImageAnswerEvaluation:
        """Answer questions about images and compare with their answers; one that training never has is wrong."""
        questions = tuple(question for each in rows for question in each.questions)
        if not questions:
            raise UserError(f"{name} has no question to answer.")
        known = {answer: [number] for number, answer in enumerate(self.answers)}
        classes = [known.get(question.answer, []) for question in questions]
        return ImageAnswerEvaluation(
            questions=questions,
            images=tuple(each.image.where for each in rows for _ in each.questions),
            **self._evaluated(rows, classes, progress),
        )

    def explain(self, image: AnyImage, question: str, *, gradients: bool = False, name: str = "") -> Explanation:
        """Return how the model read a question and an image together, and the probability of every answer.

        Co-attention weighs the words of the question and the patches of the image. With `gradients`, also return how
        much each patch would change the most likely answer. `name` is what the explanation calls the image, by
        default its path.
        """
        asked = make_image_question(check_text(question, "`question`"), where="`question`")
        self._form.check_text(question, "`question`")
        read = self._inputs.image(image, "`image`")
        batch = self._collator().batch([self.store([AskedImage(read, (asked,))])], np.arange(1)).to(self.device)
        flag = check_flag("gradients", gradients)
        return explain_image_answer(
            self, self._inputs.explained(read), name or read.where, batch.inputs, question, flag
        )

    def store(self, rows: Sequence[AskedImage]) -> TokenStore:
        """Decode images and tokenize the questions about them, as in training."""
        decoded, questions = self._inputs.decode([each.image for each in rows]), [each.questions for each in rows]
        return TokenStore(asked_streams(decoded, questions, self.vocabularies["text"], self._form))

    def _collator(self) -> Collator[Any]:
        return question_collator(self._inputs.encoder, self.recipe.data.max_length, len(self.answers))

    def _questions(self, store: TokenStore) -> Indices:
        return store.lengths("lengths")

    def _answered(self, asked: Sequence[AskedImage]) -> list[ImageAnswer]:
        for each in asked:
            for question in each.questions:
                self._form.check_text(question.question, question.where)
        return image_answers(self.scores(asked), self.answers)

    def _row(self, row: object, where: str) -> AskedImage:
        if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) not in (3, 4):
            raise UserError(f"{where} must be an image, a question and its answer.")
        image, *texts = row
        question, answer, *kind = (check_text(text, where) for text in texts)
        return AskedImage(
            self._inputs.image(image, where), (make_image_question(question, answer, "".join(kind), where),)
        )
