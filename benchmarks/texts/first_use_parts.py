"""The small data of `first_use`, for each task its recipe, its metric, and the space that settings are drawn from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Recipe = dict[str, Any]
Space = Mapping[str, Sequence[Any]]  # the values that each key may have


@dataclass(frozen=True)
class Part:
    """A task on small data: its recipe, what it is judged by, and the space that draws are made from."""

    recipe: Callable[[int], Recipe]  # with a seed's training rows
    metric: str
    space: Space
    lower: bool = False  # whether lower scores are better
    validated: str = ""  # the metric by which draws choose their best model, where it is another one


def _files(name: str, **keys: Any) -> Callable[[int], Recipe]:
    """Return what makes the [data] of a seed from files: `keys` are those of a corpus, in which {} is its file."""

    def recipe(seed: int) -> Recipe:
        def corpus(split: str) -> dict[str, Any]:
            return {key: value.format(split) if isinstance(value, str) else value for key, value in keys.items()}

        return {"data": {"train": corpus(f"{name}-{seed}"), "valid": corpus(f"{name}-valid")}}

    return recipe


def _generated(rows: int, valid: int, **keys: Any) -> Callable[[int], Recipe]:
    """Return what makes the [data] of a seed from a generator."""

    def recipe(seed: int) -> Recipe:
        lines = f"{rows * (seed - 1) + 1}-{rows * seed}"
        train = {**keys, "part": "train", "count": rows * seed, "lines": lines}
        return {"data": {"train": train, "valid": {**keys, "part": "valid", "count": valid}}}

    return recipe


def _digits(seed: int) -> Recipe:
    both = {"idx": "digits-images.gz", "labels": "digits-labels.gz"}
    lines = f"{300 * (seed - 1) + 1}-{300 * seed}"
    return {"data": {"train": {**both, "lines": lines}, "valid": {**both, "lines": "901-1900"}}}


def _family(make: Callable[[int], Recipe], family: str, **keys: Any) -> Callable[[int], Recipe]:
    """Return the same recipes with the family of their model."""
    return lambda seed: {**make(seed), "model": {"family": family}, **keys}


_STEPS: Final = (500, 1000, 2000)
_RATES: Final = (0.0005, 0.001, 0.002, 0.004)


def _rates(kind: str = "cosine") -> list[dict[str, Any]]:
    return [{"kind": kind, "lr": rate, "warmup": 100} for rate in _RATES]


def _decays(*values: float) -> list[dict[str, Any]]:
    return [{"kind": "adamw", "beta2": 0.98, "weight_decay": value} for value in values]


_TEXTS: Final[Space] = {
    "data.lowercase": (True, False),
    "data.max_length": (512,),
    "data.batch_tokens": (4096, 8192),
    "tokenizer": ({"kind": "wordpiece", "size": 8000}, {"kind": "wordpiece", "size": 30000}),
    "model.encoder": (
        {"family": "bag", "width": 64, "ngrams": 1}, {"family": "bag", "width": 64, "ngrams": 2},
        {"family": "recurrent", "width": 128, "dropout": 0.4, "dropout_words": 0.2},
        {"family": "transformer", "width": 128, "heads": 4, "layers": 2, "inner": 256, "norm": "pre", "dropout": 0.3},
    ),
    "model.dropout": (0.1, 0.3, 0.5),
    "train.steps": (250, 500, 1000),
    "train.optimizer": _decays(0.0, 0.01, 0.1),
    "train.schedule": _rates(),
    "train.clip_norm": (1.0,),
}  # fmt: skip
_PAIRS: Final[Space] = {
    "model.width": (128, 256), "model.heads": (4,), "model.inner": (256, 512), "model.layers": (2, 3, 4),
    "model.norm": ("pre",), "model.positions": ("sinusoidal", "rope"), "model.dropout": (0.1, 0.2, 0.3, 0.4),
    "data.batch_tokens": (1024, 2048, 4096),
    "train.optimizer": _decays(0.0, 0.1, 0.5), "train.schedule": _rates(), "train.clip_norm": (1.0,),
    "train.label_smoothing": (0.0, 0.1),
}  # fmt: skip
_IMAGES: Final[Space] = {
    "train.optimizer": _decays(0.0, 0.05, 0.3), "train.schedule": _rates(), "train.clip_norm": (1.0,),
    "train.label_smoothing": (0.0, 0.1),
    "train.augmentation": ({}, {"shift": 2}, {"shift": 2, "rotation": 10.0}, {"shift": 4}),
}  # fmt: skip
_NETWORKS: Final = [  # of images
    {"family": "convolutional", "width": width, "stages": stages, "depth": depth, "dropout": 0.1}
    for width in (64, 128) for stages in (2, 3) for depth in (1, 2)
]  # fmt: skip
_OF_PATCHES: Final = [  # of images whose patches are attended to
    {"family": "convolutional", "width": 128, "stages": 3, "depth": depth, "positions": "sinusoidal"}
    | {"dropout": dropout}
    for depth in (1, 2) for dropout in (0.1, 0.3)
]  # fmt: skip
_STACKS: Final = [
    {"family": "transformer", "width": width, "heads": 4, "layers": layers, "inner": 2 * width, "norm": "pre"}
    | {"positions": "rope", "dropout": dropout}
    for width in (64, 128, 256) for layers in (2, 4) for dropout in (0.1, 0.3)
]  # fmt: skip
_RECURRENT: Final = [
    {"family": "recurrent", "cell": "lstm", "width": width, "layers": layers, "dropout": 0.4, "dropout_words": words}
    for width in (128, 256) for layers in (1, 2) for words in (0.1, 0.3)
]  # fmt: skip

PARTS: Final[Mapping[str, Part]] = {
    "texts": Part(_family(_files("texts", tsv="{}.tsv", text=1, label=2), "classifier"), "accuracy", _TEXTS),
    "numbers": Part(_family(_files("numbers", tsv="{}.tsv", text=1, number=2), "regressor"), "spearman", _TEXTS),
    "pairs": Part(
        _files("pairs", tsv="{}.tsv"), "chrf",
        {**_PAIRS, "tokenizer.size": (1000, 2000, 4000), "train.steps": _STEPS},
    ),
    "phonemes": Part(
        _files("phonemes", tsv="{}.tsv"), "per", lower=True,
        space={
            **_PAIRS, "tokenizer": ({"kind": "char"}, {"kind": "char", "target": {"kind": "word"}}),
            "train.steps": _STEPS,
        },
    ),
    "tags": Part(
        _family(_files("tags", conll="{}.conll"), "tagger"), "accuracy",
        {
            "data.batch_tokens": (1024, 2048), "data.lowercase": (True, False),
            "tokenizer": (
                {"kind": "word"}, {"kind": "wordpiece", "size": 2000}, {"kind": "wordpiece", "size": 8000},
            ),
            "model.encoder": (*_RECURRENT, *_STACKS[:8]),
            "model.letters": (
                {"family": "convolutional", "width": 128}, {"family": "convolutional", "width": 256, "embedding": 64},
            ),
            "model.dropout": (0.1, 0.3, 0.5),
            "train.steps": _STEPS, "train.optimizer": _decays(0.01, 0.1), "train.schedule": _rates(),
            "train.clip_norm": (1.0,), "train.label_smoothing": (0.0, 0.1),
        },
    ),
    "trees": Part(
        lambda seed: {**_files("trees", trees="{}.trees")(seed), "task": "parse"}, "f1",
        {
            **_PAIRS, "data.max_length": (320,), "tokenizer": tuple(
                {"kind": kind, "size": size, "target": {"kind": "word"}}
                for kind, size in (("bpe", 1000), ("bpe", 3000), ("word", 5000))
            ),
            "model.word_positions": (True,), "model.dropout_words": (0.0, 0.1, 0.2), "train.steps": _STEPS,
        },
    ),
    "questions": Part(
        _family(_generated(170, 300, builtin="reports"), "reader"), "f1",
        {
            "data.batch_tokens": (1024, 2048), "data.max_length": (160,),
            "tokenizer": ({"kind": "wordpiece", "size": 1000}, {"kind": "wordpiece", "size": 4000}),
            "model.encoder": tuple({**stack, "segments": 3} for stack in _STACKS),
            "model.mark_matches": (True,), "model.dropout": (0.0, 0.1, 0.3),
            "train.steps": _STEPS, "train.optimizer": _decays(0.01, 0.1), "train.schedule": _rates(),
            "train.clip_norm": (1.0,),
        },
    ),
    "digits": Part(
        _family(_digits, "image_classifier"), "accuracy",
        {
            **_IMAGES, "data.batch_tokens": (500, 1000, 2000), "model.encoder": _NETWORKS, "model.dropout": (0.0, 0.3),
            "train.steps": _STEPS,
        },
    ),
    "captions": Part(
        _family(_generated(300, 300, builtin="scenes"), "captioner"), "bleu",
        {
            **_IMAGES, "data.batch_tokens": (2048, 4096), "data.max_length": (40,), "tokenizer": ({"kind": "word"},),
            "model.encoder": _OF_PATCHES,
            "model.decoder": tuple(
                {
                    "family": "transformer", "width": 128, "heads": 4, "layers": 2, "inner": 256, "norm": "pre",
                    "dropout": dropout, "dropout_words": words,
                }
                for dropout in (0.1, 0.3) for words in (0.0, 0.3)
            ),
            "train.steps": _STEPS,
        },
    ),
    "image_questions": Part(
        _family(_generated(75, 150, builtin="scenes", questions=4), "image_answerer"), "accuracy",
        {
            **_IMAGES, "data.batch_tokens": (2048, 4096), "data.max_length": (24,), "tokenizer": ({"kind": "word"},),
            "model.encoder": _OF_PATCHES, "model.join": ("parallel", "alternating"),
            "model.question": tuple(
                {
                    "family": "transformer", "width": 128, "heads": 4, "layers": layers, "inner": 256, "norm": "pre",
                    "dropout": dropout,
                }
                for layers in (1, 2) for dropout in (0.1, 0.3)
            ),
            "train.steps": _STEPS,
        },
    ),
    "language": Part(
        _family(_files("language", text="{}.txt"), "language"), "word_perplexity", lower=True,
        validated="perplexity",
        space={
            "data.batch_tokens": (2048, 4096), "data.max_length": (128, 256),
            "data.borders": ("closed", "open"),
            "tokenizer": tuple({"kind": "byte_bpe", "size": size} for size in (2000, 4000, 8000)),
            "model.decoder": (
                *(
                    {
                        "family": "transformer", "width": width, "heads": 4, "layers": layers, "inner": 4 * width,
                        "positions": "rope", "dropout": dropout, "dropout_attention": 0.1, "dropout_words": words,
                    }
                    for width in (128, 256) for layers in (3, 4) for dropout in (0.2, 0.35, 0.5) for words in (0.0, 0.1)
                ),
                *(
                    {"family": "recurrent", "width": width, "layers": 2, "dropout": dropout}
                    for width in (256, 400) for dropout in (0.3, 0.5, 0.6)
                ),
            ),
            "train.steps": (600, 1200, 2400), "train.optimizer": _decays(0.01, 0.1, 0.3), "train.schedule": _rates(),
            "train.clip_norm": (1.0,),
        },
    ),
    "masks": Part(
        _family(_files("language", text="{}.txt"), "bert"), "accuracy",
        {
            "data.batch_tokens": (2048, 4096, 8192), "data.max_length": (128,), "data.lowercase": (True,),
            "tokenizer": ({"kind": "wordpiece", "size": 4000},),
            "model.width": (128, 256), "model.heads": (4,), "model.layers": (2, 4), "model.inner": (512, 1024),
            "model.norm": ("pre", "post"), "model.dropout": (0.0, 0.1, 0.2), "model.next_sentence": (True, False),
            "train.steps": (2000, 4000), "train.optimizer": _decays(0.01, 0.1), "train.schedule": _rates("linear"),
            "train.clip_norm": (1.0,),
        },
    ),
}  # fmt: skip
