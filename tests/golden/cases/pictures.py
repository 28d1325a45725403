"""Models of pictures whose bundles are golden."""

from collections.abc import Mapping
from typing import Final

from tests.golden.cases.golden import Golden

_DATA: Final = """
[data]
train = { builtin = "scenes", label = "number", count = 60 }
valid = { builtin = "scenes", label = "number", part = "valid", count = 20 }
batch_tokens = 340
"""
_ASKED: Final = {"pictures": [[64, 64], [64, 64], [40, 72], [17, 33]]}  # heights and widths

_CAPTIONED: Final = """
[data]
train = { builtin = "scenes", count = 60 }
valid = { builtin = "scenes", part = "valid", count = 20 }
batch_tokens = 340

[tokenizer]
kind = "word"
"""
_COUNTED: Final = _DATA.replace(' label = "number",', "")
_QUESTIONS: Final = """
[data]
train = { builtin = "scenes", questions = 4, count = 40 }
valid = { builtin = "scenes", questions = 4, part = "valid", count = 10 }
batch_tokens = 600
max_length = 20

[tokenizer]
kind = "word"
"""
_ABOUT: Final = {
    **_ASKED,
    "about_pictures": [
        "how many things are there ?",
        "what colour is the star ?",
        "is there a red circle ?",
        "what size is the blue cross ?",
    ],
}

PICTURES: Final[Mapping[str, Golden]] = {
    "images-vit": Golden(
        _DATA,
        """
[model]
family = "picture_classifier"
encoder = { family = "vit", width = 12, heads = 2, layers = 2, inner = 24, patch = 16, grid = 4, dropout = 0.0 }
""",
        _ASKED,
        steps=200,
        lr=0.01,
    ),
    "images-convolutional": Golden(
        _DATA,
        """
[model]
family = "picture_classifier"
encoder = { family = "convolutional", channels = 1, width = 8, stages = 4, depth = 1 }
pool = "attention"
""",
        _ASKED,
        steps=30,
        lr=0.01,
    ),
    "images-numbers": Golden(
        _COUNTED,
        """
[model]
family = "image_regressor"
encoder = { family = "convolutional", channels = 1, width = 8, stages = 4, depth = 1 }
""",
        {"numbers_of_pictures": _ASKED["pictures"]},
        steps=30,
        lr=0.01,
    ),
    "captions-transformer": Golden(
        _CAPTIONED,
        """
[model]
family = "captioner"
encoder = { family = "vit", width = 12, heads = 2, layers = 1, inner = 24, patch = 16, grid = 4, dropout = 0.0 }
decoder = { family = "transformer", width = 12, heads = 2, layers = 2, inner = 24, dropout = 0.0 }
""",
        {"captions": [[64, 64], [40, 72]]},
        steps=60,
        lr=0.01,
    ),
    "captions-recurrent": Golden(
        _CAPTIONED,
        """
[model]
family = "captioner"
encoder = { family = "convolutional", width = 8, stages = 4, depth = 1, positions = "sinusoidal", dropout = 0.0 }
decoder = { family = "recurrent", width = 12, wiring = "luong", dropout = 0.0 }
tie = "decoder"
""",
        {"captions": [[64, 64], [40, 72]]},
        steps=60,
        lr=0.01,
    ),
    "answers-about-images": Golden(
        _QUESTIONS,
        """
[model]
family = "picture_answerer"
dropout = 0.0
encoder = { family = "vit", width = 12, heads = 2, layers = 1, inner = 24, patch = 16, grid = 4, dropout = 0.0 }
question = { family = "transformer", width = 8, heads = 2, layers = 2, inner = 16, norm = "pre", dropout = 0.0 }
""",
        _ABOUT,
        steps=60,
        lr=0.01,
    ),
}
