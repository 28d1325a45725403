"""Rules for the recipes of regressors, of texts and of images."""

from typing import Final

from heedful.config.corpora.roles import SCENES, Roles
from heedful.config.model.pooled import ImageRegressorModel, RegressorModel
from heedful.config.task_rules import Tables, TaskRules, model_of
from heedful.metrics.rows import compared_metrics, score_names, validation_metrics
from heedful.tasks.regress.metrics import METRICS
from heedful.tasks.shared.recipe_checks import check_pooled_texts, put_on_encoder, refuse_text_keys


def _check_texts(recipe: Tables) -> None:
    check_pooled_texts(recipe, model_of(recipe, RegressorModel), "a regressor")
    if recipe.train.label_smoothing:
        raise ValueError("`train.label_smoothing` smooths classes, which numbers are not: leave it out")
    _refuse_comparisons(recipe)


def _check_images(recipe: Tables) -> None:
    refuse_text_keys(recipe, "a regressor of images", model_of(recipe, ImageRegressorModel).encoder)
    if recipe.train.augmentation.mixup:
        raise ValueError("`train.augmentation.mixup` mixes classes, which numbers are not: leave it out")
    _refuse_comparisons(recipe)


def _refuse_comparisons(recipe: Tables) -> None:
    """Refuse remedies that compare probabilities."""
    for key in ("r_drop", "distill"):
        if getattr(recipe.train, key) is not None:
            raise ValueError(f"`train.{key}` compares probabilities, which a regressor does not have: leave it out")


REGRESS: Final = TaskRules(
    name="regress",
    does="predicts a number for a text",
    verb="regress",
    learner="a regressor",
    model="TextRegressor",
    families=("regressor",),
    metrics=validation_metrics(METRICS),
    roles=(Roles(("text", "number"), optional=("second",), besides=("label",)),),
    needs="a regressor learns from texts with numbers: give `text` and `number`",
    vocabularies=("text",),
    inputs=("text", "second"),
    whole_texts=True,
    compared_by=compared_metrics(METRICS),
    scores=score_names(METRICS),
    own_keys=("data.cut",),
    on_encoder_of=put_on_encoder,
    other_starts=("bert", "language"),
    few=1_000,
    line="ridge regression on n-grams",
    same_keys=("model.loss",),
    explained="How a number was predicted for a text",
    explained_as=("Text", "Number"),
    check=_check_texts,
)
REGRESS_IMAGES: Final = TaskRules(
    name="regress_images",
    does="predicts a number for an image",
    verb="regress",
    learner="a regressor of images",
    model="ImageRegressor",
    families=("image_regressor",),
    metrics=validation_metrics(METRICS),
    roles=(Roles(("image", "number"), besides=SCENES.roles),),
    needs="a regressor learns from images with numbers: give a table with `image` and `number`, `npz` "
    'with `number`, or `builtin = "scenes"`',
    vocabularies=(),
    inputs=("image",),
    own_tokenizers=False,
    compared_by=compared_metrics(METRICS),
    scores=score_names(METRICS),
    images=True,
    start_keys=("images",),
    own_keys=("data.images", "train.augmentation"),
    line="ridge regression on pixels",
    tokens="patches",
    same_keys=("model.loss",),
    explained="How a number was predicted for an image",
    explained_as=("Image", "Number"),
    check=_check_images,
)
