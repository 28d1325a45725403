"""Rules for the recipes of classifiers: of texts, of images, and of questions about images by their answers."""

from typing import Any, Final

from heedful.config.corpora.any import SPLITS
from heedful.config.corpora.roles import Roles
from heedful.config.data import Data
from heedful.config.model.any import AnyModel
from heedful.config.model.encoder_only import BertModel
from heedful.config.model.images import ImageAnswererModel
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.pooled import ClassifierModel, ImageClassifierModel
from heedful.config.section import merge_tables
from heedful.config.tables import Tables, model_of
from heedful.config.task_rules import TaskRules
from heedful.config.tokenizer import ByteBpe
from heedful.metrics.rows import compared_metrics, score_names, validation_metrics
from heedful.tasks.classify.metrics import METRICS
from heedful.tasks.shared.recipe_checks import check_longest, check_patches, check_room, check_texts

_OF_TEXTS: Final = ("max_length", "max_line", "max_ratio", "nfc", "lowercase", "tokenized")  # keys of [data]


def _check_texts(recipe: Tables) -> None:
    model = model_of(recipe, ClassifierModel)
    if not model.nested:
        check_longest(recipe)
    check_texts(recipe)
    corpora = [corpus for split in SPLITS for corpus in getattr(recipe.data, split)]
    pairs = ["second" in corpus.roles for corpus in corpora]
    if any(pairs) and not all(pairs):
        raise ValueError("`second` must be set in all corpora or in none: a classifier reads pairs or single texts")
    if any(pairs) and model.nested:
        raise ValueError(
            '`second` makes pairs of texts, which `encoder.family = "hierarchical"` does not read: leave it out, or '
            "use another encoder"
        )
    if model.joins_after_reading and not any(pairs):
        raise ValueError(
            f'`model.join = "{model.join}"` joins pairs of texts, but `data.train` has single texts: set `second`, or '
            "leave `join` out"
        )
    if any(pairs) and not model.joins_after_reading and getattr(model.encoder, "segments", 0) == 1:
        raise ValueError(
            "`model.encoder.segments` must be 2 where `second` makes pairs of texts, or 0 to tell them apart by their "
            "markers alone, but is 1"
        )
    if not model.nested:
        check_room(recipe, any(pairs) and not model.joins_after_reading)
    if recipe.train.auxiliary and not isinstance(model.encoder, LanguageModelTable):
        raise ValueError(
            "`train.auxiliary` is the factor of a language model's loss, which "
            f'`model.encoder.family = "{model.encoder.family}"` does not have: leave it out, or use "language"'
        )


def _on_encoder_of(said: AnyModel, start: AnyModel) -> AnyModel:
    """Return the classifier with the start's encoder, and with its pooler if it has one and `pooler` is not set."""
    assert isinstance(said, ClassifierModel), f"{said.family} is not a classifier"
    assert isinstance(start, BertModel | LanguageModelTable), f"{start.family} is not in `other_starts`"
    update: dict[str, Any] = {
        "encoder": merge_tables(start, said.encoder if "encoder" in said.model_fields_set else None)
    }
    pooled = said.pooled_by == "first" and not said.joins_after_reading
    if isinstance(start, BertModel) and pooled and "pooler" not in said.model_fields_set:
        update["pooler"] = start.next_sentence
    return said.model_copy(update=update)


def _check_images(recipe: Tables) -> None:
    model, data = model_of(recipe, ImageClassifierModel), recipe.data
    if recipe.tokenizer != ByteBpe():
        raise ValueError("`tokenizer` applies to texts, and a classifier of images reads none: leave it out")
    for key in _OF_TEXTS:
        if getattr(data, key) != Data.model_fields[key].default:
            raise ValueError(f"`data.{key}` applies to texts, and a classifier of images reads none: leave it out")
    if any(corpus.to for split in SPLITS for corpus in getattr(data, split)):
        raise ValueError("`to` is the target language of a translator: leave it out")
    check_patches(model.encoder, data)


def _check_questions(recipe: Tables) -> None:
    model, data, size = model_of(recipe, ImageAnswererModel), recipe.data, recipe.data.images.size
    check_longest(recipe)
    check_texts(recipe)
    check_room(recipe, pairs=False)
    if recipe.train.augmentation.mixup:
        raise ValueError(
            "`train.augmentation.mixup` mixes two images, whose questions have different answers: leave it out"
        )
    if size is not None:
        tokens = -(-size[0] // model.encoder.patch) * -(-size[1] // model.encoder.patch) + model.encoder.class_token
        if tokens + data.max_length > data.batch_tokens:
            raise ValueError(
                f"`data.batch_tokens` is {data.batch_tokens:,}, but an image of {size[0]} x {size[1]} pixels has "
                f"{tokens:,} patches and a question up to {data.max_length:,} tokens (`data.max_length`): raise it"
            )


CLASSIFY: Final = TaskRules(
    name="classify",
    does="classifies",
    verb="classify",
    learner="a classifier",
    families=("classifier",),
    metrics=validation_metrics(METRICS),
    roles=(Roles(("text", "label"), optional=("second",), besides=("number",)),),
    needs="a classifier learns from texts with labels: give `text` and `label`",
    vocabularies=("text",),
    compared_by=compared_metrics(METRICS),
    scores=score_names(METRICS),
    labels=True,
    own_keys=("data.cut", "train.class_weights", "train.auxiliary"),
    on_encoder_of=_on_encoder_of,
    other_starts=("bert", "language"),
    test_files="give --source and --target, texts and their labels",
    same_keys=("model.labels",),
    check=_check_texts,
)
CLASSIFY_IMAGES: Final = TaskRules(
    name="classify_images",
    does="classifies images",
    verb="classify",
    learner="a classifier of images",
    families=("image_classifier",),
    metrics=validation_metrics(METRICS),
    roles=(Roles(("image", "label"), besides=("caption", "number")),),
    needs="it learns from images with labels: give a folder (`images`), a table with `image` and `label`, `idx` "
    'and `labels`, `npz`, or `builtin = "scenes"`',
    vocabularies=(),
    own_tokenizers=False,
    compared_by=compared_metrics(METRICS),
    scores=score_names(METRICS),
    labels=True,
    images=True,
    start_keys=("images",),
    own_keys=("data.images", "train.augmentation", "train.class_weights"),
    tokens="patches",
    same_keys=("model.labels",),
    check=_check_images,
)
ANSWER_IMAGES: Final = TaskRules(
    name="answer_images",
    does="answers questions about images",
    verb="answer",
    learner="an answerer of questions about images",
    families=("image_answerer",),
    metrics=validation_metrics(METRICS),
    roles=(Roles(("image", "question", "answer"), optional=("group",)),),
    needs="it learns from questions about images: give a table (`csv`, `tsv` or `jsonl`) with `image`, `question` "
    'and `answer`, or `builtin = "scenes"` with `questions`',
    vocabularies=("text",),
    own_tokenizers=False,
    compared_by=compared_metrics(METRICS),
    scores=score_names(METRICS),
    labels=True,
    images=True,
    start_keys=("images",),
    own_keys=("data.images", "train.augmentation"),
    tokens="patches and words",
    check=_check_questions,
)
