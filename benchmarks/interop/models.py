"""What models can be, for the sweep of exports: kinds of models, and values of their keys."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from benchmarks.interop.random_models import random_recipe
from pydantic import ValidationError

from heedful.config.recipe import Recipe

Options = dict[str, Any]  # values of keys; the first value of each axis is the usual one
Axes = Mapping[str, Sequence[Any]]

_SIZES: Final[Options] = {"width": 16, "heads": 4, "layers": 1, "inner": 24}
_BLOCKS: Final[Axes] = {
    "norm": ("post", "pre", "rezero", "deepnorm"),
    "norm_kind": ("layer", "rms"),
    "norm_epsilon": (1e-5, 1e-3),
    "final_norm": (None, True, False),
    "activation": ("relu", "gelu", "gelu_tanh", "silu", "swiglu"),
    "bias": (True, False),
    "projection_bias": (None, True, False),
    "key_value_heads": (None, 1, 2),
    "key_width": (None, 8),
    "value_width": (None, 8),
    "layers": (1, 2),
    "alignment": ("scaled_dot", "additive", "dot"),
    "distribution": ("softmax", "entmax15"),
}
_STACK: Final[Axes] = {
    **_BLOCKS,
    "positions": ("sinusoidal", "sinusoidal_halves", "learned", "rope", "alibi", "relative", "none"),
    "rope_base": (10_000.0, 500.0),
    "max_distance": (16, 3),
    "attention_radius": (None, 2),
    "embeddings": (1, 2),
    "embedding_scale": (True, False),
    "embedding_norm": (False, True),
}
_TRANSLATOR: Final[Axes] = {
    **_STACK,
    "decoder_layers": (None, 2),
    "tie": ("all", "decoder", "none"),
    "output_bias": (False, True),
    "encoder_layer": ("attention", "separable"),
    "word_positions": (False, True),
    "tokenizer": ("word", "byte_bpe", "unigram", "separate"),
}
_LANGUAGE: Final[Axes] = {
    **_STACK,
    "tie": (True, False),
    "output_bias": (False, True),
    "tokenizer": ("word", "byte_bpe"),
}
_ENCODER: Final[Axes] = {
    **_STACK,
    "family": ("bert", "transformer", "recurrent", "bag"),
    "segments": (0, 2),
    "tokenizer": ("word", "wordpiece", "byte_bpe"),
}
_POOLED: Final[Axes] = {
    **_ENCODER,
    "pool": ("first", "mean", "max", "last", "attention", "multi_dimensional"),
    "pooler": (False, True),
    "head_hidden": (None, 10),
}
_IMAGES: Final[Axes] = {
    **_BLOCKS,
    "family": ("vit", "convolutional"),
    "class_token": (True, False),
    "class_position": (False, True),
    "positions": ("learned", "sinusoidal"),
    "stem": ("patches", "convolutions"),
    "channels": (3, 1),
    "pool": (None, "mean", "first", "max"),
    "head_hidden": (None, 10),
}
_TOKENIZERS: Final[Mapping[str, Options]] = {
    "word": {"kind": "word", "size": 60},
    "byte_bpe": {"kind": "byte_bpe", "size": 300},
    "unigram": {"kind": "unigram", "size": 60},
    "wordpiece": {"kind": "wordpiece", "size": 100},
    "separate": {"kind": "word", "size": 60, "joint": False},
}
_ENCODER_KEYS: Final = (*_STACK, "family", "segments")


@dataclass(frozen=True)
class Kind:
    """A kind of models: its task, the values that its keys can have, and how they make the tables of a recipe."""

    name: str
    task: str
    axes: Axes
    make: Callable[[Options], Options]
    bases: tuple[Options, ...] = ({},)  # values of models that are usual elsewhere, around which others are drawn

    def draw(self, chance: random.Random, changed: float) -> Options:
        """Draw a value of each key: the usual one of a model, but for a share of them."""
        usual = {key: values[0] for key, values in self.axes.items()} | chance.choice(self.bases)
        return {
            key: usual.get(key) if chance.random() >= changed else chance.choice(self.axes[key]) for key in self.axes
        }

    def tables(self, options: Options) -> Options:
        """The tables of a recipe with these values; those of keys that are left to their defaults are not there."""
        made = self.make({key: value for key, value in options.items() if value is not None})
        tokenizer = options.get("tokenizer")
        return made | ({} if tokenizer is None else {"tokenizer": _TOKENIZERS[tokenizer]})


def recipe_of(kind: Kind, options: Options) -> Recipe | None:
    """The recipe of a model; None if there can be none with these values."""
    return _recipe(kind.name, tuple(options.items()))


@cache
def _recipe(name: str, options: tuple[tuple[str, Any], ...]) -> Recipe | None:
    kind = next(kind for kind in KINDS if kind.name == name)
    try:
        return random_recipe(kind.task, kind.tables(dict(options)))
    except ValidationError:
        return None


def _translator(options: Options) -> Options:
    stack = {key: value for key, value in options.items() if key != "tokenizer"}
    return {"model": {"family": "transformer", **_SIZES, **stack}}


def _language(options: Options) -> Options:
    stack = {key: value for key, value in options.items() if key in _STACK}
    top = {key: value for key, value in options.items() if key in ("tie", "output_bias")}
    return {"model": {"family": "language", **top, "decoder": {"family": "transformer", **_SIZES, **stack}}}


def _encoder(options: Options) -> Options:
    family = options["family"]
    if family == "recurrent":
        return {"family": family, "width": 16}
    if family == "bag":
        return {"family": family, "width": 16, "buckets": 50}
    return {**_SIZES, **{key: value for key, value in options.items() if key in _ENCODER_KEYS}}


def _pooled(family: str) -> Callable[[Options], Options]:
    def make(options: Options) -> Options:
        top = {key: value for key, value in options.items() if key in ("pool", "pooler", "head_hidden")}
        return {"model": {"family": family, "encoder": _encoder(options), **top}}

    return make


def _masked(options: Options) -> Options:
    stack = {key: value for key, value in options.items() if key in (*_STACK, "segments")}
    follows = {"next_sentence": options["segments"] > 0}
    return {"model": {"family": "bert", **_SIZES, **stack, **follows}}


def _reader(options: Options) -> Options:
    return _pooled("reader")({**options, "segments": 2})


def _images(options: Options) -> Options:
    convolutional = {"family": "convolutional", "width": 16, "channels": options["channels"]}
    encoder = {
        key: value
        for key, value in options.items()
        if key in {*_BLOCKS, "positions", "family", "class_token", "class_position", "stem", "channels"}
    }
    encoder = convolutional if options["family"] == "convolutional" else {**_SIZES, "patch": 4, "grid": 4, **encoder}
    top = {key: value for key, value in options.items() if key in ("pool", "head_hidden")}
    size = {"images": {"height": 16, "width": 16}}
    return {"model": {"family": "image_classifier", "encoder": encoder, **top}, "data": size}


_GPT2: Final[Options] = {"norm": "pre", "positions": "learned", "activation": "gelu_tanh", "embedding_scale": False}
_LLAMA: Final[Options] = {
    "norm": "pre", "norm_kind": "rms", "positions": "rope", "activation": "swiglu", "bias": False,
    "embedding_scale": False, "tie": False,
}  # fmt: skip
_BERT: Final[Options] = {
    "positions": "learned", "activation": "gelu", "embedding_scale": False, "embedding_norm": True, "segments": 2,
}  # fmt: skip
_BASES: Final[tuple[Options, ...]] = (
    {},
    {**_BERT, "family": "bert", "pooler": True},
    {**_BERT, "family": "transformer", "pooler": True},
)
_VIT: Final[Options] = {"norm": "pre", "activation": "gelu", "class_position": True, "pool": "first"}
_FOR_TOKENS: Final[Axes] = {**_ENCODER, "head_hidden": (None, 10)}
KINDS: Final = (
    Kind(
        "translator", "translate", _TRANSLATOR, _translator, ({}, {"norm": "pre"}, {"positions": "sinusoidal_halves"})
    ),
    Kind("language model", "generate", _LANGUAGE, _language, ({}, _GPT2, _LLAMA)),
    Kind("classifier", "classify", _POOLED, _pooled("classifier"), _BASES),
    Kind("regressor", "regress", _POOLED, _pooled("regressor"), _BASES),
    Kind("tagger", "tag", _FOR_TOKENS, _pooled("tagger"), _BASES),
    Kind("reader", "answer", _FOR_TOKENS, _reader, _BASES),
    Kind(
        "masked model",
        "fill",
        {key: values for key, values in _ENCODER.items() if key != "family"},
        _masked,
        ({}, _BERT),
    ),
    Kind("image classifier", "classify_images", _IMAGES, _images, ({}, _VIT)),
)
