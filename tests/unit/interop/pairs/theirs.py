"""Pegasus models of random weights as `transformers` writes them, with a small vocabulary of SentencePiece's pieces."""

from pathlib import Path
from typing import Any, Final

import torch
from tests.unit.interop.marian_folders import ENGLISH, GERMAN, spm
from transformers import PegasusConfig, PegasusForConditionalGeneration, PegasusTokenizer, PreTrainedModel
from transformers.utils import logging

from heedful.interop.transformers.tokenizers.sentencepiece_file import read_sentencepiece

SHAPE: Final[dict[str, Any]] = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 128,
    "activation_function": "relu",
    "scale_embedding": True,
}
OFFSET: Final = 5  # markers of pre-training, of which Pegasus has 103


def scored_pieces() -> dict[str, float]:
    """Pieces of both languages with their scores."""
    return dict(read_sentencepiece(spm(ENGLISH + GERMAN), "spm").scores)


def randomise(model: PreTrainedModel, end: int) -> PreTrainedModel:
    """Draw all weights, as biases of zero and norms of one would hide mistakes; texts end at some time."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter), alpha=0.5)
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, end] += 3
    return model.eval()


def write_pegasus(folder: Path, **changed: Any) -> PegasusForConditionalGeneration:
    """Write a Pegasus model with its tokenizer; return it."""
    markers = ["<pad>", "</s>", "<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, OFFSET)), "<unk>"]
    vocabulary = [(marker, 0.0) for marker in markers] + [*scored_pieces().items()]
    logging.disable_progress_bar()
    PegasusTokenizer(vocab=vocabulary, offset=OFFSET).save_pretrained(folder)
    torch.manual_seed(6)
    values = SHAPE | {"vocab_size": len(vocabulary), "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    config = PegasusConfig(**(values | {"forced_eos_token_id": None} | changed))
    model = randomise(PegasusForConditionalGeneration(config), end=1)
    model.save_pretrained(folder)
    assert isinstance(model, PegasusForConditionalGeneration)
    return model
