"""Rules for the recipe of a translator."""

from typing import Final

from heedful.config.corpora.any import SPLITS
from heedful.config.corpora.pairs import PAIRS
from heedful.config.model.attention import NOT_REWARDED
from heedful.config.model.mixed import MixedModel, PairModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.rules.task_rules import TaskRules
from heedful.config.tables import Tables


def pair_model(recipe: Tables) -> PairModel:
    """Return the [model] table of a network that maps one sequence to another."""
    model = recipe.model
    assert isinstance(model, TransformerModel | RecurrentModel | MixedModel), f"{model.family} does not map sequences"
    return model


def _check(recipe: Tables) -> None:
    model, data = pair_model(recipe), recipe.data
    if model.tie == "all" and recipe.tokenizer.why_separate:
        raise ValueError(f'`model.tie` must be "decoder" or "none" as {recipe.tokenizer.why_separate}, but is "all"')
    check_choice(model)
    end = model.longest
    if end is not None and data.max_length >= end[0]:
        raise ValueError(
            f"`data.max_length` ({data.max_length}) and an end marker must fit into `model.{end[1]}`, "
            f"but that is {end[0]}"
        )
    if isinstance(model, RecurrentModel):
        model.check_widths(model.memory_width)
    if recipe.train.scheduled_sampling is not None:
        _check_sampling(model)
    tagged = {f"data.{split}": [bool(corpus.to) for corpus in getattr(data, split)] for split in SPLITS}
    lacking = [split for split, has in tagged.items() if not all(has)]
    if lacking and any(any(has) for has in tagged.values()):
        raise ValueError(f"`to` must be set in all corpora or in none, but one of `{lacking[0]}` lacks it")
    if recipe.evaluate.detokenize and data.tokenized is None:
        raise ValueError("`evaluate.detokenize` needs `data.tokenized`, which names the languages")


def check_choice(model: PairModel) -> None:
    """Refuse attention that learns by reward, which only captioners have."""
    if model.sides[1].choice == "reinforce":
        raise ValueError(NOT_REWARDED)


def _check_sampling(model: PairModel) -> None:
    """Refuse scheduled sampling with a decoder that does not run step by step."""
    _, decoder = model.sides
    if not isinstance(decoder, RecurrentModel):
        raise ValueError(
            "`train.scheduled_sampling` needs a recurrent decoder, as a Transformer's reads all tokens at once: "
            'leave it out, or use `model.family = "recurrent"`'
        )
    if decoder.variational:
        raise ValueError(
            "`train.scheduled_sampling` samples tokens step by step, which `variational` dropout does not support: "
            "set `variational = false`"
        )


TRANSLATE: Final = TaskRules(
    name="translate",
    does="translates",
    verb="translate",
    learner="a translator",
    families=("transformer", "recurrent", "mixed"),
    metrics={
        "loss": "lower",
        "perplexity": "lower",
        "bleu": "higher",
        "chrf": "higher",
        "ter": "lower",
        "exact_match": "higher",
        "edit_distance": "lower",
        "per": "lower",
        "wer": "lower",
    },
    takes=lambda corpus: isinstance(corpus, PAIRS),
    needs="a translator learns from pairs: give `source` and `target`",
    vocabularies=("source", "target"),
    scored="pairs",
    network_parts=("encoder", "decoder", "output", "next_token_states"),
    searches=True,
    own_keys=("data.max_ratio", "train.scheduled_sampling", "train.validation.translate"),
    unread_keys=(
        "decode",
        "evaluate",
        "data.tokenized",
        "tokenizer.joint",
        "tokenizer.target",
        *(f"data.{split}.to" for split in SPLITS),
    ),
    tokens="target tokens",
    label_smoothing=0.1,
    test_files="give --source and --target",
    evaluation_options=("metric", "raw", "to", "terms", "require", "forbid"),
    same_keys=(
        "evaluate.bleu_tokenize",
        "evaluate.detokenize",
        "evaluate.metrics",
        "evaluate.one_word",
        "data.lowercase",
    ),
    check=_check,
)
