"""Classifiers, regressors, masked language models and language models whose bundles are golden."""

from collections.abc import Mapping
from typing import Final

from tests.golden.cases.golden import Golden

_TEXTS: Final = """
[data]
train = {{ tsv = "{name}.tsv", label = 1, text = 2{second}, part = "1-7/8" }}
valid = {{ tsv = "{name}.tsv", label = 1, text = 2{second}, part = "0/8" }}
batch_tokens = 256
max_length = 32
"""
_RUNNING: Final = """
[data]
train = { text = "running.txt", part = "1-7/8" }
valid = { text = "running.txt", part = "0/8" }
batch_tokens = 256
max_length = 32
"""
_PHRASES: Final = """
[data]
train = { conll = "phrases.conll", word = 1, label = 2, part = "1-7/8" }
valid = { conll = "phrases.conll", word = 1, label = 2, part = "0/8" }
batch_tokens = 256
max_length = 16
"""
_TAGGED: Final = {"tag": ["the dog sees a small fish today .", "a bird likes the strange songs .", "now the girl"]}
_OPINIONS: Final = ["The film was great. The cast was funny.", "The ending was dull.", "The story was odd, but great!"]
_PAIRS: Final = {
    "classify": ["The soup was fine.", "The lamp was fine."],
    "seconds": ["I ask about the tea.", "I ask about the cook."],
}

_CONTINUED: Final = {
    "generate": ["The dog", "A bird likes the", "The girl hears"],
    "evaluate": ["The dog sees a house. The cat likes the song.", "A bird hears the tree today."],
}

