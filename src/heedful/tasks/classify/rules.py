"""Rules for the recipes of classifiers: of texts, of images, and of questions about images by their answers."""

from typing import Final

from heedful.config.corpora.roles import SCENES, Roles
from heedful.config.model.images import ImageAnswererModel
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.pooled import ClassifierModel, ImageClassifierModel
from heedful.config.task_rules import Tables, TaskRules, model_of
from heedful.metrics.rows import compared_metrics, score_names, validation_metrics
from heedful.tasks.classify.metrics import METRICS
from heedful.tasks.shared.recipe_checks import (
    check_longest,
    check_patches,
    check_pooled_texts,
    check_room,
    check_texts,
    put_on_encoder,
    refuse_text_keys,
)


def _check_texts(recipe: Tables) -> None:
    model = model_of(recipe, ClassifierModel)
    check_pooled_texts(recipe, model, "a classifier")
    if recipe.train.auxiliary and not isinstance(model.encoder, LanguageModelTable):
        raise ValueError(
            "`train.auxiliary` is the factor of a language model's loss, which "
            f'`model.encoder.family = "{model.encoder.family}"` does not have: leave it out, or use "language"'
        )


def _check_images(recipe: Tables) -> None:
    refuse_text_keys(recipe, "a classifier of images", model_of(recipe, ImageClassifierModel).encoder)


def _check_questions(recipe: Tables) -> None:
    check_longest(recipe)
    check_texts(recipe)
    check_room(recipe, pairs=False)
    if recipe.train.augmentation.mixup:
        raise ValueError(
            "`train.augmentation.mixup` mixes two images, whose questions have different answers: leave it out"
        )
    check_patches(model_of(recipe, ImageAnswererModel).encoder, recipe.data, asked=True)


CLASSIFY: Final = TaskRules(
    name="classify",
    does="classifies",
    verb="classify",
    learner="a classifier",
    model="TextClassifier",
    families=("classifier",),
    metrics=validation_metrics(METRICS),
    roles=(Roles(("text", "label"), optional=("second",), besides=("number",)),),
    needs="a classifier learns from texts with labels: give `text` and `label`",
    vocabularies=("text",),
    inputs=("text", "second"),
    whole_texts=True,
    compared_by=compared_metrics(METRICS),
    scores=score_names(METRICS),
    labels=True,
    own_keys=("data.cut", "train.class_weights", "train.auxiliary"),
    on_encoder_of=put_on_encoder,
    other_starts=("bert", "language"),
    few=1_000,
    line="logistic regression on n-grams",
    test_files="give --source and --target, texts and their labels",
    same_keys=("model.labels",),
    explained="How a text was classified",
    explained_as=("Text", "Class"),
    check=_check_texts,
)
CLASSIFY_IMAGES: Final = TaskRules(
    name="classify_images",
    does="classifies images",
    verb="classify",
    learner="a classifier of images",
    model="ImageClassifier",
    families=("image_classifier",),
    metrics=validation_metrics(METRICS),
    roles=(Roles(("image", "label"), besides=SCENES.roles),),
    needs="it learns from images with labels: give a folder (`images`), a table with `image` and `label`, `idx` "
    'and `labels`, `npz`, or `builtin = "scenes"`',
    vocabularies=(),
    inputs=("image",),
    own_tokenizers=False,
    compared_by=compared_metrics(METRICS),
    scores=score_names(METRICS),
    labels=True,
    images=True,
    start_keys=("images",),
    own_keys=("data.images", "train.augmentation", "train.class_weights"),
    line="logistic regression on pixels",
    tokens="patches",
    same_keys=("model.labels",),
    explained="How an image was classified",
    explained_as=("Image", "Class"),
    check=_check_images,
)
ANSWER_IMAGES: Final = TaskRules(
    name="answer_images",
    does="answers questions about images",
    verb="answer",
    learner="an answerer of questions about images",
    model="ImageAnswerer",
    families=("image_answerer",),
    metrics=validation_metrics(METRICS),
    roles=(Roles(("image", "question", "answer"), optional=("group",)),),
    needs="it learns from questions about images: give a table (`csv`, `tsv` or `jsonl`) with `image`, `question` "
    'and `answer`, or `builtin = "scenes"` with `questions`',
    vocabularies=("text",),
    inputs=("image", "question"),
    own_tokenizers=False,
    compared_by=compared_metrics(METRICS),
    scores=score_names(METRICS),
    labels=True,
    images=True,
    start_keys=("images",),
    own_keys=("data.images", "train.augmentation"),
    line="the most frequent answer to each question",
    tokens="patches and words",
    explained="How a question about an image was answered",
    explained_as=("Image", "Answer"),
    check=_check_questions,
)
