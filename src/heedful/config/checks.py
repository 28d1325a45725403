"""What the tables of a recipe demand of each other. Every complaint is one line with the way out."""

from typing import TYPE_CHECKING, Final

from heedful.config.corpora import PAIRS, TEXTS, AnyCorpus, JsonlTexts, PlainTexts, TsvTexts
from heedful.config.model.bert import BertModel
from heedful.config.model.classifier import ClassifierModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.section import Section
from heedful.config.tasks import METRICS, Task

if TYPE_CHECKING:
    from heedful.config.recipe import Recipe

SPLITS: Final = ("train", "valid", "test")
_NEEDED: Final = {  # what corpora must be for a task, in words
    "translate": "a translator learns from pairs: give `source` and `target`",
    "classify": "a classifier learns from texts with labels: give `text` and `label`",
    "fill": "a masked language model learns from texts: give `text`",
}


def check_recipe(recipe: "Recipe") -> None:
    """Refuse tables that do not fit together."""
    _check_names(recipe)
    _check_validation(recipe)
    _check_start(recipe)
    said = recipe.model.model_fields_set if "model" in recipe.model_fields_set else set()
    if recipe.train.start_from and said != set(type(recipe.model).model_fields):
        return  # what is not said of the model is the start's: all is checked again with it
    _check_corpora(recipe)
    _check_metric(recipe)
    match recipe.model:
        case ClassifierModel():
            _check_classifier(recipe, recipe.model)
        case BertModel():
            _check_masked_model(recipe)
        case _:
            _check_translator(recipe)
    _refuse_keys_of_others(recipe)


# --- of every recipe --------------------------------------------------------------------------------------------------


def _check_names(recipe: "Recipe") -> None:
    for split in SPLITS:
        names = [corpus.name or str(number) for number, corpus in enumerate(getattr(recipe.data, split), start=1)]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice:
            raise ValueError(f"`data.{split}` has two corpora named `{twice}`: give each its own `name`")


def _check_validation(recipe: "Recipe") -> None:
    train, valid = recipe.train, recipe.data.valid
    if train.average and train.average.best and not valid:
        raise ValueError("`train.average.best` needs `data.valid`, by which they are the best")
    if train.validation.metric != "loss" and not valid:
        raise ValueError(f'`train.validation.metric` is "{train.validation.metric}", which needs `data.valid`')


def _check_start(recipe: "Recipe") -> None:
    if recipe.train.freeze is not None and not recipe.train.start_from:
        raise ValueError("`train.freeze` keeps what `train.start_from` brings, but there is no start: leave it out")


def _check_corpora(recipe: "Recipe") -> None:
    for split in SPLITS:
        for corpus in getattr(recipe.data, split):
            if not _fits(corpus, recipe.task):
                raise ValueError(f"`data.{split}` does not fit `model.family`: {_NEEDED[recipe.task]}")


def _fits(corpus: AnyCorpus, task: str) -> bool:
    match task:
        case "translate":
            return isinstance(corpus, PAIRS)
        case "classify":
            return isinstance(corpus, TsvTexts | JsonlTexts) and corpus.label is not None
        case _:
            return isinstance(corpus, TEXTS)


def _check_metric(recipe: "Recipe") -> None:
    metric, known = recipe.train.validation.metric, METRICS[recipe.task]
    if metric not in known:
        choice = ", ".join(f'"{name}"' for name in known)
        raise ValueError(
            f'`train.validation.metric` is "{metric}", which is not for `model.family = "{recipe.model.family}"`: '
            f"use one of {choice}"
        )


def _refuse_keys_of_others(recipe: "Recipe") -> None:
    """Keys that say something and mean nothing for the task."""
    data, train = recipe.data, recipe.train
    keys: list[tuple[Task, str, Section, str]] = [
        ("translate", "data.max_ratio", data, "max_ratio"),
        ("classify", "data.cut", data, "cut"),
        ("classify", "train.class_weights", train, "class_weights"),
        ("fill", "train.masking", train, "masking"),
        ("translate", "train.scheduled_sampling", train, "scheduled_sampling"),
        ("translate", "train.validation.translate", train.validation, "translate"),
    ]
    for task, path, section, key in keys:
        default = type(section).model_fields[key].get_default(call_default_factory=True)
        if recipe.task != task and getattr(section, key) != default:
            raise ValueError(f'`{path}` means nothing for `model.family = "{recipe.model.family}"`: leave it out')


# --- translators ------------------------------------------------------------------------------------------------------


