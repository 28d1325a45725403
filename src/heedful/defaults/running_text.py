"""Defaults of language models, left to right and masked: the less text, the smaller, with weights that decay."""

from collections.abc import Iterator
from typing import Any, Final

from heedful.config.model.encoder_only import BertModel
from heedful.config.model.language import LanguageModelTable
from heedful.config.task_rules import Tables
from heedful.data.corpora.documents import read_running_text
from heedful.data.corpora.pairs import AS_IT_STANDS
from heedful.defaults.facts import Row
from heedful.defaults.rules import Case, Rule, TaskDefaults, shape_is_open

_SHORT: Final = 3_000_000  # characters: a longer text gets a larger network
_LONG: Final = 30_000_000  # characters: from here on, defaults are those of the papers
# Sentences that do not follow are drawn from other documents, of which a part for validation may have only one.
FEW_DOCUMENTS: Final = 20


class RunningCase(Case):
    """A language model."""

    @property
    def masked(self) -> bool:
        """Whether it is a masked one."""
        return isinstance(self.recipe.model, BertModel)

    @property
    def little(self) -> bool:
        """Whether the text is short enough to learn all of it many times."""
        return self.facts.size < _LONG and not self.facts.more

    @property
    def shapeless(self) -> bool:
        """Whether there is little text, and the recipe leaves its shape open."""
        open_shape = shape_is_open(self, "model") if self.masked else not self.sets("model.decoder")
        return self.little and open_shape

    @property
    def short(self) -> bool:
        """Whether a small network is enough."""
        return self.facts.size < _SHORT

    @property
    def tokens(self) -> int:
        """Tokens of an epoch, about."""
        return max(1, self.facts.size // 4)


def _tokenizer_size(case: RunningCase) -> int:
    """Return a number of pieces that each occur some dozens of times."""
    return int(round(min(10_000, max(1000, case.facts.size / 250)), -3))


def _decoder(case: RunningCase) -> dict[str, Any]:
    width = 192 if case.short else 256
    return {
        "family": "transformer",
        "width": width,
        "heads": 4,
        "layers": 3 if case.short else 4,
        "inner": 4 * width,
        "positions": "rope",
        "dropout": 0.2,
        "dropout_words": 0.1,
    }


def _in_pieces(case: RunningCase) -> bool:
    return case.shapeless and "tokenizer" not in case.decided and case.recipe.tokenizer.kind == "byte_bpe"


def _whole_words(case: RunningCase) -> bool:
    """Whether masks stand for pieces of words between spaces, and the recipe does not say which."""
    return case.shapeless and case.masked and case.facts.spaced and not case.sets("tokenizer")


def _updates(case: RunningCase) -> int:
    if case.masked:
        return case.grown(3000, 4096, 250_000, 0.45)
    return case.grown(2400, 2048, 250_000, 0.7)


def _schedule(case: RunningCase) -> dict[str, Any]:
    if case.masked:
        return {"kind": "linear", "lr": 0.004 if case.short else 0.002, "warmup": case.warmup}
    return {"kind": "cosine", "lr": 0.004 if case.short else 0.002, "warmup": case.warmup}


def _decay(case: RunningCase) -> float:
    """Return the decay of weights, which keeps a language model from learning its text by heart."""
    return 0.01 if case.masked else 1.0 if case.short else 0.3


def _of_bert(case: RunningCase) -> bool:
    return case.shapeless and case.masked


def _rows(recipe: Tables) -> Iterator[Row]:
    for corpus in recipe.data.train:
        for document in read_running_text(corpus, recipe.data.folder, AS_IT_STANDS):
            yield Row.of_text(document)


RUNNING_TEXT: Final = TaskDefaults(
    models=(LanguageModelTable, BertModel),
    noun="documents",
    rows=_rows,
    case=RunningCase,
    rules=(
        Rule("tokenizer", _whole_words, lambda case: {"kind": "wordpiece", "size": _tokenizer_size(case)}),
        Rule("tokenizer.size", _in_pieces, _tokenizer_size),
        Rule("model.decoder", lambda case: case.shapeless and not case.masked, _decoder),
        Rule("model.width", _of_bert, lambda case: 128 if case.short else 256),
        Rule("model.heads", _of_bert, lambda case: 4),
        Rule("model.layers", _of_bert, lambda case: 4),
        Rule("model.inner", _of_bert, lambda case: 512 if case.short else 1024),
        Rule("model.norm", _of_bert, lambda case: "pre"),
        Rule("model.positions", _of_bert, lambda case: "rope"),
        Rule(
            "model.next_sentence", lambda case: _of_bert(case) and case.facts.rows < FEW_DOCUMENTS, lambda case: False
        ),
        Rule("data.max_length", _of_bert, lambda case: 128),
        Rule("data.batch_tokens", lambda case: case.shapeless, lambda case: 4096 if case.masked else 2048),
        Rule("train.steps", lambda case: case.little and case.open_ended, _updates),
        Rule(
            "train.optimizer",
            lambda case: case.shapeless,
            lambda case: {"kind": "adamw", "beta2": 0.98, "weight_decay": _decay(case)},
        ),
        Rule("train.clip_norm", lambda case: case.shapeless, lambda case: 1.0),
        Rule("train.schedule", lambda case: case.shapeless, _schedule),
        Rule("train.validation.metric", lambda case: case.shapeless and case.validated, lambda case: "perplexity"),
    ),
)
