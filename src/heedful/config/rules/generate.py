"""Rules for the recipe of a language model."""

from typing import Final

from heedful.config.corpora import TEXTS
from heedful.config.model.language import LanguageModelTable
from heedful.config.rules.task_rules import TaskRules
from heedful.config.rules.texts import check_longest, check_texts
from heedful.config.tables import Tables


def language_model(recipe: Tables) -> LanguageModelTable:
    """Return the [model] table of a language model."""
    assert isinstance(recipe.model, LanguageModelTable), f"{recipe.model.family} is not a language model"
    return recipe.model


def _check(recipe: Tables) -> None:
    check_longest(recipe)
    check_texts(recipe)
    data = recipe.data
    if data.batch_tokens < data.max_length:
        raise ValueError(
            f"`data.batch_tokens` ({data.batch_tokens}) must be at least `data.max_length` ({data.max_length}), the "
            "longest window"
        )


GENERATE: Final = TaskRules(
    name="generate",
    does="generates text",
    verb="generate",
    learner="a language model",
    families=("language",),
    metrics={"loss": "lower", "perplexity": "lower"},
    takes=lambda corpus: isinstance(corpus, TEXTS),
    needs="a language model learns from texts: give `text`",
    vocabularies=("text",),
    network_parts=("decoder", "output", "next_token_states"),
    own_keys=("data.borders",),
    outputs=False,
    same_vocabulary=True,
    same_keys=("data.max_length", "data.borders"),
    check=_check,
)
