"""Rules for the recipe of a language model."""

from typing import Final

from heedful.config.checks import carries_state
from heedful.config.corpora.roles import Roles
from heedful.config.model.language import LanguageModelTable, RecurrentDecoderTable
from heedful.config.task_rules import Tables, TaskRules, model_of
from heedful.metrics.rows import score_names, validation_metrics
from heedful.tasks.generate.metrics import METRICS
from heedful.tasks.shared.recipe_checks import check_longest, check_texts


def _check(recipe: Tables) -> None:
    check_longest(recipe)
    check_texts(recipe)
    data = recipe.data
    if data.batch_tokens < data.max_length:
        raise ValueError(
            f"`data.batch_tokens` ({data.batch_tokens}) must be at least `data.max_length` ({data.max_length}), the "
            "longest window"
        )
    decoder = model_of(recipe, LanguageModelTable).decoder
    if carries_state(recipe):
        weights = {corpus.weight for corpus in data.train} != {1.0}
        if weights or data.temperature != 1:
            raise ValueError(
                f"`{'data.train.weight' if weights else 'data.temperature'}` must be 1 where a recurrent model reads "
                "its corpora as one text (`data.borders` is open): leave it out, or close the borders"
            )
    elif isinstance(decoder, RecurrentDecoderTable) and decoder.penalized:
        key = "penalty_activation" if decoder.penalty_activation else "penalty_change"
        raise ValueError(
            f'`model.decoder.{key}` applies to models that carry their state: set `data.borders = "open"`, or leave it '
            "out"
        )


GENERATE: Final = TaskRules(
    name="generate",
    does="generates text",
    verb="generate",
    learner="a language model",
    model="TextGenerator",
    families=("language",),
    metrics=validation_metrics(METRICS),
    scores=score_names(METRICS),
    roles=(Roles(("text",), besides=("second", "label", "number")),),
    needs="a language model learns from texts: give `text`",
    vocabularies=("text",),
    inputs=("text",),
    line="Kneser-Ney counts of n-grams",
    running=True,
    scored="texts",
    compared_by=("bits_per_byte", "word_perplexity"),
    network_parts=("decoder", "output", "next_token_states"),
    start_keys=("borders", "max_length"),
    few=10_000_000,
    own_keys=("data.borders",),
    evaluation_options=("stride",),
    outputs=False,
    same_vocabulary=True,
    same_keys=("data.max_length", "data.borders"),
    explained="How a text was predicted",
    explained_as=("Text", ""),
    check=_check,
)
