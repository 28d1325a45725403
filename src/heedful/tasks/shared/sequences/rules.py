"""Rules for the recipes of networks that map one sequence to another."""

from heedful.config.corpora.containers import SPLITS
from heedful.config.model.attention import NOT_REWARDED
from heedful.config.model.mixed import CaptionerModel, PairModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.task_rules import Tables


def check_pairs(recipe: Tables) -> None:
    """Refuse tables that do not fit together."""
    model, data = recipe.pair_model, recipe.data
    if model.tie == "all" and recipe.tokenizer.why_separate:
        raise ValueError(f'`model.tie` must be "decoder" or "none" as {recipe.tokenizer.why_separate}, but is "all"')
    _, decoder = model.sides
    if decoder.choice == "reinforce":  # which only captioners have
        raise ValueError(NOT_REWARDED)
    check_fits(model, data.max_length)
    if isinstance(model, RecurrentModel):
        model.check_widths(model.memory_width)
    if recipe.train.scheduled_sampling is not None:
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
    tagged = {f"data.{split}": [bool(corpus.to) for corpus in getattr(data, split)] for split in SPLITS}
    lacking = [split for split, has in tagged.items() if not all(has)]
    if lacking and any(any(has) for has in tagged.values()):
        raise ValueError(f"`to` must be set in all corpora or in none, but one of `{lacking[0]}` lacks it")
    if recipe.evaluate.detokenize and data.tokenized is None:
        raise ValueError("`evaluate.detokenize` needs `data.tokenized`, which names the languages")


def check_fits(model: PairModel | CaptionerModel, longest: int) -> None:
    """Refuse targets that are longer than a model has positions for, with an end marker."""
    end = model.longest
    if end is not None and longest >= end[0]:
        raise ValueError(
            f"`data.max_length` ({longest}) and an end marker must fit into `model.{end[1]}`, but that is {end[0]}"
        )
