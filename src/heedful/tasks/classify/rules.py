"""Rules for the recipe of a classifier."""

from typing import Any, Final

from heedful.config.corpora.any import SPLITS, AnyCorpus
from heedful.config.corpora.texts import RowTexts
from heedful.config.model.any import AnyModel
from heedful.config.model.encoder_only import BertModel, ClassifierModel
from heedful.config.model.language import LanguageModelTable
from heedful.config.section import merge_tables
from heedful.config.tables import Tables, model_of
from heedful.config.task_rules import TaskRules
from heedful.tasks.shared.recipe_checks import check_longest, check_room, check_texts


def _check(recipe: Tables) -> None:
    model = model_of(recipe, ClassifierModel)
    if not model.nested:
        check_longest(recipe)
    check_texts(recipe)
    corpora = [corpus for split in SPLITS for corpus in getattr(recipe.data, split)]
    pairs = [corpus.second is not None for corpus in corpora if isinstance(corpus, RowTexts)]
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


def _takes(corpus: AnyCorpus) -> bool:
    return isinstance(corpus, RowTexts) and corpus.label is not None


CLASSIFY: Final = TaskRules(
    name="classify",
    does="classifies",
    verb="classify",
    learner="a classifier",
    families=("classifier",),
    metrics={"loss": "lower", "accuracy": "higher", "f1": "higher"},
    takes=_takes,
    needs="a classifier learns from texts with labels: give `text` and `label`",
    vocabularies=("text",),
    compared_by=("accuracy", "f1"),
    labels=True,
    own_keys=("data.cut", "train.class_weights", "train.auxiliary"),
    on_encoder_of=_on_encoder_of,
    other_starts=("bert", "language"),
    test_files="give --source and --target, texts and their labels",
    same_keys=("model.labels",),
    check=_check,
)
