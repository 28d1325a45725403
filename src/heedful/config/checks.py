"""Checks across the tables of a recipe that hold for every task; `rules` has those of each task."""

from collections.abc import Iterator

from heedful.base.errors import alternatives, nearest
from heedful.config.corpora.containers import SPLITS
from heedful.config.model.any import check_size
from heedful.config.model.encoder_only import TaggerModel
from heedful.config.model.language import LanguageModelTable, RecurrentDecoderTable
from heedful.config.model.pooled import TextModel
from heedful.config.section import Section
from heedful.config.task_rules import Tables, TaskRules, model_of
from heedful.config.tasks import TASKS
from heedful.config.train.schedules import InverseSqrt, Noam, UntunedExponentialWarmup, UntunedLinearWarmup, Wait
from heedful.config.train.table import Train


def check_recipe(recipe: Tables, rules: TaskRules) -> None:
    """Refuse tables that do not fit together."""
    check_size(recipe.model)
    _check_splits(recipe)
    _check_kept_words(recipe)
    _check_warmup(recipe)
    if recipe.train.moving_average is not None and recipe.train.average is not None:
        raise ValueError(
            "`train.average` and `train.moving_average` are both set, but checkpoints hold the weights themselves: "
            "leave one of them out"
        )
    if recipe.train.freeze is not None and not recipe.train.start_from:
        raise ValueError("`train.freeze` freezes weights of `train.start_from`, which is not set: leave it out")
    _check_adapter(recipe.train)
    _check_extended(recipe)
    said = recipe.model.model_fields_set if "model" in recipe.model_fields_set else set()
    if recipe.train.start_from and said != set(type(recipe.model).model_fields):
        return  # keys of [model] left out come from the start model: everything is checked again with them
    if recipe.model.family not in rules.families:
        raise ValueError(
            f'`task = "{rules.name}"` does not apply to `model.family = "{recipe.model.family}"`: use '
            f"{alternatives(rules.families)}"
        )
    _check_corpora(recipe, rules)
    _check_metric(recipe, rules)
    rules.check(recipe)
    check_remedies(recipe, rules)
    for path in (path for other in TASKS.values() for path in other.own_keys if path not in rules.own_keys):
        *tables, key = path.split(".")
        section: Section = recipe
        for table in tables:
            section = getattr(section, table)
        default = type(section).model_fields[key].get_default(call_default_factory=True)
        if getattr(section, key) != default:
            raise ValueError(f"`{path}` does not apply to {rules.learner}: leave it out")


def _check_splits(recipe: Tables) -> None:
    """Refuse corpora with the same name, and validations without data."""
    for split in SPLITS:
        names = [corpus.name or str(number) for number, corpus in enumerate(getattr(recipe.data, split), start=1)]
        twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
        if twice:
            raise ValueError(f"`data.{split}` has two corpora named `{twice}`: give each its own `name`")
    refused = (
        "valid" in recipe.data.model_fields_set and not recipe.data.valid
    )  # where it is not set, rows are held out
    if refused and (need := needs_validation(recipe.train)):
        raise ValueError(need)


def _check_kept_words(recipe: Tables) -> None:
    """Refuse words that the text will not have, as it is lowercased."""
    sides = [side for side in (recipe.tokenizer, recipe.tokenizer.target) if side is not None]
    for side in sides if recipe.data.lowercase else ():
        for word in side.keep:
            if word != word.lower():
                raise ValueError(
                    f"`{side.table}.keep` has {word!r}, which `data.lowercase` makes {word.lower()!r}: keep that"
                )


def needs_validation(train: Train) -> str | None:
    """Return which key needs validation data, in words; None if none does."""
    if train.average and train.average.best:
        return "`train.average.best` needs `data.valid`: the best checkpoints are those with the best validation scores"
    if train.validation.metric != "loss":
        return f'`train.validation.metric` is "{train.validation.metric}", which needs `data.valid`'
    return None


