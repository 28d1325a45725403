"""Small Transformers of several forms, and pairs of given lengths for them."""

from typing import Any, get_args

import numpy as np

from heedful.config.model.transformer import TransformerModel
from heedful.data.token_store import TokenStore

VOCABULARY = 50
CONFIGS: list[dict[str, Any]] = [
    {},
    {"activation": "swiglu", "norm": "pre"},
    {"activation": "silu"},
    {"layers": 1, "decoder_layers": 3, "tie": "none"},
    {"positions": "learned", "activation": "gelu", "tie": "decoder", "dropout_attention": 0.1, "dropout_inner": 0.1},
    {"positions": "rope", "key_value_heads": 2, "norm_kind": "rms", "bias": False},
    {"positions": "alibi", "norm": "pre"},
    {"positions": "relative", "max_distance": 3},
    {"positions": "relative", "max_distance": 3, "key_width": 6, "value_width": 6},
    {"encoder_layer": "convolution", "kernel": 3},
    {"encoder_layer": "separable", "positions": "rope"},
    {"key_width": 5, "value_width": 12, "key_value_heads": 2, "backend": "explicit"},
]


def config(**options: Any) -> TransformerModel:
    return TransformerModel.model_validate({"width": 32, "heads": 4, "layers": 2, "inner": 48, **options})


def store(lengths: list[tuple[int, int]]) -> TokenStore:
    chance = np.random.default_rng(0)
    source, target = (
        [chance.integers(4, VOCABULARY, size).tolist() for size in side] for side in zip(*lengths, strict=True)
    )
    return TokenStore.of(source=source, target=target)


ACTIVATIONS = get_args(TransformerModel.model_fields["activation"].annotation)
