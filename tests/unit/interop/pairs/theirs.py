"""Models of random weights as `transformers` writes them, with a small vocabulary of SentencePiece's pieces."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from tests.unit.interop.marian_folders import ENGLISH, GERMAN, spm
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    NllbTokenizer,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PegasusTokenizer,
    PreTrainedModel,
)
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
        if hasattr(model, "final_logits_bias"):
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


# --- models of many languages -----------------------------------------------------------------------------------------

MARKERS: Final = ("<s>", "<pad>", "</s>", "<unk>")


def write_nllb(folder: Path, **changed: Any) -> M2M100ForConditionalGeneration:
    """Write an NLLB model of three languages with its tokenizer; return it."""
    logging.disable_progress_bar()
    codes = ["deu_Latn", "eng_Latn", "fra_Latn"]
    cutter = read_sentencepiece(spm(ENGLISH + GERMAN, "bpe"), "spm")
    vocabulary = {piece: number for number, piece in enumerate([*MARKERS, *cutter.scores, *codes])}
    tokenizer = NllbTokenizer(
        vocab=vocabulary, merges=_merges(cutter.scores), src_lang="eng_Latn", extra_special_tokens=codes
    )
    tokenizer.save_pretrained(folder)
    return _m2m_100(folder, len(tokenizer) + 2, **changed)


def write_m2m_100(folder: Path, **changed: Any) -> M2M100ForConditionalGeneration:
    """Write an M2M-100 model with its tokenizer; return it."""
    logging.disable_progress_bar()
    data = spm(ENGLISH + GERMAN, "bpe")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sentencepiece.bpe.model").write_bytes(data)
    pieces = [*MARKERS, *read_sentencepiece(data, "spm").scores]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"src_lang": "en", "tgt_lang": "de", "tokenizer_class": "M2M100Tokenizer"})
    )
    return _m2m_100(folder, len(pieces) + 100 + 8, **changed)


def write_mbart(folder: Path, **changed: Any) -> MBartForConditionalGeneration:
    """Write an mBART-50 model with its tokenizer; return it."""
    logging.disable_progress_bar()
    vocabulary = [(marker, 0.0) for marker in MARKERS] + [*scored_pieces().items()]
    codes = [(code, 0.0) for code in ("en_XX", "de_DE", "fr_XX", "<mask>")]
    tokenizer = MBart50Tokenizer(vocab=vocabulary + codes, src_lang="de_DE", tgt_lang="en_XX")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(8)
    values = SHAPE | {"vocab_size": len(tokenizer), "activation_function": "gelu"} | _STARTS
    model = randomise(MBartForConditionalGeneration(MBartConfig(**(values | changed))), end=2)
    model.save_pretrained(folder)
    assert isinstance(model, MBartForConditionalGeneration)
    return model


_STARTS: Final = {
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}


def _m2m_100(folder: Path, size: int, **changed: Any) -> M2M100ForConditionalGeneration:
    torch.manual_seed(7)
    config = M2M100Config(**(SHAPE | {"vocab_size": size} | _STARTS | changed))
    model = randomise(M2M100ForConditionalGeneration(config), end=2)
    model.save_pretrained(folder)
    assert isinstance(model, M2M100ForConditionalGeneration)
    return model


def _merges(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return every split of a piece into two, the best pieces first."""
    return [
        (piece[:middle], piece[middle:])
        for piece in sorted(scores, key=lambda piece: -scores[piece])
        for middle in range(1, len(piece))
        if piece[:middle] in scores and piece[middle:] in scores
    ]