def _check_warmup(recipe: Tables) -> None:
    warmup, schedule, optimizer = recipe.train.warmup, recipe.train.schedule, recipe.train.optimizer
    if warmup is None:
        return
    if isinstance(schedule, Noam | InverseSqrt):
        raise ValueError(
            f'`train.warmup` is set, but `train.schedule` "{schedule.kind}" has a warm-up of its own: leave '
            '`train.warmup` out, or use schedule "constant", "linear" or "cosine"'
        )
    if schedule.warmup:
        raise ValueError(
            "`train.warmup` and `train.schedule.warmup` are both set, but a run has one warm-up: leave one of them out"
        )
    if isinstance(warmup, UntunedLinearWarmup | UntunedExponentialWarmup) and not hasattr(optimizer, "beta2"):
        raise ValueError(
            f'`train.warmup` "{warmup.kind}" follows from Adam\'s beta2, which `train.optimizer` "{optimizer.kind}" '
            'does not have: use "linear" or "exponential"'
        )
    averages = getattr(optimizer, "momentum", 0) or getattr(optimizer, "beta1", 0)
    if isinstance(warmup, Wait) and not warmup.momentum and not averages:
        raise ValueError(
            "`train.warmup.momentum = false` keeps the mean of gradients at 0, but `train.optimizer` "
            f'"{optimizer.kind}" has none: leave it out'
        )


def _check_adapter(train: Train) -> None:
    """Refuse what does not go with an adapter, beside which nothing else is trained."""
    if train.adapter is None:
        return
    if not train.start_from:
        raise ValueError(
            "`train.adapter` adapts the model of `train.start_from`, which is not set: name a trained model there, or "
            "leave `train.adapter` out"
        )
    other = "freeze" if train.freeze is not None else "layer_decay" if train.layer_decay != 1 else None
    if other is not None:
        raise ValueError(
            f"`train.{other}` is about the weights of `train.start_from`, which all stay as they are with "
            "`train.adapter`: leave one of them out"
        )
    if train.compile is True:
        raise ValueError(
            "`train.compile` is true, but `train.adapter` exchanges weights in each pass, which is not compiled: leave "
            "one of them out"
        )
    if train.instruments is not None:
        raise ValueError(
            "`train.instruments` measures the weights of a model, which stay as they are with `train.adapter`: leave "
            "one of them out"
        )


def _check_extended(recipe: Tables) -> None:
    """Refuse new pieces without a vocabulary to add them to, or whose embeddings would not be trained."""
    if recipe.tokenizer.extend is None:
        return
    if not recipe.train.start_from:
        raise ValueError(
            "`tokenizer.extend` adds pieces to the vocabulary of `train.start_from`, which is not set: leave it out, "
            "or raise `tokenizer.size`"
        )
    if recipe.train.adapter is not None:
        raise ValueError(
            "`tokenizer.extend` adds embeddings, which `train.adapter` would leave as they begin: leave one of them out"
        )


def _check_corpora(recipe: Tables, rules: TaskRules) -> None:
    what = "`task`" if recipe.task is not None else "`model.family`"
    for split in SPLITS:
        for corpus in getattr(recipe.data, split):
            if not rules.takes(corpus):
                learns = [each for each in TASKS.values() if recipe.model.family in each.families]
                fits = [each.name for each in learns if recipe.task is None and each.takes(corpus)]
                or_task = f', or `task = "{fits[0]}"` above all tables' if fits else ""
                raise ValueError(f"`data.{split}` does not fit {what}: {rules.needs}{or_task}")


def _check_metric(recipe: Tables, rules: TaskRules) -> None:
    metric = recipe.train.validation.metric
    if metric in rules.metrics:
        return
    known = {name for other in (*TASKS.values(), rules) for name in other.metrics}
    if metric in known:
        raise ValueError(
            f'`train.validation.metric` is "{metric}", which does not apply to {rules.learner}: use '
            f"{alternatives(rules.metrics)}"
        )
    near = nearest(metric, list(rules.metrics))
    own = "; one of your own is passed in Python, by `metrics=...`"
    meant = f'did you mean "{near}"?' if near else f"use {alternatives(rules.metrics)}{own}"
    raise ValueError(f'`train.validation.metric` is "{metric}", which is not a metric: {meant}')


