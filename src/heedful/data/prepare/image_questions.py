"""From the recipe of a model that answers questions about images to its tokenizer, its answers and its stores.

A row is an image, with its streams, and the streams `words` of all questions about it, `lengths` of each of them, and
`label`, the class of each answer; one more than there are classes for an answer that never occurs in training.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from heedful.base.errors import UserError, counted, suggestion
from heedful.config.corpora.any import AnyCorpus
from heedful.config.model.images import ImageAnswererModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.data.cache import Say
from heedful.data.corpora.images import AskedImage, ImageQuestion, read_asked_images
from heedful.data.images.decoding import Pixels
from heedful.data.prepare.images import image_rows, image_streams
from heedful.data.prepare.prepared import Preparation, Prepared
from heedful.data.prepare.stores import Rows
from heedful.data.prepare.streams import WHOLE_NUMBERS, LabelStream, Stream, Streams, Tokenized
from heedful.data.prepare.texts import sort_labels
from heedful.data.text_form import TextForm
from heedful.data.token_store import Ragged, StreamType, id_stream
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies

_VERSION: Final = 1  # raise it when the same corpus would give other rows


def prepare_image_questions(
    recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None
) -> Prepared:
    """Train the tokenizer and find the answers, unless they are given; decode training and validation corpora."""
    work, data = Preparation.of(recipe, progress, given), recipe.data
    channels = model_of(recipe, ImageAnswererModel).encoder.channels
    listed = {corpus: [*read_asked_images(corpus, data.folder)] for corpus in (*data.train, *data.valid)}
    for corpus, asked in listed.items():
        if not asked:
            raise UserError(f"{corpus.title} has no question to use.")
    tokenizer = work.tokenizer(
        lambda corpus: (work.form(question.question) for asked in listed[corpus] for question in asked.questions)
    )
    labels = work.labels(lambda: answers_in(listed[corpus] for corpus in data.train))
    known = {answer: number for number, answer in enumerate(labels)}

    def rows(corpus: AnyCorpus, training: bool) -> Rows[AskedImage]:
        questions = [question for asked in listed[corpus] for question in asked.questions]
        unknown = [question for question in questions if question.answer not in known]
        if unknown and training:
            raise UserError(
                f"{unknown[0].where or corpus.title} has the answer `{unknown[0].answer}`, which the model does not "
                f"know.{suggestion(unknown[0].answer, labels)}"
            )
        facts = [counted(len(listed[corpus]), "image"), counted(len(questions), "question")]
        if unknown:
            facts.append(f"{counted(len(unknown), 'answer')} that training never has")
        answers = LabelStream[AskedImage](
            lambda rows: [[known.get(each.answer, len(known)) for each in asked.questions] for asked in rows],
            {"labels": labels, "version": _VERSION},
        )
        further: list[Stream[AskedImage]] = [QuestionStream(tokenizer, work.form), answers]
        shown = image_rows(listed[corpus], lambda asked: asked.image, data.images, channels, further)
        return replace(shown, facts=lambda store: facts)

    return work.prepared(Vocabularies({"text": tokenizer}, labels), rows)


def answers_in(corpora: Iterable[Sequence[AskedImage]]) -> tuple[str, ...]:
    """Return all answers of corpora, sorted."""
    found = {question.answer for corpus in corpora for asked in corpus for question in asked.questions}
    if len(found) < 2:
        raise UserError(
            f"`data.train` has the answer `{next(iter(found))}` alone, but there must be two to choose from."
        )
    return sort_labels(found)


class QuestionStream(Tokenized):
    """The words of all questions about an image, and the length of each question."""

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The ids of the vocabulary, and lengths."""
        return {"words": id_stream(self.tokenizer.size), "lengths": WHOLE_NUMBERS}

    def encode(self, rows: Sequence[AskedImage], dropped: Counter[str]) -> Streams:
        """Tokenize the questions."""
        return question_streams([asked.questions for asked in rows], self.tokenizer, self.form)


def asked_streams(
    images: Sequence[Pixels],
    questions: Sequence[Sequence[ImageQuestion]],
    tokenizer: Tokenizer,
    form: TextForm,
) -> dict[str, Ragged]:
    """Return images, at least one, and the questions about each as rows of streams."""
    return {**image_streams(images), **question_streams(questions, tokenizer, form)}


def question_streams(
    questions: Sequence[Sequence[ImageQuestion]], tokenizer: Tokenizer, form: TextForm
) -> dict[str, Ragged]:
    """Return the questions about each image as rows of streams."""
    encoded = iter(tokenizer.encode_batch([form(question.question) for several in questions for question in several]))
    pieces = [[next(encoded) for _ in several] for several in questions]
    words = [[piece for ids in several for piece in ids] for several in pieces]
    lengths = [[len(ids) for ids in several] for several in pieces]
    return {"words": Ragged.of(words), "lengths": Ragged.of(lengths)}
