"""Rules for the recipe of a classifier of images."""

from typing import Final

from heedful.config.corpora.any import SPLITS, AnyCorpus
from heedful.config.corpora.images import ImageCorpus
from heedful.config.data import Data
from heedful.config.model.images import ImageClassifierModel
from heedful.config.tables import Tables, model_of
from heedful.config.task_rules import TaskRules
from heedful.config.tokenizer import ByteBpe
from heedful.tasks.shared.recipe_checks import check_patches

_OF_TEXTS: Final = ("max_length", "max_line", "max_ratio", "nfc", "lowercase", "tokenized")  # keys of [data]


def _check(recipe: Tables) -> None:
    model, data = model_of(recipe, ImageClassifierModel), recipe.data
    if recipe.tokenizer != ByteBpe():
        raise ValueError("`tokenizer` applies to texts, and a classifier of images reads none: leave it out")
    for key in _OF_TEXTS:
        if getattr(data, key) != Data.model_fields[key].default:
            raise ValueError(f"`data.{key}` applies to texts, and a classifier of images reads none: leave it out")
    if any(corpus.to for split in SPLITS for corpus in getattr(data, split)):
        raise ValueError("`to` is the target language of a translator: leave it out")
    check_patches(model.encoder, data)


def _takes(corpus: AnyCorpus) -> bool:
    return isinstance(corpus, ImageCorpus)


CLASSIFY_IMAGES: Final = TaskRules(
    name="classify_images",
    does="classifies images",
    verb="classify",
    learner="a classifier of images",
    families=("image_classifier",),
    metrics={"loss": "lower", "accuracy": "higher", "f1": "higher"},
    takes=_takes,
    needs="it learns from images with labels: give a folder (`images`), a table with `image` and `label`, `idx` "
    'and `labels`, `npz`, or `builtin = "scenes"`',
    vocabularies=(),
    own_tokenizers=False,
    compared_by=("accuracy", "f1"),
    labels=True,
    images=True,
    start_keys=("images",),
    own_keys=("data.images", "train.augmentation", "train.class_weights"),
    tokens="patches",
    same_keys=("model.labels",),
    check=_check,
)