def _check_translator(recipe: "Recipe") -> None:
    model, data = recipe.pair_model, recipe.data
    if model.tie == "all" and recipe.tokenizer.why_separate:
        raise ValueError(f'`model.tie` must be "decoder" or "none" as {recipe.tokenizer.why_separate}, but is "all"')
    end = model.longest
    if end is not None and data.max_length >= end[0]:
        raise ValueError(
            f"`data.max_length` ({data.max_length}) and an end marker must fit into `model.{end[1]}`, "
            f"but that is {end[0]}"
        )
    if isinstance(model, RecurrentModel):
        model.check_widths(model.memory_width)
    if recipe.train.scheduled_sampling is not None:
        _check_sampling(recipe)
    tagged = {f"data.{split}": [bool(corpus.to) for corpus in getattr(data, split)] for split in SPLITS}
    lacking = [split for split, has in tagged.items() if not all(has)]
    if lacking and any(any(has) for has in tagged.values()):
        raise ValueError(f"`to` must stand in all corpora or in none, but one of `{lacking[0]}` lacks it")
    if recipe.evaluate.detokenize and data.tokenized is None:
        raise ValueError("`evaluate.detokenize` needs `data.tokenized`, which names the languages")


def _check_sampling(recipe: "Recipe") -> None:
    """Scheduled sampling is of decoders that take one step after the other anyway."""
    _, decoder = recipe.pair_model.sides
    if not isinstance(decoder, RecurrentModel):
        raise ValueError(
            "`train.scheduled_sampling` needs a recurrent decoder, as a Transformer's is given all tokens at once: "
            'leave it out, or use `model.family = "recurrent"`'
        )
    if decoder.variational:
        raise ValueError(
            "`train.scheduled_sampling` draws tokens step by step, for which `variational` dropout has no masks: "
            "set `variational = false`"
        )


# --- readers of texts -------------------------------------------------------------------------------------------------


def _check_classifier(recipe: "Recipe", model: ClassifierModel) -> None:
    _check_texts(recipe)
    corpora = [corpus for split in SPLITS for corpus in getattr(recipe.data, split)]
    pairs = [corpus.second is not None for corpus in corpora if isinstance(corpus, TsvTexts | JsonlTexts)]
    if any(pairs) and not all(pairs):
        raise ValueError("`second` must stand in all corpora or in none: a classifier reads pairs or single texts")
    if any(pairs) and model.nested:
        raise ValueError(
            '`second` is of pairs of texts, which `encoder.family = "hierarchical"` does not read: leave it out, or '
            "use another encoder"
        )
    if any(pairs) and getattr(model.encoder, "segments", 0) == 1:
        raise ValueError(
            "`model.encoder.segments` must be 2 where `second` makes pairs of texts, or 0 to tell them by their "
            "markers alone, but is 1"
        )
    if not model.nested:
        _check_room(recipe, any(pairs))


def _check_masked_model(recipe: "Recipe") -> None:
    _check_texts(recipe)
    model, kind = recipe.model, recipe.tokenizer.kind
    assert isinstance(model, BertModel)
    _check_room(recipe, model.next_sentence)
    if recipe.data.batch_tokens < recipe.data.max_length:
        raise ValueError(
            f"`data.batch_tokens` ({recipe.data.batch_tokens}) must be at least `data.max_length` "
            f"({recipe.data.max_length}), as an input may have so many"
        )
    if recipe.train.masking.whole_words and kind in ("bpe", "char"):
        raise ValueError(
            "`train.masking.whole_words` needs pieces that show where a word begins, which those of "
            f'`tokenizer.kind = "{kind}"` do not: leave it out, or use "byte_bpe", "wordpiece" or "unigram"'
        )
    for split in SPLITS:
        for corpus in getattr(recipe.data, split):
            if model.next_sentence and isinstance(corpus, PlainTexts) and corpus.documents == "line" and (
                corpus.sentences == "line"
            ):  # fmt: skip
                raise ValueError(
                    f'`data.{split}` has one sentence a document (`documents` and `sentences` are "line"), but '
                    "`model.next_sentence` needs several: set it to false"
                )


def _check_room(recipe: "Recipe", pairs: bool) -> None:
    """Every text has a token at least."""
    length, (least, read) = recipe.data.max_length, (5, "<s> A </s> B </s>") if pairs else (3, "<s> A </s>")
    if length < least:
        raise ValueError(
            f"`data.max_length` ({length}), markers included, must be at least {least}: a text is read as `{read}`"
        )


def _check_texts(recipe: "Recipe") -> None:
    end, data = recipe.model.longest, recipe.data
    if end is not None and data.max_length > end[0] and not _nested(recipe):
        raise ValueError(
            f"`data.max_length` ({data.max_length}), markers included, must fit into `model.{end[1]}`, "
            f"but that is {end[0]}"
        )
    if recipe.tokenizer.target is not None:
        raise ValueError("`tokenizer.target` is of translators, as there is one side alone: leave it out")
    if not recipe.tokenizer.joint:
        raise ValueError("`tokenizer.joint` must be true, as there is one side alone: leave it out")
    if data.tokenized is not None:
        raise ValueError("`data.tokenized` is of translators: leave it out")
    if any(corpus.to for split in SPLITS for corpus in getattr(data, split)):
        raise ValueError("`to` is the target language of a translator: leave it out")


def _nested(recipe: "Recipe") -> bool:
    return isinstance(recipe.model, ClassifierModel) and recipe.model.nested
