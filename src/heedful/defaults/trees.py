"""Defaults of parsers: short pieces, and a Transformer that knows which word comes next, whose weights decay."""

from collections.abc import Iterator
from typing import Any, Final

from heedful.config.corpora.containers import Trees
from heedful.config.model.transformer import TransformerModel
from heedful.config.task_rules import Tables
from heedful.data.corpora.trees import read_trees, tree_pair
from heedful.defaults.facts import Row
from heedful.defaults.rules import Case, Rule, TaskDefaults, shape_is_open

_FEW: Final = 4000  # trees: more of them get a wider network
_LONGEST: Final = 320  # tokens of a tree: few sentences have more


class TreeCase(Case):
    """A parser."""

    @property
    def shapeless(self) -> bool:
        """Whether the recipe leaves its shape open."""
        return isinstance(self.recipe.model, TransformerModel) and shape_is_open(self, "model")

    @property
    def few(self) -> bool:
        """Whether there are few trees."""
        return self.facts.rows < _FEW

    @property
    def tokens(self) -> int:
        """Tokens of an epoch, about: brackets and words of the trees."""
        return self.facts.written


def _tokenizer(case: TreeCase) -> dict[str, Any]:
    kind = {"kind": "bpe", "size": 1000 if case.few else 3000} if case.facts.spaced else {"kind": "char"}
    return {**kind, "target": {"kind": "word"}}


def _optimizer(case: TreeCase) -> dict[str, Any]:
    return {"kind": "adamw", "weight_decay": 1.0 if case.few else 0.1}


def _schedule(case: TreeCase) -> dict[str, Any]:
    return {"kind": "cosine", "lr": 0.003 if case.few else 0.0015, "warmup": case.warmup}


def _rows(recipe: Tables) -> Iterator[Row]:
    for corpus in recipe.data.train:
        assert isinstance(corpus, Trees), "a parser reads trees"
        for tree in read_trees(corpus, recipe.data.folder):
            if tree is not None:
                words, brackets = tree_pair(tree, corpus.leaves)
                yield Row(len(words), len(tree.words), written=brackets.count(" ") + 2)


TREES: Final = TaskDefaults(
    models=(TransformerModel,),
    noun="trees",
    rows=_rows,
    case=TreeCase,
    rules=(
        Rule("data.max_length", lambda case: case.shapeless, lambda case: _LONGEST),
        Rule("tokenizer", lambda case: case.shapeless, _tokenizer),
        Rule("model.width", lambda case: case.shapeless, lambda case: 128 if case.few else 256),
        Rule("model.heads", lambda case: case.shapeless, lambda case: 4),
        Rule("model.layers", lambda case: case.shapeless, lambda case: 4),
        Rule("model.inner", lambda case: case.shapeless, lambda case: 256 if case.few else 1024),
        Rule("model.norm", lambda case: case.shapeless, lambda case: "pre"),
        Rule("model.positions", lambda case: case.shapeless, lambda case: "rope"),
        Rule("model.word_positions", lambda case: case.shapeless, lambda case: True),
        Rule("model.dropout", lambda case: case.shapeless, lambda case: 0.3 if case.few else 0.25),
        Rule("model.dropout_words", lambda case: case.shapeless, lambda case: 0.1),
        Rule("train.steps", lambda case: case.open_ended, lambda case: case.grown(2500, 4096, 40_000, 0.45)),
        Rule("train.optimizer", lambda case: case.shapeless, _optimizer),
        Rule("train.clip_norm", lambda case: case.shapeless, lambda case: 1.0),
        Rule("train.schedule", lambda case: case.shapeless, _schedule),
        Rule("train.validation.metric", lambda case: case.shapeless and case.validated, lambda case: "f1"),
        Rule("train.validation.max_sentences", lambda case: case.shapeless and case.validated, lambda case: 200),
        Rule("decode.max_extra", lambda case: case.shapeless, lambda case: 300),
    ),
)
