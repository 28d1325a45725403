"""Remedies for training that contradict each other or the model: refused, with the change that makes them legal."""

from collections.abc import Iterator
from typing import Final

from heedful.config.model.classifier import ClassifierModel
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.token_heads import TaggerModel
from heedful.config.rules.generate import carries_state
from heedful.config.rules.task_rules import TaskRules
from heedful.config.section import Section
from heedful.config.tables import Tables

_READ_WHOLE: Final = ("translate", "parse", "classify")  # tasks whose batches are whole texts


def check_remedies(recipe: Tables, rules: TaskRules) -> None:
    """Refuse remedies that cannot do what they are for."""
    if recipe.train.r_drop is not None:
        _check_r_drop(recipe)
    if recipe.train.distill is not None:
        _check_distillation(recipe)
    if recipe.train.initialization is not None:
        _check_initialization(recipe)
    if recipe.train.bpe_dropout:
        _check_bpe_dropout(recipe, rules)


def _check_r_drop(recipe: Tables) -> None:
    if isinstance(recipe.model, TaggerModel) and recipe.model.crf:
        raise ValueError(
            "`train.r_drop` compares the labels of single words, but `model.crf = true` predicts those of a sentence "
            "together: leave one of them out"
        )
    if isinstance(recipe.model, LanguageModelTable) and carries_state(recipe):
        raise ValueError(
            "`train.r_drop` reads each batch twice, but a recurrent model with open borders carries its state from "
            'batch to batch: leave it out, or set `data.borders = "closed"`'
        )
    if recipe.train.scheduled_sampling is not None:
        raise ValueError(
            "`train.r_drop` compares two passes over the same tokens, but `train.scheduled_sampling` draws others in "
            "each: leave one of them out"
        )
    if not any(_dropout(recipe.model)):
        raise ValueError(
            "`train.r_drop` compares two passes with different dropout, but the model has none: set `model.dropout`, "
            "or leave it out"
        )


def _check_initialization(recipe: Tables) -> None:
    name, norm = recipe.train.initialization, getattr(recipe.model, "norm", "")
    if norm == "tfixup" and name != "xavier":
        raise ValueError(
            f'`train.initialization = "{name}"` contradicts `model.norm = "tfixup"`, whose initial weights are scaled '
            'from "xavier": leave one of them out'
        )
    if recipe.train.start_from:
        raise ValueError("`train.initialization` draws weights that `train.start_from` replaces: leave one of them out")


def _check_distillation(recipe: Tables) -> None:
    if isinstance(recipe.model, TaggerModel) and recipe.model.crf:
        raise ValueError(
            "`train.distill` compares the labels of single words, but `model.crf = true` predicts those of a sentence "
            "together: leave one of them out"
        )
    if isinstance(recipe.model, LanguageModelTable) and carries_state(recipe):
        raise ValueError(
            "`train.distill` has a teacher that reads single batches, but a recurrent model with open borders carries "
            'its state from batch to batch: leave it out, or set `data.borders = "closed"`'
        )
    if recipe.train.scheduled_sampling is not None:
        raise ValueError(
            "`train.distill` compares predictions from the same tokens, but `train.scheduled_sampling` draws others "
            "for the model: leave one of them out"
        )
    if recipe.train.auxiliary:
        raise ValueError("`train.distill` and `train.auxiliary` cannot be combined: leave one of them out")


def _check_bpe_dropout(recipe: Tables, rules: TaskRules) -> None:
    tokenizer = recipe.tokenizer
    kinds = [tokenizer.kind, *([tokenizer.target.kind] if tokenizer.target else [])]
    if not {"bpe", "byte_bpe"} & set(kinds):
        raise ValueError(
            f'`train.bpe_dropout` leaves out merges, which `tokenizer.kind = "{tokenizer.kind}"` does not have: use '
            '"bpe" or "byte_bpe", or leave it out'
        )
    if isinstance(recipe.model, ClassifierModel) and recipe.model.nested:
        raise ValueError(
            "`train.bpe_dropout` cuts whole texts anew in every epoch, but a hierarchical classifier reads sentences "
            "that are prepared once: leave it out"
        )
    if rules.name not in _READ_WHOLE:
        raise ValueError(
            f"`train.bpe_dropout` applies to translators, parsers and classifiers of texts, not to {rules.learner}: "
            "leave it out"
        )


def _dropout(table: Section) -> Iterator[float]:
    """Yield the values of all keys of a table, and of the tables in it, that set dropout."""
    for key in type(table).model_fields:
        value = getattr(table, key)
        if isinstance(value, Section):
            yield from _dropout(value)
        elif "dropout" in key and isinstance(value, int | float):
            yield value
