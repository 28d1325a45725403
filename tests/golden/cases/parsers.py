"""Parsers whose bundles are golden."""

from collections.abc import Mapping
from typing import Final

from tests.golden.cases.golden import Golden

PARSERS: Final[Mapping[str, Golden]] = {
    "parser": Golden(
        """
task = "parse"
[data]
train = { trees = "sentences.trees", leaves = "tag", lines = "1-150" }
valid = { trees = "sentences.trees", leaves = "tag", lines = "151-180" }
batch_tokens = 256
""",
        """
[tokenizer]
kind = "bpe"
size = 80
target = { kind = "word" }
[model]
family = "transformer"
width = 12
heads = 2
layers = 1
inner = 24
dropout = 0.0
[decode]
max_extra = 30
""",
        {"parse": ["the dog sees a small fish today", "a bird ( the girl ) sings", "", "now"]},
        steps=200,
        lr=0.02,
    )
}