TEXT_MODELS: Final[Mapping[str, Golden]] = {
    "classifier-transformer": Golden(
        _TEXTS.format(name="reviews", second=""),
        """
[tokenizer]
kind = "unigram"
size = 60
[model]
family = "classifier"
encoder = { family = "transformer", width = 8, heads = 2, layers = 1, inner = 16 }
pool = "multi_dimensional"
""",
        {"classify": _OPINIONS, "seconds": None},
        steps=20,
    ),
    "classifier-recurrent-pairs": Golden(
        _TEXTS.format(name="pairs", second=", second = 3"),
        """
[tokenizer]
kind = "wordpiece"
size = 70
[model]
family = "classifier"
encoder = { family = "recurrent", cell = "lstm", width = 8, embedding = 8, layers = 2, dropout = 0.0 }
pool = "attention"
""",
        _PAIRS,
        steps=60,
    ),
    "classifier-parallel-pairs": Golden(
        _TEXTS.format(name="pairs", second=", second = 3"),
        """
[tokenizer]
kind = "word"
[model]
family = "classifier"
encoder = { family = "transformer", width = 8, heads = 2, layers = 1, inner = 16, dropout = 0.0 }
join = "parallel"
pooler = true
""",
        _PAIRS,
        steps=60,
    ),
    "classifier-alternating-pairs": Golden(
        _TEXTS.format(name="pairs", second=", second = 3"),
        """
[tokenizer]
kind = "word"
[model]
family = "classifier"
encoder = { family = "recurrent", width = 6, embedding = 8, dropout = 0.0 }
join = "alternating"
""",
        _PAIRS,
        steps=60,
    ),
    "classifier-attention-pools": Golden(
        _TEXTS.format(name="reviews", second=""),
        """
[tokenizer]
kind = "word"
[model]
family = "classifier"
pool = { alignment = "deep", distribution = "learned_entmax" }
[model.encoder]
family = "hierarchical"
words = { family = "recurrent", width = 6, embedding = 8, dropout = 0.0 }
word_pool = { alignment = "area", distribution = "entmax", alpha = 1.3, area = 2 }
sentences = { width = 6, dropout = 0.0 }
""",
        {"classify": _OPINIONS, "seconds": None},
        steps=60,
    ),
    "classifier-hierarchical": Golden(
        _TEXTS.format(name="reviews", second=""),
        """
[tokenizer]
kind = "word"
[model]
family = "classifier"
[model.encoder]
family = "hierarchical"
words = { family = "recurrent", width = 6, embedding = 8, dropout = 0.0 }
sentences = { width = 6, dropout = 0.0 }
""",
        {"classify": _OPINIONS, "seconds": None},
        steps=30,
    ),
    "classifier-bag": Golden(
        _TEXTS.format(name="reviews", second=""),
        """
[tokenizer]
kind = "byte_bpe"
size = 300
[model]
family = "classifier"
encoder = { family = "bag", width = 8, ngrams = 3, buckets = 200, dropout_words = 0.2 }
""",
        {"classify": _OPINIONS, "seconds": None},
        steps=60,
    ),
    "regressor-bag": Golden(
        _TEXTS.format(name="ratings", second="").replace("label", "number"),
        """
[tokenizer]
kind = "word"
[model]
family = "regressor"
encoder = { family = "bag", width = 8, ngrams = 2, buckets = 200, weighting = "rarity", weights_per_bucket = 2 }
""",
        {"regress": _OPINIONS, "seconds": None},
        steps=20,
    ),
    "regressor-parallel-pairs": Golden(
        _TEXTS.format(name="similarities", second=", second = 3").replace("label", "number"),
        """
[tokenizer]
kind = "word"
[model]
family = "regressor"
encoder = { family = "recurrent", width = 8 }
join = "parallel"
head_hidden = 8
loss = "absolute"
""",
        {"regress": _PAIRS["classify"], "seconds": _PAIRS["seconds"]},
        steps=40,
    ),
    "classifier-bert-several": Golden(
        _TEXTS.format(name="topics", second=""),
        """
[tokenizer]
kind = "char"
[model]
family = "classifier"
encoder = { family = "bert", width = 8, heads = 2, layers = 1, inner = 16, max_positions = 48 }
pool = "mean"
pooler = true
labels = "several"
""",
        {
            "classify": ["We liked the soup and the bed.", "We liked the guide.", "We liked the weather."],
            "seconds": None,
        },
        steps=150,
    ),
    "classifier-gpt-pairs": Golden(
        _TEXTS.format(name="pairs", second=", second = 3"),
        """
[tokenizer]
kind = "byte_bpe"
size = 300
[model]
family = "classifier"
[model.encoder]
family = "language"
[model.encoder.decoder]
family = "transformer"
width = 8
heads = 2
layers = 2
inner = 16
max_positions = 64
dropout = 0.0
dropout_attention = 0.0
""",
        {
            "classify": ["The soup was fine.", "The lamp was fine."],
            "seconds": ["I ask about the tea.", "I ask about the cook."],
        },
        steps=400,
        lr=0.01,
    ),
    "reader": Golden(
        """
[data]
train = { builtin = "reports", part = "train", count = 600, unanswerable = 0.1 }
valid = { builtin = "reports", part = "valid", count = 10, unanswerable = 0.2 }
batch_tokens = 1024
max_length = 80
stride = 24
lowercase = true
""",
        """
[tokenizer]
kind = "byte_bpe"
size = 600
[model]
family = "reader"
no_answer = true
mark_matches = true
encoder = { family = "transformer", width = 16, heads = 2, layers = 2, inner = 32, segments = 3, dropout = 0.0 }
""",
        {
            "questions": ["Who found keys?", "How many keys did Clara Dale find?", "Where did Emil Holm hide cups?"],
            "about": "On Monday, Clara Dale found 17 keys in the cave. 🗝️ It was Emil Holm who hid two cups at the "
            "zoo in June. Nobody was surprised. The café was closed, and the weather was fine. Nothing else happened.",
        },
        steps=500,
        lr=0.01,
    ),
    "bert": Golden(
        _RUNNING,
        """
[tokenizer]
kind = "wordpiece"
size = 80
[model]
family = "bert"
width = 12
heads = 2
layers = 2
inner = 16
max_positions = 32
next_sentence = true
""",
        {
            "fill": ["The dog [MASK] the tree today.", "A [MASK] likes the [MASK]."],
            "seconds": ["The man hears [MASK] song.", "The cat sees a house."],
            "embed": ["The dog sees a small fish.", "A bird"],
        },
        steps=500,
        lr=0.01,
    ),
    "language-transformer": Golden(
        _RUNNING,
        """
[tokenizer]
kind = "byte_bpe"
size = 300
[model]
family = "language"
[model.decoder]
family = "transformer"
width = 8
heads = 2
layers = 2
inner = 16
max_positions = 64
dropout = 0.0
dropout_attention = 0.0
""",
        _CONTINUED,
        steps=300,
        lr=0.02,
    ),
    "language-llama": Golden(
        _RUNNING.replace("max_length", 'borders = "open"\nmax_length'),
        """
[tokenizer]
kind = "char"
[model]
family = "language"
tie = false
output_bias = true
[model.decoder]
family = "transformer"
width = 8
heads = 4
key_value_heads = 2
layers = 1
inner = 16
activation = "swiglu"
norm_kind = "rms"
positions = "rope"
rope_base = 500.0
bias = false
dropout = 0.0
dropout_attention = 0.0
""",
        _CONTINUED,
        steps=300,
        lr=0.02,
    ),
    "language-recurrent": Golden(
        _RUNNING,
        """
[tokenizer]
kind = "word"
[model]
family = "language"
decoder = { family = "recurrent", cell = "lstm", width = 12, layers = 2, dropout = 0.0 }
""",
        _CONTINUED,
        steps=300,
        lr=0.03,
    ),
    "tagger-transformer": Golden(
        _PHRASES,
        """
[tokenizer]
kind = "wordpiece"
size = 60
[model]
family = "tagger"
encoder = { family = "transformer", width = 8, heads = 2, layers = 1, inner = 16 }
""",
        _TAGGED,
        steps=40,
    ),
    "tagger-recurrent-letters-crf": Golden(
        _PHRASES,
        """
[tokenizer]
kind = "word"
[model]
family = "tagger"
encoder = { family = "recurrent", cell = "lstm", width = 6, embedding = 6, dropout = 0.0 }
letters = { family = "convolutional", width = 6, embedding = 2 }
crf = true
""",
        _TAGGED,
        steps=40,
    ),
}
