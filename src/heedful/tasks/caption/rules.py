"""Rules for the recipe of a captioner."""

from typing import Final

from heedful.config.corpora.containers import SPLITS, Builtin
from heedful.config.corpora.roles import Roles
from heedful.config.model.mixed import CaptionerModel
from heedful.config.task_rules import Tables, TaskRules, model_of
from heedful.metrics.rows import LOSS, PERPLEXITY, TEXT_METRICS, WRITTEN_TEXTS, score_names, validation_metrics
from heedful.tasks.shared.recipe_checks import check_patches, check_texts
from heedful.tasks.shared.sequences.rules import check_fits


def _check(recipe: Tables) -> None:
    model, data = model_of(recipe, CaptionerModel), recipe.data
    check_texts(recipe)
    check_patches(model.encoder, data)
    check_fits(model, data.max_length)
    if recipe.train.augmentation.mixup:
        raise ValueError("`train.augmentation.mixup` mixes classes, which captions are not: leave it out")
    if recipe.evaluate.detokenize:
        raise ValueError("`evaluate.detokenize` applies to translators only: leave it out")
    for key in ("r_drop", "distill"):
        if model.decoder.choice == "reinforce" and getattr(recipe.train, key) is not None:
            raise ValueError(
                f'`train.{key}` compares two passes, but `model.decoder.choice = "reinforce"` draws other patches in '
                "each: leave one of them out"
            )
    if recipe.decode.mbr:
        raise ValueError("`decode.mbr` applies to translators only: leave it out")
    for split in SPLITS:
        for corpus in getattr(data, split):
            if isinstance(corpus, Builtin) and corpus.label != "number":
                raise ValueError(
                    f"`data.{split}.label` is for classifiers; a captioner learns the sentence of a scene: leave it out"
                )


CAPTION: Final = TaskRules(
    name="caption",
    does="describes images",
    verb="caption",
    learner="a captioner",
    model="Captioner",
    families=("captioner",),
    metrics=validation_metrics((LOSS, PERPLEXITY, *TEXT_METRICS.values())),
    scores=score_names(WRITTEN_TEXTS),
    roles=(Roles(("image", "caption"), besides=("label", "number")),),
    needs="a captioner learns from images with captions: give a table with `image` and `caption`, or "
    '`builtin = "scenes"`',
    vocabularies=("text",),
    inputs=("image",),
    more_sides=("patches",),
    own_tokenizers=False,
    compared_by=("bleu", "chrf", "ter", "exact_match", "edit_distance", "per", "wer"),
    searches=True,
    start_keys=("images",),
    own_keys=("data.images", "train.augmentation"),
    unread_keys=("decode", "evaluate"),
    tokens="target tokens",
    evaluation_options=("metric",),
    same_keys=("evaluate.bleu_tokenize", "evaluate.metrics", "data.lowercase"),
    line="the caption of the nearest image",
    explained="How an image was described",
    explained_as=("Image", "Caption"),
    check=_check,
)