def carries_state(recipe: Tables) -> bool:
    """Whether a model carries its state over all texts of a corpus: a recurrent one with open borders."""
    decoder = model_of(recipe, LanguageModelTable).decoder
    return isinstance(decoder, RecurrentDecoderTable) and recipe.data.borders == "open"


def check_remedies(recipe: Tables, rules: TaskRules) -> None:
    """Refuse remedies that cannot do what they are for."""
    train, model = recipe.train, recipe.model
    set_ = [key for key in ("r_drop", "distill") if getattr(train, key) is not None]
    if set_ and isinstance(model, TaggerModel) and model.crf:
        raise ValueError(
            f"`train.{set_[0]}` compares the labels of single words, but `model.crf = true` predicts those of a "
            "sentence together: leave one of them out"
        )
    if set_ and isinstance(model, LanguageModelTable) and carries_state(recipe):
        reads = {"r_drop": "reads each batch twice", "distill": "has a teacher that reads single batches"}[set_[0]]
        raise ValueError(
            f"`train.{set_[0]}` {reads}, but a recurrent model with open borders carries its state from batch to "
            'batch: leave it out, or set `data.borders = "closed"`'
        )
    if set_ and train.scheduled_sampling is not None:
        compares = {
            "r_drop": ("two passes over the same tokens", "in each"),
            "distill": ("predictions from the same tokens", "for the model"),
        }[set_[0]]
        raise ValueError(
            f"`train.{set_[0]}` compares {compares[0]}, but `train.scheduled_sampling` draws others {compares[1]}: "
            "leave one of them out"
        )
    if train.r_drop is not None and not any(_dropout(model)):
        raise ValueError(
            "`train.r_drop` compares two passes with different dropout, but the model has none: set `model.dropout`, "
            "or leave it out"
        )
    if train.distill is not None and train.auxiliary:
        raise ValueError("`train.distill` and `train.auxiliary` cannot be combined: leave one of them out")
    scaled = getattr(model, "norm", "") == "tfixup"
    if scaled and train.initialization not in (None, "xavier", "plain_xavier"):
        raise ValueError(
            f'`train.initialization = "{train.initialization}"` contradicts `model.norm = "tfixup"`, whose initial '
            'weights are scaled from "xavier": leave one of them out'
        )
    if train.initialization is not None and train.start_from:
        raise ValueError("`train.initialization` draws weights that `train.start_from` replaces: leave one of them out")
    other = "start_from" if train.start_from else "initialization" if train.initialization else None
    if train.distill is not None and train.distill.start and other is not None:
        raise ValueError(
            f"`train.distill.start` takes the weights of the teacher, but `train.{other}` gives others: leave one of "
            "them out"
        )
    if train.bpe_dropout:
        _check_bpe_dropout(recipe, rules)


def _check_bpe_dropout(recipe: Tables, rules: TaskRules) -> None:
    tokenizer = recipe.tokenizer
    kinds = [tokenizer.kind, *([tokenizer.target.kind] if tokenizer.target else [])]
    if not {"bpe", "byte_bpe"} & set(kinds):
        raise ValueError(
            f'`train.bpe_dropout` leaves out merges, which `tokenizer.kind = "{tokenizer.kind}"` does not have: use '
            '"bpe" or "byte_bpe", or leave it out'
        )
    if isinstance(recipe.model, TextModel) and recipe.model.nested:
        raise ValueError(
            f"`train.bpe_dropout` cuts whole texts anew in every epoch, but a hierarchical {recipe.model.family} reads "
            "sentences that are prepared once: leave it out"
        )
    if not rules.whole_texts:
        raise ValueError(
            "`train.bpe_dropout` applies to translators, parsers, classifiers and regressors of texts, not to "
            f"{rules.learner}: leave it out"
        )


def _dropout(table: Section) -> Iterator[float]:
    """Yield the values of all keys of a table, and of the tables in it, that set dropout."""
    for key in type(table).model_fields:
        value = getattr(table, key)
        if isinstance(value, Section):
            yield from _dropout(value)
        elif "dropout" in key and isinstance(value, int | float):
            yield value
