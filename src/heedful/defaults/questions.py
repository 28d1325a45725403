"""Defaults of readers: a small Transformer that is told which tokens of the text the question has too."""

from collections.abc import Iterator
from typing import Any, Final

from heedful.config.model.encoder_only import ReaderModel
from heedful.config.task_rules import Tables
from heedful.data.corpora.questions import read_questions
from heedful.defaults.facts import Row
from heedful.defaults.rules import Case, Rule, TaskDefaults, power_of_two


class QuestionCase(Case):
    """A reader."""

    @property
    def shapeless(self) -> bool:
        """Whether the recipe leaves its network open."""
        return not self.sets("model.encoder")


def _encoder(case: QuestionCase) -> dict[str, Any]:
    return {
        "family": "transformer",
        "width": 128,
        "heads": 8,
        "layers": 3 if case.little else 6,
        "inner": 256 if case.little else 512,
        "norm": "pre",
        "positions": "rope",
        "segments": 3,
        "dropout": 0.2,
        "dropout_words": 0.1,
    }


def _tokenizer(case: QuestionCase) -> dict[str, Any]:
    """Return whole words, as far as there are few of them; texts without spaces are read letter by letter."""
    return {"kind": "wordpiece", "size": 4000 if case.little else 16000} if case.facts.spaced else {"kind": "char"}


def _batch(case: QuestionCase) -> int:
    return max(int(case.value("data.max_length")) + 1, power_of_two(case.tokens / 40, 1024, 4096))


def _rows(recipe: Tables) -> Iterator[Row]:
    for corpus in recipe.data.train:
        for asked in read_questions(corpus, recipe.data.folder):
            yield Row.of_text(f"{asked.question} {asked.text}")


QUESTIONS: Final = TaskDefaults(
    models=(ReaderModel,),
    noun="questions",
    rows=_rows,
    case=QuestionCase,
    rules=(
        Rule("tokenizer", lambda case: case.shapeless, _tokenizer),
        Rule("model.encoder", lambda case: case.shapeless, _encoder),
        Rule("model.mark_matches", lambda case: "model.encoder" in case.decided, lambda case: True),
        Rule("model.dropout", lambda case: case.shapeless, lambda case: 0.3 if case.little else 0.1),
        Rule("data.batch_tokens", lambda case: case.shapeless, _batch),
        Rule("train.steps", lambda case: case.open_ended, lambda case: case.grown(2000, 1024, 10_000, 0.45)),
        Rule("train.optimizer", lambda case: case.shapeless, lambda case: {"kind": "adamw", "weight_decay": 0.3}),
        Rule("train.clip_norm", lambda case: case.shapeless, lambda case: 1.0),
        Rule(
            "train.schedule",
            lambda case: case.shapeless,
            lambda case: {"kind": "cosine", "lr": 0.002 if case.little else 0.001, "warmup": case.warmup},
        ),
        Rule("train.validation.metric", lambda case: case.shapeless and case.validated, lambda case: "f1"),
    ),
)
