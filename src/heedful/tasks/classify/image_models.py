"""Trained classifiers of images, and of questions about images by their answers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack, overload

import numpy as np

from heedful.base.arguments import check_flag, check_one_each, check_several, check_text, check_texts
from heedful.base.errors import UserError
from heedful.base.options import show_options
from heedful.data.corpora.images import AnyImage, AskedImage, LabelledImage, OneImage, is_one_image, make_image_question
from heedful.data.epochs.plan import Indices
from heedful.data.prepare.images import asked_streams, class_numbers
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.explain.capture import Capture
from heedful.explain.explanation import AttentionWeights, Explanation, TokenSequence
from heedful.models.bundle import Bundle
from heedful.models.images import ImageAnswerer as AnswererNetwork
from heedful.models.networks import Classifier
from heedful.tasks.classify.classification import Classification, ImageAnswer, image_answers
from heedful.tasks.classify.evaluation import ImageAnswerEvaluation, ImageEvaluation
from heedful.tasks.classify.model import AnyClassifier
from heedful.tasks.classify.rules import ANSWER_IMAGES, CLASSIFY_IMAGES
from heedful.tasks.shared.answering.streaming import answer_stream, empty_answer
from heedful.tasks.shared.loaded_model import EvaluateOptions
from heedful.tasks.shared.old_names import takes_old_names
from heedful.tasks.shared.pooled.explaining import explain_output
from heedful.tasks.shared.pooled.models import IMAGES, PooledImageModel, ReadsImages


@takes_old_names
class ImageClassifier(
    AnyClassifier[Classifier, ImageEvaluation], PooledImageModel[Classifier, ImageEvaluation, Classification]
):
    """A trained classifier of images with its recipe.

    It runs on the device and in the precision that `load` chose. Images are read as in training: in gray or colour,
    and resized if the recipe says so.
    """

    _rules, _network, _evaluation_type = CLASSIFY_IMAGES, Classifier, ImageEvaluation
    _noun = "image"

    @overload
    def classify(self, images: OneImage) -> Classification: ...  # type: ignore[overload-overlap]
    @overload
    def classify(  # type: ignore[overload-overlap]
        self, images: np.ndarray[Any, Any]
    ) -> Classification | list[Classification]: ...
    @overload
    def classify(self, images: Iterable[AnyImage]) -> list[Classification]: ...
    def classify(self, images: AnyImage | Iterable[AnyImage]) -> Classification | list[Classification]:
        """Classify images, or one image: a path, the bytes of a file, an open file, pixels, or an image of Pillow.

        An array is height x width, or height x width x 3, of bytes from 0 to 255; a longer one holds several images.
        """
        if is_one_image(images):
            return self.classify([images])[0]  # type: ignore[list-item]
        return list(self.stream(images))  # type: ignore[arg-type]

    @show_options(EvaluateOptions)
    def evaluate(
        self, data: Iterable[tuple[AnyImage, str | int | Sequence[str]]], **options: Unpack[EvaluateOptions]
    ) -> ImageEvaluation:
        """Classify images and compare with their labels: accuracy, F1, and which classes are confused.

        `data` are pairs of an image, as `classify` takes it, and its label, or a list of labels if the model has
        several.
        """
        return self._evaluate(data, **options)

    def _truth(self, rows: Sequence[LabelledImage], name: str) -> Sequence[Sequence[int]]:
        return class_numbers(rows, self.labels, name)

    def _known(self, said: Any, where: str) -> dict[str, Any]:
        several = self.several and isinstance(said, Sequence) and not isinstance(said, str | bytes)
        names = [
            str(label) if isinstance(label, int | np.integer) else check_text(label, f"{where}: the label")
            for label in (said if several else [said])
        ]
        return {"labels": tuple(dict.fromkeys(names))}


@takes_old_names
class ImageAnswerer(AnyClassifier[AnswererNetwork, ImageAnswerEvaluation], ReadsImages[AnswererNetwork]):
    """A trained model that answers questions about images, with its recipe, its tokenizer and its answers.

    It runs on the device and in the precision that `load` chose. Its answers are those that occur in its training data.
    """

    _rules, _network, _evaluation_type = ANSWER_IMAGES, AnswererNetwork, ImageAnswerEvaluation
    _noun, _classes, _chunk, _does = "question", "answers", IMAGES, "answer"

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

        An image is a path, the bytes of a file, an open file, an array of pixels (height x width, or height x width x
        3), or an image of Pillow.
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
        about = list(check_several(images, "images", "image"))
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
        chunk: int = IMAGES,
        ready: Callable[[], bool] = lambda: True,
        refused: Callable[[UserError], None] | None = None,
    ) -> Iterator[ImageAnswer | None]:
        """Answer a stream of questions, one per image, in order, `chunk` of them at a time; None stays None.

        Fewer are taken when `ready` says that the next one has not arrived yet. `refused` is called with the error of
        an image that cannot be read, for which the answer is then None; without it the error is raised.
        """

        def answered(part: Sequence[AskedImage | None], first: int) -> list[ImageAnswer | None]:
            found = iter(self._answered([each for each in part if each is not None]))
            return [None if each is None else next(found) for each in part]

        return answer_stream(asked, answered, chunk=chunk, ready=ready, refused=empty_answer(refused, None))

    @show_options(EvaluateOptions)
    def evaluate(
        self,
        data: Iterable[tuple[AnyImage, str, str] | tuple[AnyImage, str, str, str]],
        **options: Unpack[EvaluateOptions],
    ) -> ImageAnswerEvaluation:
        """Answer questions and compare with their answers: accuracy, and F1 over answers.

        `data` are tuples of an image, as `answer` takes it, a question and its answer; a fourth value may be the kind
        of the question.
        """
        return self._evaluate(data, **options)

    def explain(self, image: AnyImage, question: str, *, gradients: bool = False, name: str = "") -> Explanation:
        """Return how the model read a question and an image together, and the probability of every answer.

        Co-attention weighs the words of the question and the patches of the image. With `gradients`, also return how
        much each patch would change the most likely answer. `name` is what the explanation calls the image, by
        default its path.
        """
        asked = make_image_question(check_text(question, "`question`"), where="`question`")
        self._form.check_text(question, "`question`")
        read = self._image(image, "`image`")
        inputs, seen = self._inputs(AskedImage(read, (asked,))), self._explained(read)
        named = {
            "patches": TokenSequence.named(seen.names()),
            "text": TokenSequence.of(self.vocabularies["text"], inputs.questions.values.tolist()),
            "vectors": TokenSequence.named(["answer"]),
        }
        flag = check_flag("gradients", gradients)
        return explain_output(
            self, name or read.where, inputs, named, _looking, self._output, flag, image=seen, question=question
        )

    def store(self, rows: Sequence[AskedImage]) -> TokenStore:
        """Decode images and tokenize the questions about them, as in training."""
        decoded, questions = self._decode([each.image for each in rows]), [each.questions for each in rows]
        return TokenStore(asked_streams(decoded, questions, self.vocabularies["text"], self._form))

    def _counts(self, store: TokenStore) -> Indices:
        return store.lengths("lengths")

    def _answered(self, asked: Sequence[AskedImage]) -> list[ImageAnswer]:
        for each in asked:
            for question in each.questions:
                self._form.check_text(question.question, question.where)
        return image_answers(self.scores(asked), self.answers)

    def _truth(self, rows: Sequence[AskedImage], name: str) -> Sequence[Sequence[int]]:
        """Return the class of the answer to each question; an answer that training never has is no class."""
        known = {answer: [number] for number, answer in enumerate(self.answers)}
        return [known.get(question.answer, []) for each in rows for question in each.questions]

    def _shown(self, rows: Sequence[AskedImage]) -> Mapping[str, Any]:
        asked = [(question, each.image.where) for each in rows for question in each.questions]
        return {"questions": tuple(one for one, _ in asked), "images": tuple(where for _, where in asked)}

    def _rows(self, data: Iterable[Any], name: str) -> list[AskedImage]:
        found = []
        for number, row in enumerate(data, start=1):
            where = f"{name}, row {number:,}"
            if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) not in (3, 4):
                raise UserError(f"{where} must be an image, a question and its answer.")
            question, answer, *kind = (check_text(text, where) for text in row[1:])
            asked = make_image_question(question, answer, "".join(kind), where)
            found.append(AskedImage(self._image(row[0], where), (asked,)))
        return found


def _looking(captured: Capture) -> tuple[AttentionWeights, ...]:
    """Return how a question and an image were read together."""
    return (
        *captured.explain("patches", "vectors", "patches"),
        *captured.explain("words", "vectors", "text"),
        *captured.explain("cross", "text", "patches"),
        *captured.explain("question", "text", "text"),
        *captured.explain("encoder", "patches", "patches"),
    )
