"""Tiny random language models: decoders without memory, of every family that has one."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal

import torch

from heedful.config.model.language import LanguageModelTable
from heedful.config.model.transformer import TransformerModel
from heedful.data.tokenize.tokenizer import END
from heedful.models.from_recipe.language import build_language_model
from heedful.models.from_recipe.transformer import transformer_decoder
from heedful.models.networks import LanguageModel, set_precision
from heedful.models.recurrent.language_model import RecurrentLanguageModel
from heedful.nn.initialization import init_xavier
from heedful.nn.layers.embedding import Embedding, Output, make_table
from heedful.nn.recurrent.stack import RecurrentStack

WORDS: Final = 24
TRANSFORMERS: Final[Mapping[str, dict[str, Any]]] = {
    "post-sinusoidal": {},
    "pre-learned": {"norm": "pre", "positions": "learned", "max_positions": 40},
    "rope": {"positions": "rope"},
    "alibi": {"positions": "alibi"},
    "relative": {"positions": "relative"},
    "llama": {"norm": "pre", "norm_kind": "rms", "positions": "rope", "key_value_heads": 1, "bias": False},
    "explicit": {"backend": "explicit"},
    "additive": {"alignment": "additive"},
    "area": {"alignment": "area", "positions": "rope"},
    "kernel": {"alignment": "kernel"},
    "entmax": {"distribution": "entmax", "positions": "alibi"},
    "location": {"alignment": "location", "max_places": 40},
}
CELLS: Final = ("gru", "lstm", "rnn_tanh")
OTHERS: Final[Mapping[str, dict[str, Any]]] = {
    "output-feedback": {"family": "recurrent", "cell": "tanh", "layers": 1, "feedback": "output"},
    "convolution-glu": {"family": "convolutional", "layers": 2, "kernel": 3},
    "convolution-relu": {"family": "convolutional", "layers": 3, "kernel": 2, "activation": "relu"},
}
LANGUAGE_MODELS: Final = (*TRANSFORMERS, *CELLS, *OTHERS)
EVEN_PROMPTS: Final = {"location"}  # it counts keys from the start of the cache


@cache
def language_model(family: str, words: int = WORDS, seed: int = 1) -> LanguageModel:
    """Make one in float64 whose every parameter counts, and which ends a text now and then; copy it to change it."""
    torch.manual_seed(seed)
    model = _made(family, words)
    init_xavier(model)
    model.double().eval()
    set_precision(model, torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        model.output.weight[END].mul_(2)
    return model


def _made(family: str, words: int) -> LanguageModel:
    if family in OTHERS:
        decoder = {"width": 16, "dropout": 0.0, **OTHERS[family]}
        return build_language_model(
            LanguageModelTable.model_validate({"family": "language", "decoder": decoder}), words
        )
    return LanguageModel(_recurrent(family, words) if family in CELLS else _transformer(family, words))


def _transformer(family: str, words: int) -> torch.nn.Module:
    config = TransformerModel(width=16, heads=2, layers=2, inner=16, dropout=0.0, **TRANSFORMERS[family])
    table = make_table(words, 16)
    return transformer_decoder(config, table, table, None)


def _recurrent(kind: Literal["gru", "lstm", "rnn_tanh"] | str, words: int) -> torch.nn.Module:
    table = make_table(words, 16)
    stack = RecurrentStack(kind, 16, 16, layers=2)  # type: ignore[arg-type]
    return RecurrentLanguageModel(Embedding(table, None, 0.0), stack, Output(table))
