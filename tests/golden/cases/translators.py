"""Translators whose bundles are golden."""

from collections.abc import Mapping
from typing import Final

from tests.golden.cases.golden import Golden

_PAIRS: Final = """
[data]
train = { source = "train.en", target = "train.de" }
valid = { source = "valid.en", target = "valid.de" }
batch_tokens = 256
max_length = 80
[decode]
max_extra = 12
"""
_LANGUAGES: Final = """
[data]
train = [
  { name = "German", source = "train.en", target = "train.de", to = "de" },
  { name = "Spanish", source = "train.en", target = "train.es", to = "es" },
]
valid = { source = "valid.en", target = "valid.es", to = "es" }
batch_tokens = 256
max_length = 40
[decode]
max_extra = 12
"""
_SOURCES: Final = ["the dog sees the tree today.", "a bird likes a small fish.", "the girl hears the man?"]
_TARGETS: Final = ["der Hund sieht den Baum heute.", "ein Vogel mag ein Haus.", "das Mädchen hört."]
_TO_GERMAN: Final = {"sources": _SOURCES, "targets": _TARGETS, "to": None, "aligned": True}

TRANSLATORS: Final[Mapping[str, Golden]] = {
    "transformer": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "byte_bpe"
size = 300
[model]
family = "transformer"
width = 8
heads = 2
layers = 2
inner = 16
""",
        _TO_GERMAN,
        steps=500,
        lr=0.01,
    ),
    "transformer-pre-norm-rope-separate": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "wordpiece"
size = 90
joint = false
[model]
family = "transformer"
width = 8
heads = 2
layers = 1
decoder_layers = 2
inner = 16
norm = "pre"
positions = "rope"
activation = "swiglu"
tie = "none"
output_bias = true
""",
        _TO_GERMAN,
    ),
    "transformer-relative-silu": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "unigram"
size = 80
joint = false
[model]
family = "transformer"
width = 8
heads = 2
layers = 1
inner = 16
norm = "pre"
final_norm = false
positions = "relative"
max_distance = 4
activation = "silu"
tie = "decoder"
embedding_scale = false
embedding_norm = true
""",
        _TO_GERMAN,
        steps=400,
        lr=0.01,
    ),
    "transformer-languages": Golden(
        _LANGUAGES,
        """
[tokenizer]
kind = "bpe"
size = 110
[model]
family = "transformer"
width = 8
heads = 4
layers = 1
inner = 16
positions = "learned"
max_positions = 48
activation = "gelu"
""",
        {
            "sources": [_SOURCES[0], _SOURCES[0], _SOURCES[1]],
            "targets": [_TARGETS[0], "el perro ve el árbol hoy.", "un pájaro quiere una casa."],
            "to": ["de", "es", "es"],
            "aligned": True,
        },
        steps=400,
        lr=0.01,
    ),
    "transformer-additive-entmax": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "word"
[model]
family = "transformer"
width = 8
heads = 2
layers = 1
inner = 16
positions = "sinusoidal_halves"
alignment = "additive"
distribution = "entmax"
alpha = 1.3
embeddings = 2
""",
        _TO_GERMAN,
    ),
    "transformer-kernel": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "word"
[model]
family = "transformer"
width = 8
heads = 2
layers = 1
inner = 16
alignment = "kernel"
features = 16
""",
        _TO_GERMAN,
    ),
    "transformer-alibi-sparsemax": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "word"
[model]
family = "transformer"
width = 8
heads = 2
layers = 1
inner = 16
norm = "pre"
positions = "alibi"
alignment = "general"
distribution = "sparsemax"
""",
        _TO_GERMAN,
    ),
    "recurrent-sutskever": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "word"
joint = false
[model]
family = "recurrent"
wiring = "sutskever"
cell = "lstm"
width = 8
layers = 2
bidirectional = false
reverse_source = true
dropout = 0.0
""",
        _TO_GERMAN | {"aligned": False},
    ),
    "recurrent-cho": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "word"
[model]
family = "recurrent"
wiring = "cho"
width = 8
embedding = 6
dropout = 0.0
""",
        _TO_GERMAN | {"aligned": False},
    ),
    "recurrent-bahdanau": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "char"
[model]
family = "recurrent"
wiring = "bahdanau"
cell = "gru"
width = 8
encoder_width = 6
embedding = 6
dropout = 0.0
""",
        _TO_GERMAN,
        steps=120,
    ),
    "recurrent-luong-local": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "bpe"
size = 90
[model]
family = "recurrent"
wiring = "luong"
cell = "lstm"
width = 8
encoder_width = 4
window = "predicted"
half_width = 2
input_feeding = true
tie = "all"
dropout = 0.0
""",
        _TO_GERMAN,
    ),
    "mixed": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "wordpiece"
size = 90
[model]
family = "mixed"
encoder = { family = "transformer", width = 8, heads = 2, layers = 1, inner = 16, dropout = 0.0 }
decoder = { family = "recurrent", wiring = "luong", cell = "gru", width = 8, embedding = 6, dropout = 0.0 }
""",
        _TO_GERMAN,
    ),
}
