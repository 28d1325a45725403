"""Defaults of taggers: a recurrent network over words and their letters."""

from collections.abc import Iterator
from typing import Any, Final

from heedful.config.model.encoder_only import TaggerModel
from heedful.config.task_rules import Tables
from heedful.data.corpora.tagged import read_tagged
from heedful.defaults.facts import Row
from heedful.defaults.rules import Case, Rule, TaskDefaults, power_of_two


class TaggedCase(Case):
    """A tagger."""

    @property
    def shapeless(self) -> bool:
        """Whether the recipe leaves its network open."""
        return not self.sets("model.encoder")

    @property
    def letters(self) -> int:
        """Characters of a token, about: tokens are words."""
        return max(1, round(self.facts.size / max(1, self.facts.spaces)))


def _encoder(case: TaggedCase) -> dict[str, Any]:
    """Return a network whose words are often dropped, so that it learns to go by letters and neighbours."""
    return {
        "family": "recurrent",
        "cell": "lstm",
        "width": 256,
        "layers": 1 if case.little else 2,
        "dropout": 0.4,
        "dropout_words": 0.4 if case.facts.rows < 3000 else 0.25,
    }


def _batch(case: TaggedCase) -> int:
    return max(int(case.value("data.max_length")) + 1, power_of_two(case.tokens / 50, 1024, 4096))


def _rows(recipe: Tables) -> Iterator[Row]:
    for corpus in recipe.data.train:
        for text in read_tagged(corpus, recipe.data.folder):
            yield Row(sum(map(len, text.words)) + len(text.words), len(text.words), text.labels)


TAGGED: Final = TaskDefaults(
    models=(TaggerModel,),
    noun="sentences",
    rows=_rows,
    case=TaggedCase,
    rules=(
        Rule("tokenizer", lambda case: case.shapeless, lambda case: {"kind": "word", "size": 50000}),
        Rule("model.encoder", lambda case: case.shapeless, _encoder),
        Rule(
            "model.letters",
            lambda case: "model.encoder" in case.decided,
            lambda case: {"family": "convolutional", "width": 256, "embedding": 64},
        ),
        Rule("data.lowercase", lambda case: case.shapeless, lambda case: True),  # letters still have capitals
        Rule("model.dropout", lambda case: case.shapeless, lambda case: 0.3),
        Rule("data.batch_tokens", lambda case: case.shapeless, _batch),
        Rule("train.steps", lambda case: case.open_ended, lambda case: case.grown(1000, 1024, 11_000, 0.7)),
        Rule("train.optimizer", lambda case: case.shapeless, lambda case: {"kind": "adamw", "weight_decay": 0.1}),
        Rule("train.clip_norm", lambda case: case.shapeless, lambda case: 1.0),
        Rule(
            "train.schedule",
            lambda case: case.shapeless,
            lambda case: {"kind": "cosine", "lr": 0.004, "warmup": case.warmup},
        ),
        Rule(
            "train.label_smoothing",
            lambda case: case.shapeless and not case.sets("model.crf"),  # a CRF has no smoothing
            lambda case: 0.1,
        ),
        Rule("train.validation.metric", lambda case: case.shapeless and case.validated, lambda case: "accuracy"),
    ),
)
