"""Defaults of translators: few pairs get a small network whose weights decay, and few pieces."""

from collections.abc import Iterator
from typing import Any, Final

from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.task_rules import Tables
from heedful.data.corpora.pairs import read_pairs
from heedful.defaults.facts import Row
from heedful.defaults.rules import Case, Rule, TaskDefaults, shape_is_open

_CLOSED: Final = 200  # different words: translations with fewer are sequences of symbols, such as phonemes
_UPDATES: Final = 8  # in an epoch, about
_LEARNED: Final = 5_000_000  # tokens that a translator of few pairs reads, within these epochs
_LEAST_EPOCHS, _MOST_EPOCHS = 100, 250
_DECAYED: Final = 3000  # pairs: with more, weights decay less


class PairCase(Case):
    """A translator."""

    @property
    def transformer(self) -> bool:
        """Whether few pairs are translated by a Transformer."""
        return self.little and isinstance(self.recipe.model, TransformerModel)

    @property
    def shapeless(self) -> bool:
        """Whether the recipe leaves its shape open."""
        return self.transformer and shape_is_open(self, "model")

    @property
    def reads_letters(self) -> bool:
        """Whether sources are read letter by letter: single words, or few short texts without spaces."""
        one_matrix = self.sets("model.tie") and self.value("model.tie") == "all"  # letters and pieces have two
        return self.little and not self.facts.spaced and not self.sets("tokenizer") and not one_matrix

    @property
    def symbols(self) -> bool:
        """Whether letters become a sequence of symbols, such as phonemes, of which there are few."""
        return self.reads_letters and self.facts.classes <= _CLOSED

    @property
    def letters(self) -> int:
        """Characters of a token, about."""
        return 1 if self.reads_letters else super().letters

    @property
    def small(self) -> bool:
        """Whether its shape was decided."""
        return "model.width" in self.decided

    @property
    def outputs_scored(self) -> bool:
        """Whether the metric of validations was decided."""
        return "train.validation.metric" in self.decided


def _trains_pieces(case: PairCase) -> bool:
    pieces = case.recipe.tokenizer.kind in ("byte_bpe", "bpe", "unigram")
    return case.little and pieces and "tokenizer" not in case.decided


def _letters(case: PairCase) -> dict[str, Any]:
    """Return letters for the source; for the target symbols, if there are few, or pieces."""
    target: dict[str, Any] = {"kind": "word"} if case.symbols else {"kind": "byte_bpe", "size": _vocabulary(case)}
    return {"kind": "char", "target": target}


def _vocabulary(case: PairCase) -> int:
    """Return a number of pieces with which most words of few pairs are whole: shorter pieces are learned worse."""
    whole = min(4000, max(1000, 2 * case.facts.rows))
    return int(round(max(whole, 0.3 * case.facts.rows), -2))


def _updates(case: PairCase) -> int:
    epochs = min(_MOST_EPOCHS, max(_LEAST_EPOCHS, _LEARNED / max(1, case.tokens)))
    return min(8000, max(1500, case.updates(epochs)))


def _optimizer(case: PairCase) -> dict[str, Any]:
    """Return AdamW with a weight decay that is the stronger the fewer pairs there are."""
    most = 1.0 if case.transformer else 0.5
    return {"kind": "adamw", "weight_decay": round(most * min(1.0, _DECAYED / max(1, case.facts.rows)), 2)}


def _schedule(case: PairCase) -> dict[str, Any]:
    return {"kind": "cosine", "lr": 0.003 if case.transformer else 0.002, "warmup": case.warmup}


def _scores_outputs(case: PairCase) -> bool:
    """Whether translations can choose the best model: with few pairs, the loss rises while they still improve."""
    return case.little and case.validated


def _rows(recipe: Tables) -> Iterator[Row]:
    for corpus in recipe.data.train:
        for source, target in read_pairs(corpus, recipe.data.folder):
            yield Row.of_text(source, target.split())


PAIRS: Final = TaskDefaults(
    models=(TransformerModel, RecurrentModel),
    noun="pairs",
    rows=_rows,
    case=PairCase,
    rules=(
        Rule("tokenizer", lambda case: case.reads_letters, _letters),
        Rule("tokenizer.size", _trains_pieces, _vocabulary),
        Rule("model.width", lambda case: case.shapeless, lambda case: 128),
        Rule("model.heads", lambda case: case.small, lambda case: 4),
        Rule("model.layers", lambda case: case.small, lambda case: 4),
        Rule("model.inner", lambda case: case.small, lambda case: 256),
        Rule("model.norm", lambda case: case.transformer, lambda case: "pre"),
        Rule("model.dropout", lambda case: case.little, lambda case: 0.4 if case.facts.rows < 15000 else 0.3),
        Rule("data.batch_tokens", lambda case: case.little, lambda case: case.batch(_UPDATES)),
        Rule("train.steps", lambda case: case.little and case.open_ended, _updates),
        Rule("train.optimizer", lambda case: case.little, _optimizer),
        Rule("train.clip_norm", lambda case: case.little, lambda case: 1.0),
        Rule("train.schedule", lambda case: case.little, _schedule),
        Rule("train.validation.metric", _scores_outputs, lambda case: "per" if case.symbols else "chrf"),
        Rule("train.validation.max_sentences", lambda case: case.outputs_scored, lambda case: 300),
    ),
)
