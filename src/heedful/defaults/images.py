"""Defaults of models that read images: small convolutional networks, and small decoders or readers of questions."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from heedful.config.data import ImageForm
from heedful.config.model.images import ImageAnswererModel
from heedful.config.model.mixed import CaptionerModel
from heedful.config.model.pooled import ImageClassifierModel, ImageRegressorModel
from heedful.config.task_rules import Tables
from heedful.data.corpora.images import LabelledImage, read_asked_images, read_captioned, read_images
from heedful.defaults.facts import Row
from heedful.defaults.rules import Case, Rule, TaskDefaults, rounded

_STAGES: Final = 3
_TOGETHER: Final = 64  # images of a batch
_LARGEST: Final = 128  # pixels on a side: larger images are resized
_MOST_UPDATES: Final = 20_000


class ImageCase(Case):
    """A model that reads images."""

    @property
    def side(self) -> float:
        """Pixels on a side of an image, about, as the model reads it."""
        height = self.value("data.images.height") or self.value("data.images.width")
        return float(height or (self.facts.size / self.facts.rows) ** 0.5)

    @property
    def shapeless(self) -> bool:
        """Whether no key describes the network."""
        class_token = getattr(self.recipe.model, "pool", None) == "first"  # which the chosen network does not have
        return not class_token and not any(self.sets(f"model.{part}") for part in ("encoder", "decoder", "question"))

    @property
    def numbers(self) -> bool:
        """Whether the model is a regressor."""
        return isinstance(self.recipe.model, ImageRegressorModel)

    @property
    def one_output(self) -> bool:
        """Whether the network is pooled, and a classifier or a regressor reads one vector of an image."""
        return self.numbers or isinstance(self.recipe.model, ImageClassifierModel)

    @property
    def classes(self) -> bool:
        """Whether it is a classifier whose network is chosen here."""
        return self.shapeless and self.one_output and not self.numbers

    @property
    def worded(self) -> bool:
        """Whether it reads or writes texts, and its network is chosen here."""
        return self.shapeless and not self.one_output

    @property
    def answers(self) -> bool:
        """Whether it answers questions."""
        return isinstance(self.recipe.model, ImageAnswererModel)

    @property
    def writes(self) -> bool:
        """Whether it writes texts, and its network is chosen here."""
        return self.worded and not self.answers

    @property
    def chooses(self) -> bool:
        """Whether it chooses among classes or answers, and its network is chosen here."""
        return self.classes or (self.worded and self.answers)

    @property
    def stages(self) -> int:
        """Stages of the network, each of which halves an image: fewer for tiny images."""
        return max(1, min(_STAGES, int(self.side / 2).bit_length() - 1))

    @property
    def patches(self) -> int:
        """Patches of an image, about."""
        return max(1, round(self.side / 2**self.stages)) ** 2


def _resized(case: ImageCase) -> bool:
    return not case.sets("data.images") and case.side > _LARGEST


def _encoder(case: ImageCase) -> dict[str, Any]:
    """Return a small network; a decoder that attends to patches, or words that do, need to know where things are."""
    network: dict[str, Any] = {"family": "convolutional", "width": 128, "stages": case.stages}
    return {**network, "depth": 2} if case.one_output else {**network, "depth": 1, "positions": "sinusoidal"}


def _of_texts(case: ImageCase) -> dict[str, Any]:
    """Return a small Transformer. Where it writes, words are dropped: the image decides, not what often follows."""
    dropout = {"dropout": 0.3} if case.answers else {"dropout": 0.1, "dropout_words": 0.3}
    return {"family": "transformer", "width": 128, "heads": 4, "layers": 2, "inner": 256, "norm": "pre", **dropout}


def _batch(case: ImageCase) -> int:
    """Return the patches of a batch, of which each image of a question has some more for its words."""
    images = _TOGETHER // 2 if case.answers else _TOGETHER
    return images * case.patches + (int(case.value("data.max_length")) if case.answers else 0)


def _updates(case: ImageCase) -> int:
    """Return the updates: fewer epochs the more images there are."""
    if case.one_output:
        return min(_MOST_UPDATES, max(1_000, int(round(30 * case.facts.rows / _TOGETHER, -1))))
    return min(_MOST_UPDATES, rounded(2_000 * max(1.0, case.facts.rows / 300) ** 0.42))


def _optimizer(case: ImageCase) -> dict[str, Any]:
    return {"kind": "adamw", "weight_decay": 0.05 if case.numbers or case.answers else 0.3}


def _tokenizer(case: ImageCase) -> dict[str, Any]:
    """Return whole words; letters where texts have no spaces."""
    spaced = case.facts.spaces * 12 >= case.facts.written
    return {"kind": "word", "size": 20000} if spaced else {"kind": "char"}


def _rows(recipe: Tables) -> Iterator[Row]:
    """Yield the size of the first image of each corpus for all of them: to read every file would take minutes."""
    for corpus in recipe.data.train:
        size = 0
        for image, texts in _images_with_texts(recipe, corpus):
            if not size:
                height, width, _ = image.pixels(3, ImageForm(max_pixels=recipe.data.images.max_pixels)).shape
                size = height * width
            yield Row(size, sum(text.count(" ") for text in texts), written=sum(map(len, texts)))


def _images_with_texts(recipe: Tables, corpus: Any) -> Iterator[tuple[LabelledImage, Iterable[str]]]:
    folder = recipe.data.folder
    if isinstance(recipe.model, CaptionerModel):
        yield from ((one.image, one.captions) for one in read_captioned(corpus, folder))
    elif isinstance(recipe.model, ImageAnswererModel):
        for one in read_asked_images(corpus, folder):
            yield one.image, [question.question for question in one.questions]
    else:
        several = getattr(recipe.model, "labels", "one") == "several"
        yield from ((image, ()) for image in read_images(corpus, folder, several))


IMAGES: Final = TaskDefaults(
    models=(ImageClassifierModel, ImageRegressorModel, CaptionerModel, ImageAnswererModel),
    noun="images",
    rows=_rows,
    case=ImageCase,
    rules=(
        Rule("data.images.height", _resized, lambda case: _LARGEST),
        Rule("tokenizer", lambda case: case.worded, _tokenizer),
        Rule("model.encoder", lambda case: case.shapeless, _encoder),
        Rule("model.decoder", lambda case: case.writes, _of_texts),
        Rule("model.question", lambda case: case.worded and case.answers, _of_texts),
        Rule("model.dropout", lambda case: case.classes, lambda case: 0.3),
        Rule("data.batch_tokens", lambda case: case.shapeless, _batch),
        Rule("train.steps", lambda case: case.open_ended, _updates),
        Rule("train.optimizer", lambda case: case.shapeless, _optimizer),
        Rule("train.clip_norm", lambda case: case.shapeless, lambda case: 1.0),
        Rule(
            "train.schedule",
            lambda case: case.shapeless,
            lambda case: {"kind": "cosine", "lr": 0.001 if case.answers else 0.002, "warmup": case.warmup},
        ),
        Rule("train.label_smoothing", lambda case: case.chooses, lambda case: 0.1),
        Rule("train.augmentation.shift", lambda case: case.classes, lambda case: 1),
        Rule("train.augmentation.shift", lambda case: case.worded, lambda case: 2),
        Rule("train.validation.metric", lambda case: case.chooses and case.validated, lambda case: "accuracy"),
        Rule("train.validation.metric", lambda case: case.writes and case.validated, lambda case: "bleu"),
        Rule("train.validation.max_sentences", lambda case: case.writes and case.validated, lambda case: 200),
    ),
)
