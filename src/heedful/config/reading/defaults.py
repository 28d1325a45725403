"""Defaults that follow the run: keys that a recipe does not set, from its task, its corpus and its length.

A recipe that sets `train.schedule` is left as it is, but for a warm-up that would outlast the run. Otherwise `RULES` is
read from top to bottom: the first row of a key whose condition holds decides it, unless the recipe sets the key. Values
may depend on those that rows above have decided.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from heedful.config.corpora.texts import RowTexts
from heedful.config.model.classifier import ClassifierModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TRANSFORMER_PRESETS, TransformerModel
from heedful.config.tables import Tables
from heedful.config.train.schedules import InverseSqrt, Noam

LITTLE: Final = 20_000  # texts, or pairs: below it, defaults are those of little data
_PAPER: Final = 4000  # warm-up updates of the default schedule
_LETTERS: Final = 4  # characters of a token, about
_SHAPE: Final = ("preset", "width", "heads", "layers", "inner")
_UPDATES: Final = 8  # in an epoch of few pairs, about
_LEARNED: Final = 5_000_000  # tokens that a translator of few pairs reads, within these epochs
_LEAST_EPOCHS, _MOST_EPOCHS = 100, 250
_DECAYED: Final = 3000  # pairs: with more, a translator's weights decay less
_LONGEST_WORDS: Final = 12  # characters per space: with more, texts are single words, or written without spaces


@dataclass(frozen=True)
class CorpusFacts:
    """What defaults need to know about the training corpora."""

    rows: int  # texts or pairs
    characters: int  # of all of them; of pairs, of the sources
    classes: int = 0
    spaces: int = 0  # between words of texts
    more: bool = False  # whether there are more rows, which were not counted

    @property
    def words(self) -> str:
        """The size of the corpus in words, without its noun."""
        return f"{self.rows:,}{' or more' if self.more else ''}"


@dataclass
class _Case:
    """A recipe, its corpus, and what was decided so far."""

    recipe: Tables
    facts: CorpusFacts
    decided: dict[str, Any] = field(default_factory=dict)

    def sets(self, path: str) -> bool:
        """Whether the recipe sets a key."""
        return is_set(self.recipe, path)

    def value(self, path: str) -> Any:
        """Return the value of a key: what was decided, or what the recipe has."""
        if path in self.decided:
            return self.decided[path]
        table: Any = self.recipe
        for key in path.split("."):
            table = getattr(table, key)
        return table

    @property
    def little(self) -> bool:
        return self.facts.rows < LITTLE and not self.facts.more

    @property
    def classifies(self) -> bool:
        return isinstance(self.recipe.model, ClassifierModel)

    @property
    def bag(self) -> bool:
        """Whether a bag of n-grams was chosen."""
        return "model.encoder" in self.decided

    @property
    def encoder(self) -> str:
        model = self.recipe.model
        return model.encoder.family if isinstance(model, ClassifierModel) else ""

    @property
    def translates(self) -> bool:
        return isinstance(self.recipe.model, TransformerModel | RecurrentModel)

    @property
    def shapeless(self) -> bool:
        """Whether a Transformer that translates has no shape of its own."""
        return isinstance(self.recipe.model, TransformerModel) and not any(self.sets(f"model.{key}") for key in _SHAPE)

    @property
    def tokens(self) -> int:
        """Tokens of an epoch, about: texts are cut, and have markers."""
        mean = self.facts.characters / max(1, self.facts.rows) / (1 if _reads_letters(self) else _LETTERS) + 2
        return int(self.facts.rows * min(mean, self.value("data.max_length")))

    def updates(self, epochs: float) -> int:
        """Return the updates of some epochs, to two digits."""
        count = max(1, round(epochs * self.tokens / self.value("data.batch_tokens")))
        digits = max(0, len(str(count)) - 2)
        return int(round(count, -digits))

    @property
    def steps(self) -> int:
        """Updates of the run; about, where the recipe sets its epochs."""
        epochs = self.recipe.train.epochs
        return int(self.value("train.steps")) if epochs is None else self.updates(epochs)


@dataclass(frozen=True)
class Rule:
    """A key, when it is decided here, and its value."""

    key: str
    when: Callable[[_Case], bool]
    value: Callable[[_Case], Any]


def _bag(case: _Case) -> bool:
    """Whether a bag of n-grams is chosen: little data, single texts, and nothing is said about the network."""
    pairs = any(isinstance(corpus, RowTexts) and corpus.second is not None for corpus in case.recipe.data.train)
    stated = any(case.sets(f"model.{key}") for key in ("encoder", "pool", "join", "pooler", "head_hidden"))
    return case.classifies and case.little and not pairs and not stated


def _spaced(case: _Case) -> bool:
    """Whether texts have spaces between words, so that a word is the same piece wherever it stands."""
    return case.facts.spaces * _LONGEST_WORDS >= case.facts.characters


def _reads_letters(case: _Case) -> bool:
    """Whether the tokens of a bag are single characters: those of texts without spaces between words."""
    return _bag(case) and not _spaced(case) and not case.recipe.train.bpe_dropout and not case.sets("tokenizer")


def _whole_words(case: _Case) -> bool:
    """Whether the tokens of a bag are whole words, which have no merges that BPE-dropout could leave out."""
    return case.bag and _spaced(case) and not case.recipe.train.bpe_dropout


def _power_of_two(value: float, least: int, most: int) -> int:
    return min(most, max(least, 1 << max(0, int(value)).bit_length() - 1 if value >= 1 else least))


def _batch(case: _Case, updates: int) -> int:
    """Return the tokens of a batch, of which an epoch has about `updates`; the longest text fits into it."""
    return max(int(case.value("data.max_length")) + 1, _power_of_two(case.tokens / updates, 512, 4096))


def _length_is_open(case: _Case) -> bool:
    return not case.sets("train.epochs") and (case.classifies or case.translates)


def _little_network(case: _Case) -> bool:
    return case.classifies and not case.bag and case.little


def _little_stack(case: _Case) -> bool:
    return _little_network(case) and case.encoder in ("transformer", "recurrent")


def _little_translator(case: _Case) -> bool:
    return case.translates and case.little


def _small_vocabulary(case: _Case) -> int:
    """Return a number of pieces with which most words of few pairs are whole: shorter pieces are learned worse."""
    whole = min(4000, max(1000, 2 * case.facts.rows))
    return int(round(max(whole, 0.3 * case.facts.rows), -2))


def _translator_updates(case: _Case) -> int:
    epochs = min(_MOST_EPOCHS, max(_LEAST_EPOCHS, _LEARNED / max(1, case.tokens)))
    return min(8000, max(1500, case.updates(epochs)))


def _translator_optimizer(case: _Case) -> dict[str, Any]:
    """Return AdamW with a weight decay that is the stronger the fewer pairs there are."""
    most = 1.0 if isinstance(case.recipe.model, TransformerModel) else 0.5
    return {"kind": "adamw", "weight_decay": round(most * min(1.0, _DECAYED / max(1, case.facts.rows)), 2)}


def _scores_outputs(case: _Case) -> bool:
    """Whether translations can choose the best model: with few pairs, the loss rises while they still improve."""
    return _little_translator(case) and bool(case.recipe.data.valid)


def _noam(case: _Case) -> dict[str, Any]:
    """Return the paper's schedule with a warm-up of a tenth of the run, and the peak that it would have otherwise."""
    warmup = min(_PAPER, max(1, case.steps // 10))
    return {"kind": "noam", "warmup": warmup, "factor": round((warmup / _PAPER) ** 0.5, 4)}


def _warmup(case: _Case) -> int:
    return min(_PAPER, max(1, case.steps // 10))


RULES: Final[Sequence[Rule]] = (
    # a classifier of few texts
    Rule("data.max_length", _bag, lambda case: 1024),
    Rule(
        "model.encoder",
        _bag,
        lambda case: {
            "family": "bag",
            "width": max(8, case.facts.classes),
            "ngrams": 3 if _reads_letters(case) else 2,
            "buckets": 4 * _power_of_two(case.tokens, 1024, 2**17),
            "weighting": "rarity",
            "weights_per_bucket": 8,
            "dropout_words": 0.2,
        },
    ),
    Rule("data.lowercase", lambda case: case.bag or _little_network(case), lambda case: True),
    Rule(
        "tokenizer",
        _whole_words,
        lambda case: {"kind": "wordpiece", "size": 30000},
    ),
    Rule("tokenizer", _reads_letters, lambda case: {"kind": "char"}),
    Rule(
        "tokenizer.size",
        lambda case: case.bag and "tokenizer" not in case.decided and case.recipe.tokenizer.kind == "byte_bpe",
        lambda case: 16000 if _spaced(case) else 2000,
    ),
    Rule(
        "data.batch_tokens",
        lambda case: case.bag or _little_network(case),
        lambda case: _batch(case, updates=100),
    ),
    Rule("train.steps", lambda case: case.bag and _length_is_open(case), lambda case: max(20, case.updates(2))),
    Rule("train.steps", lambda case: _little_network(case) and _length_is_open(case), lambda case: case.updates(20)),
    Rule(
        "train.schedule",
        lambda case: case.bag,
        lambda case: {"kind": "linear", "lr": _two_digits(min(0.001, 0.13 / case.steps)), "warmup": 0},
    ),
    Rule("model.pool", lambda case: _little_network(case) and case.encoder == "transformer", lambda case: "attention"),
    Rule("model.dropout", _little_network, lambda case: 0.5),
    Rule("model.encoder.dropout", _little_stack, lambda case: 0.3),
    Rule("model.encoder.dropout_words", _little_stack, lambda case: 0.3),
    Rule(
        "model.encoder.norm", lambda case: _little_network(case) and case.encoder == "transformer", lambda case: "pre"
    ),
    Rule("train.label_smoothing", _little_network, lambda case: 0.1),
    Rule(
        "train.optimizer",
        lambda case: _little_network(case) or case.bag,
        lambda case: {"kind": "adamw", "weight_decay": 0.0 if case.bag else 0.1},
    ),
    Rule(
        "train.schedule",
        _little_network,
        lambda case: {
            "kind": "cosine",
            "lr": 0.002 if case.encoder in ("recurrent", "hierarchical", "bag") else 0.0005,
            "warmup": _warmup(case),
        },
    ),
    Rule("train.clip_norm", _little_network, lambda case: 1.0),
    # a translator of few pairs
    Rule(
        "tokenizer.size",
        lambda case: _little_translator(case) and case.recipe.tokenizer.kind in ("byte_bpe", "bpe", "unigram"),
        _small_vocabulary,
    ),
    Rule("model.width", lambda case: _little_translator(case) and case.shapeless, lambda case: 128),
    Rule("model.heads", lambda case: "model.width" in case.decided, lambda case: 4),
    Rule("model.layers", lambda case: "model.width" in case.decided, lambda case: 4),
    Rule("model.inner", lambda case: "model.width" in case.decided, lambda case: 256),
    Rule(
        "model.norm",
        lambda case: _little_translator(case) and isinstance(case.recipe.model, TransformerModel),
        lambda case: "pre",
    ),
    Rule("model.dropout", _little_translator, lambda case: 0.4 if case.facts.rows < 15000 else 0.3),
    Rule("data.batch_tokens", _little_translator, lambda case: _batch(case, _UPDATES)),
    Rule(
        "train.steps",
        lambda case: _little_translator(case) and _length_is_open(case),
        _translator_updates,
    ),
    Rule("train.optimizer", _little_translator, _translator_optimizer),
    Rule("train.clip_norm", _little_translator, lambda case: 1.0),
    Rule(
        "train.schedule",
        lambda case: _little_translator(case) and isinstance(case.recipe.model, TransformerModel),
        lambda case: {"kind": "cosine", "lr": 0.003, "warmup": _warmup(case)},
    ),
    Rule(
        "train.schedule",
        _little_translator,
        lambda case: {"kind": "cosine", "lr": 0.002, "warmup": _warmup(case)},
    ),
    Rule("train.validation.metric", _scores_outputs, lambda case: "chrf"),
    Rule("train.validation.max_sentences", lambda case: "train.validation.metric" in case.decided, lambda case: 300),
    # every run
    Rule("train.validation.every", lambda case: "train.steps" in case.decided, lambda case: max(1, case.steps // 10)),
    Rule("train.schedule", lambda case: not case.sets("train.epochs") and case.steps < 10 * _PAPER, _noam),
)


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def is_set(recipe: Tables, path: str) -> bool:
    """Whether a recipe sets a key; the dropout of a preset is not set."""
    table: Any = recipe
    for key in path.split("."):
        if key not in getattr(table, "model_fields_set", ()):
            return False
        preset = TRANSFORMER_PRESETS.get(getattr(table, "preset", None) or "", {})
        if key == "dropout" and preset.get(key) == table.dropout:
            return False
        table = getattr(table, key)
    return True


def follows_the_run(recipe: Tables) -> bool:
    """Whether keys of a recipe are open that follow its run: it sets no schedule, and takes nothing from a model."""
    train = recipe.train
    return not train.start_from and train.distill is None and "schedule" not in train.model_fields_set


def counts_rows(recipe: Tables) -> bool:
    """Whether those keys depend on the size of the corpus."""
    return follows_the_run(recipe) and isinstance(recipe.model, ClassifierModel | TransformerModel | RecurrentModel)


def decide(recipe: Tables, facts: CorpusFacts | None) -> Mapping[str, Any]:
    """Return the values of the keys that follow the run; without facts, of those that do not depend on the corpus."""
    if not follows_the_run(recipe):
        return _shorter_warmup(recipe)
    case = _Case(recipe, facts or CorpusFacts(LITTLE, 0, more=True))
    for rule in RULES:
        if rule.key not in case.decided and not case.sets(rule.key) and rule.when(case):
            case.decided[rule.key] = rule.value(case)
    return case.decided


def _shorter_warmup(recipe: Tables) -> dict[str, Any]:
    """Shorten the default warm-up of a schedule that the recipe sets, if it takes most of the run."""
    train = recipe.train
    schedule = train.schedule
    if train.start_from or train.epochs is not None or "warmup" in schedule.model_fields_set:
        return {}
    if not isinstance(schedule, Noam | InverseSqrt) or 2 * schedule.warmup < train.steps:
        return {}
    warmup = max(1, train.steps // 10)
    if isinstance(schedule, InverseSqrt):
        return {"train.schedule.warmup": warmup}
    factor = round(schedule.factor * (warmup / schedule.warmup) ** 0.5, 4)
    return {"train.schedule.warmup": warmup, "train.schedule.factor": factor}
