"""Rules for the recipe of a classifier of pictures."""

from typing import Final

from heedful.config.corpora.any import SPLITS, AnyCorpus
from heedful.config.corpora.pictures import PictureCorpus
from heedful.config.data import Data
from heedful.config.model.pictures import AnyPictureEncoder, PictureClassifierModel
from heedful.config.rules.task_rules import TaskRules
from heedful.config.tables import Tables
from heedful.config.tokenizer import ByteBpe

_OF_TEXTS: Final = ("max_length", "max_line", "max_ratio", "nfc", "lowercase", "tokenized")  # keys of [data]


def picture_model(recipe: Tables) -> PictureClassifierModel:
    """Return the [model] table of a classifier of pictures."""
    assert isinstance(recipe.model, PictureClassifierModel), f"{recipe.model.family} does not read pictures"
    return recipe.model


def _check(recipe: Tables) -> None:
    model, data = picture_model(recipe), recipe.data
    if recipe.tokenizer != ByteBpe():
        raise ValueError("`tokenizer` applies to texts, and a classifier of pictures reads none: leave it out")
    for key in _OF_TEXTS:
        if getattr(data, key) != Data.model_fields[key].default:
            raise ValueError(f"`data.{key}` applies to texts, and a classifier of pictures reads none: leave it out")
    if any(corpus.to for split in SPLITS for corpus in getattr(data, split)):
        raise ValueError("`to` is the target language of a translator: leave it out")
    check_patches(model.encoder, data)


def check_patches(encoder: AnyPictureEncoder, data: Data) -> None:
    """Refuse pictures with more patches than a batch may have, if their size is known."""
    size = data.pictures.size
    if size is not None:
        tokens = -(-size[0] // encoder.patch) * -(-size[1] // encoder.patch) + encoder.class_token
        if tokens > data.batch_tokens:
            raise ValueError(
                f"`data.batch_tokens` is {data.batch_tokens:,}, but a picture of {size[0]} x {size[1]} pixels has "
                f"{tokens:,} patches: raise it"
            )


def _takes(corpus: AnyCorpus) -> bool:
    return isinstance(corpus, PictureCorpus)


CLASSIFY_PICTURES: Final = TaskRules(
    name="classify_pictures",
    does="classifies pictures",
    verb="classify",
    learner="a classifier of pictures",
    families=("picture_classifier",),
    metrics={"loss": "lower", "accuracy": "higher", "f1": "higher"},
    takes=_takes,
    needs="it learns from pictures with labels: give a folder (`pictures`), a table with `picture` and `label`, `idx` "
    'and `labels`, `npz`, or `builtin = "scenes"`',
    vocabularies=(),
    own_tokenizers=False,
    compared_by=("accuracy", "f1"),
    labels=True,
    pictures=True,
    start_keys=("pictures",),
    own_keys=("data.pictures", "train.augmentation", "train.class_weights"),
    tokens="patches",
    same_keys=("model.labels",),
    check=_check,
)
