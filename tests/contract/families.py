"""Families, and combinations of their options that cover every pair."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError
from tests.shared.covering import Options, covering
from torch import nn

from heedful.config.model.attention import AlignmentName, DistributionName
from heedful.config.model.encoder_only import BertModel, TaggerModel
from heedful.config.model.mixed import PairModel
from heedful.config.model.pooled import ClassifierModel
from heedful.nn.layers.residual import Residual

_TINY: Options = {"width": 16, "heads": 2, "layers": 2, "inner": 24, "max_positions": 40}
_RECURRENT: Options = {"family": "recurrent", "width": 16, "encoder_width": 8, "max_places": None}

TRANSFORMERS: dict[str, Options] = {
    "post-sinusoidal": {"norm": "post", "positions": "sinusoidal"},
    "pre-learned-swiglu": {"norm": "pre", "positions": "learned", "activation": "swiglu", "tie": "none"},
    "pre-halves-shallow": {"norm": "pre", "positions": "sinusoidal_halves", "decoder_layers": 1, "tie": "decoder"},
    "post-deep-narrow": {"decoder_layers": 3, "heads": 1, "width": 8},
    "post-rope": {"norm": "post", "positions": "rope"},
    "llama": {
        "norm": "pre",
        "norm_kind": "rms",
        "positions": "rope",
        "rope_base": 500.0,
        "heads": 4,
        "key_value_heads": 2,
        "activation": "swiglu",
        "bias": False,
        "tie": "none",
    },
    "post-alibi": {"norm": "post", "positions": "alibi"},
    "pre-alibi-three-heads": {"norm": "pre", "positions": "alibi", "heads": 3, "width": 15},
    "post-relative": {"norm": "post", "positions": "relative", "max_distance": 3},
    "pre-relative": {"norm": "pre", "positions": "relative", "max_distance": 30},
    "rezero": {"norm": "rezero", "positions": "learned"},
    "tfixup-swiglu": {"norm": "tfixup", "activation": "swiglu", "tie": "decoder"},
    "deepnorm": {"norm": "deepnorm", "norm_kind": "rms", "decoder_layers": 3, "dropout_layers": 0.3},
    "explicit": {"backend": "explicit"},
    "separable-encoder": {"encoder_layer": "separable", "kernel": 3, "norm": "pre"},
    "uneven-heads-radius": {
        "heads": 3,
        "key_width": 12,
        "value_width": 4,
        "positions": "rope",
        "attention_radius": 2,
    },
    "two-embeddings": {"embeddings": 2, "tie": "decoder"},
    "word-positions": {"norm": "pre", "word_positions": True},
    "additive-entmax": {"alignment": "additive", "distribution": "entmax15", "norm": "pre"},
    "alignment-per-site": {
        "positions": "relative",
        "encoder_attention": {"alignment": "additive", "distribution": "sparsemax"},
        "decoder_attention": {"alignment": "general", "score_scale": True},
        "cross_attention": {"alignment": "dot", "distribution": "normalised_sigmoid"},
    },
}
RECURRENT: dict[str, Options] = {
    "sutskever-lstm": {
        "wiring": "sutskever",
        "cell": "lstm",
        "layers": 2,
        "bidirectional": False,
        "reverse_source": True,
    },
    "vector-gru": {"wiring": "vector", "embedding": 12},
    "cho-gru": {"wiring": "cho", "embedding": 12, "embeddings": 2},
    "bahdanau-gru": {"wiring": "bahdanau", "tie": "decoder"},
    "cho-gru-paper": {"wiring": "cho", "cell": "gru_paper"},
    "luong-local-lstm": {"wiring": "luong", "cell": "lstm", "layers": 2, "window": "predicted", "half_width": 2},
}
MIXED: dict[str, Options] = {
    "transformer-to-gru": {
        "encoder": {**_TINY, "family": "transformer"},
        "decoder": {"family": "recurrent", "width": 12, "layers": 2},
    },
    "lstm-to-transformer": {
        "encoder": {"family": "recurrent", "cell": "lstm", "width": 10},
        "decoder": {**_TINY, "family": "transformer"},
    },
}
FAMILIES: dict[str, Options] = {
    **{name: _TINY | options for name, options in TRANSFORMERS.items()},
    **{name: _RECURRENT | options for name, options in RECURRENT.items()},
    **{name: {"family": "mixed", **options} for name, options in MIXED.items()},
}


def config_of(family: str, dropout: float) -> PairModel:
    """The [model] table of a family, with so much dropout."""
    options = {"family": "transformer", **ALL[family]}
    if options["family"] == "mixed":
        sides = {side: {**options[side], "dropout": dropout} for side in ("encoder", "decoder")}
        return _model({**options, **sides})
    layers = {"dropout_layers": dropout} if "dropout_layers" in options else {}
    return _model({**options, "dropout": dropout, **layers})


_PAIR_MODEL: TypeAdapter[PairModel] = TypeAdapter(PairModel)  # made once: it takes longer than what it reads


def _model(options: Mapping[str, Any]) -> PairModel:
    return _PAIR_MODEL.validate_python(options)


def _is_legal(options: Mapping[str, Any]) -> bool:
    """Whether a recipe may say this."""
    try:
        made = _model(options)
    except ValidationError:
        return False
    return made.family != "recurrent" or made.memory_width == made.width


ALIGNMENTS, DISTRIBUTIONS = get_args(AlignmentName), get_args(DistributionName)
_AXES: tuple[tuple[Options, dict[str, Sequence[Any]]], ...] = (
    (
        {"family": "transformer", **_TINY, "layers": 1, "norm": "pre"},
        {
            "alignment": ALIGNMENTS,
            "distribution": DISTRIBUTIONS,
            "positions": ("sinusoidal", "learned", "rope", "alibi", "relative"),
            "choice": ("soft", "hard", "gumbel"),
        },
    ),
    (
        {**_RECURRENT, "half_width": 2},
        {
            "alignment": ALIGNMENTS,
            "distribution": DISTRIBUTIONS,
            "wiring": ("bahdanau", "luong"),
            "cell": ("gru", "lstm"),
            "window": ("global", "monotone", "predicted"),
            "choice": ("soft", "hard"),
        },
    ),
)


def _covering(size: int) -> dict[str, Options]:
    """Few combinations in which every choice of values of `size` options occurs, in each of the two families."""
    found = {}
    for base, axes in _AXES:

        def whole(made: Options, base: Options = base) -> Options:
            bounded = {"max_places": 40} if made["alignment"] == "location" else {}
            return {**base, **made, **bounded}

        for made in covering(axes, size, lambda made: _is_legal(whole(made))):
            found["-".join(map(str, made.values()))] = whole(made)
    return found


VALUES = _covering(1)  # every value of every option occurs
PAIRS = _covering(2)  # and every pair of values
ALL: dict[str, Options] = FAMILIES | VALUES | PAIRS


# --- what reads one sequence ------------------------------------------------------------------------------------------

_WORDS: Options = {"family": "recurrent", "width": 6, "embedding": 8}

CLASSIFIERS: dict[str, Options] = {
    "first": {"encoder": _TINY},
    "mean-pre-rms": {
        "encoder": _TINY
        | {"norm": "pre", "norm_kind": "rms", "positions": "learned", "key_value_heads": 1, "bias": False},
        "pool": "mean",
    },
    "max-relative": {"encoder": _TINY | {"positions": "relative", "embeddings": 2}, "pool": "max"},
    "attention-rope": {"encoder": _TINY | {"positions": "rope"}, "pool": "attention"},
    "multi-dimensional": {"encoder": _TINY | {"embedding_norm": True}, "pool": "multi_dimensional", "pooler": True},
    "gru-max": {"encoder": {"family": "recurrent", "width": 8, "layers": 2}},
    "lstm-last": {
        "encoder": {"family": "recurrent", "cell": "lstm", "width": 8, "embedding": 6, "bidirectional": False},
        "pool": "last",
    },
    "hierarchical": {"encoder": {"family": "hierarchical", "words": _WORDS, "sentences": {"width": 6}}},
    "hierarchical-letters": {
        "encoder": {
            "family": "hierarchical",
            "words": _WORDS,
            "sentences": {"width": 6},
            "letters": {"family": "convolutional", "width": 6, "embedding": 4, "dropout": 0.0},
        }
    },
    "hierarchical-transformer": {
        "encoder": {
            "family": "hierarchical",
            "words": _TINY | {"family": "transformer"},
            "word_pool": "mean",
            "sentences": {"cell": "lstm", "width": 6, "layers": 2},
            "max_sentence": 3,
        },
        "pool": "max",
    },
    "bag": {"encoder": {"family": "bag", "width": 8, "buckets": 50}},
    "bag-rarity": {
        "encoder": {"family": "bag", "width": 8, "buckets": 50, "weighting": "rarity", "weights_per_bucket": 4}
    },
    "bag-trigrams-attention": {
        "encoder": {"family": "bag", "width": 8, "ngrams": 3, "buckets": 50},
        "pool": "attention",
        "labels": "several",
    },
    "deep-entmax": {
        "encoder": _TINY | {"positions": "rope"},
        "pool": {"alignment": "deep", "distribution": "entmax", "alpha": 1.3},
    },
    "gru-additive-sigmoid": {
        "encoder": {"family": "recurrent", "width": 8},
        "pool": {"alignment": "additive", "distribution": "sigmoid"},
    },
    "hierarchical-area-content": {
        "encoder": {
            "family": "hierarchical",
            "words": _WORDS,
            "word_pool": {"alignment": "area"},
            "sentences": {"width": 6},
        },
        "pool": {"alignment": "content", "distribution": "normalised_sigmoid"},
    },
    "bert-learned-entmax": {
        "encoder": _TINY | {"family": "bert"},
        "pool": {"alignment": "general", "distribution": "learned_entmax"},
    },
    "bert": {"encoder": _TINY | {"family": "bert"}, "pooler": True},
    "pairs": {"encoder": _TINY | {"segments": 2}},
    "bert-pairs": {"encoder": _TINY | {"family": "bert"}, "pooler": True, "pool": "mean"},
    "gpt-pairs": {"encoder": {"family": "language", "decoder": {"family": "transformer", **_TINY}}},
    "gru-pairs": {"encoder": {"family": "recurrent", "width": 8}, "pool": "attention"},
    "bag-pairs": {"encoder": {"family": "bag", "width": 8, "buckets": 50}},
    "parallel": {"encoder": _TINY, "join": "parallel", "pooler": True},
    "alternating": {"encoder": _TINY | {"positions": "learned"}, "join": "alternating"},
    "bert-parallel": {"encoder": _TINY | {"family": "bert"}, "join": "parallel"},
    "gru-alternating": {
        "encoder": {"family": "recurrent", "width": 8, "embedding": 6},
        "join": "alternating",
        "labels": "several",
    },
    "several": {"encoder": _TINY, "labels": "several"},
    "hidden": {"encoder": _TINY, "pool": "max", "pooler": True, "head_hidden": 10},
    "hierarchical-several": {"encoder": {"family": "hierarchical", "words": _WORDS}, "labels": "several"},
}
JOINED = ("parallel", "alternating", "bert-parallel", "gru-alternating")  # of these those with co-attention
PAIRED = ("pairs", "bert-pairs", "gru-pairs", "gpt-pairs", "bag-pairs", *JOINED)  # and all that read two texts
TAGGERS: dict[str, Options] = {
    "transformer": {"encoder": _TINY},
    "transformer-crf": {"encoder": _TINY | {"norm": "pre", "positions": "rope"}, "crf": True},
    "bert": {"encoder": _TINY | {"family": "bert"}},
    "gru": {"encoder": {"family": "recurrent", "width": 8}},
    "bert-letters": {
        "encoder": _TINY | {"family": "bert"},
        "letters": {"family": "convolutional", "width": 6, "embedding": 4},
    },
    "lstm-letters-crf": {
        "encoder": {"family": "recurrent", "cell": "lstm", "width": 8},
        "letters": {"family": "recurrent", "width": 6, "embedding": 4},
        "crf": True,
    },
    "bag-target": {"encoder": {"family": "bag", "ngrams": 1, "width": 8}, "feedback": "target", "head_hidden": 6},
    "gru-output": {"encoder": {"family": "recurrent", "width": 8}, "feedback": "output"},
    "lstm-crf": {
        "encoder": {"family": "recurrent", "cell": "lstm", "width": 8, "layers": 2},
        "head_hidden": 6,
        "crf": True,
    },
}
MASKED: dict[str, Options] = {
    "next-sentence": {},
    "tokens-alone": {"next_sentence": False, "segments": 0},
    "pre-norm-rope": {"norm": "pre", "norm_kind": "rms", "positions": "rope", "key_value_heads": 1, "bias": False},
}


def classifier_of(name: str, dropout: float) -> ClassifierModel:
    """The [model] table of a classifier, with so much dropout."""
    encoder = {"family": "transformer", **CLASSIFIERS[name]["encoder"]}
    if encoder["family"] == "hierarchical":
        parts = {part: {**encoder.get(part, {"width": 6}), "dropout": dropout} for part in ("words", "sentences")}
        encoder |= parts
    elif encoder["family"] == "language":
        encoder["decoder"] = {**encoder["decoder"], "dropout": dropout, "dropout_attention": dropout}
    else:
        encoder |= {"dropout": dropout} | ({"dropout_attention": dropout} if encoder["family"] == "bert" else {})
    options = {"family": "classifier", **CLASSIFIERS[name], "encoder": encoder, "dropout": dropout}
    return ClassifierModel.model_validate(options)


def tagger_of(name: str, dropout: float) -> TaggerModel:
    """The [model] table of a tagger, with so much dropout."""
    encoder = {"family": "transformer", **TAGGERS[name]["encoder"], "dropout": dropout}
    encoder |= {"dropout_attention": dropout} if encoder["family"] == "bert" else {}
    options = {"family": "tagger", **TAGGERS[name], "encoder": encoder, "dropout": dropout}
    if "letters" in options:
        options["letters"] = options["letters"] | {"dropout": dropout}
    return TaggerModel.model_validate(options)


def masked_of(name: str, dropout: float) -> BertModel:
    """The [model] table of a masked language model, with so much dropout."""
    options = {"family": "bert", **_TINY, **MASKED[name], "dropout": dropout, "dropout_attention": dropout}
    return BertModel.model_validate(options)


def open_branches(model: nn.Module) -> nn.Module:
    """Give the learned factors of residual branches a value: at 0, as they begin, nothing else of a block matters."""
    for module in model.modules():
        if isinstance(module, Residual) and module.weight is not None:
            nn.init.constant_(module.weight, 0.7)
    return model
