"""Folders in Hugging Face's form to import: small SentencePiece models, and Marian models of random weights."""

import io
import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel
from transformers.utils import logging

from heedful.interop.transformers.tokenizers.sentencepiece_file import read_sentencepiece

Change = Callable[..., None]  # sets values of a JSON file

ENGLISH: Final = (
    "The old house on the hill was sold last summer, wasn't it?",
    "A small dog runs through the green garden!",
    'She said: "I don\'t know (yet) what to do."',
    "In 1984, 42% of all voters stayed at home; others didn't.",
    "Please read chapters 3-5 before Monday.",
    "They were walking along the river when it began to rain.",
    "He bought apples, pears and 2.5 kg of flour.",
)
GERMAN: Final = (
    "Das alte Haus auf dem Hügel wurde im letzten Sommer verkauft, nicht wahr?",
    "Ein kleiner Hund läuft durch den grünen Garten!",
    "Sie sagte: „Ich weiß (noch) nicht, was ich tun soll.“",
    "1984 blieben 42 % aller Wähler zu Hause; andere nicht.",
    "Bitte lies die Kapitel 3–5 vor Montag.",
    "Sie gingen am Fluss entlang, als es zu regnen begann.",
    "Er kaufte Äpfel, Birnen und 2,5 kg Mehl: 你好 世界 好.",
)
# What texts are mixed with: of other scripts, in parts, composed otherwise, invisible, repeated, or like markup.
ODD: Final = (
    "你", "好", "你好", "世界", "好你", "ñ", "é", "e\u0301", "e\u0323\u0302", "Ω", "…", "  ", "   ", "\t", "\u00a0",
    "\u3000", "ﬁ", "½", "①", "Ａ", "ｶﾞ", "🙂", "👩‍👩‍👧", "אבג", "בּ", "한국", "\u1112\u1161\u11ab", "\u200b", "xyz",
    "ß", "İ", "<", "<b>", "&amp;", "--", "äöü", "ÄÖ", "▁", "“", "’",
)  # fmt: skip


@cache
def spm(texts: tuple[str, ...], kind: str = "unigram", size: int = 150, **options: Any) -> bytes:
    """Train a SentencePiece model."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 3),
        model_writer=written,
        model_type=kind,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return written.getvalue()


def some_texts(count: int, seed: int = 0) -> list[str]:
    """Words of both languages in any order, odd parts between them, with or without spaces."""
    chance = random.Random(seed)
    words = [word for line in (*ENGLISH, *GERMAN) for word in line.split()]
    return [
        "".join(
            chance.choice(words if chance.random() < 0.7 else ODD) + chance.choice(("", " ", " ", "  "))
            for _ in range(chance.randint(1, 14))
        )
        for _ in range(count)
    ]


def write_tokenizers(
    folder: Path, source: bytes, target: bytes, *, codes: Sequence[str] = (), missing: float = 0.1
) -> dict[str, int]:
    """Write both models and one vocabulary, which lacks some of their pieces; return the vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    models = [read_sentencepiece(data, "spm") for data in (source, target)]
    pieces = list(dict.fromkeys(piece for model in models for piece in (*model.scores, *model.byte_pieces)))
    chance = random.Random(3)
    chance.shuffle(pieces)
    kept = [piece for piece in pieces if chance.random() >= missing]
    ids = {piece: number for number, piece in enumerate(["</s>", "<unk>", *kept, *codes, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    return ids


def separate(folder: Path) -> None:
    """Give the target a vocabulary of its own: the same pieces in the opposite order, but for Marian's three."""
    ids = json.loads((folder / "vocab.json").read_text())
    own = [piece for piece in ids if piece not in ("</s>", "<unk>", "<pad>")]
    turned = ["</s>", "<unk>", *reversed(own), "<pad>"]
    (folder / "target_vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(turned)}))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"separate_vocabs": True}))


def write_marian(
    folder: Path,
    *,
    shared: bool = True,
    tied: bool = True,
    codes: Sequence[str] = (),
    shard: str = "5GB",
    **changed: Any,
) -> MarianMTModel:
    """Write a Marian model of random weights that ends its sentences, whole or in shards; return it."""
    ids = write_tokenizers(folder, spm(ENGLISH), spm(GERMAN), codes=codes)
    end, pad, unknown = ids["</s>"], ids["<pad>"], ids["<unk>"]
    values = {
        "vocab_size": len(ids),
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "max_position_embeddings": 128,
        "activation_function": "swish",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": tied,
        "pad_token_id": pad,
        "eos_token_id": end,
        "forced_eos_token_id": None,
        "decoder_start_token_id": pad,
    }
    torch.manual_seed(4)
    model = MarianMTModel(MarianConfig(**(values | changed))).eval()
    with torch.no_grad():  # biases of zero and norms of one would hide mistakes
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter), alpha=0.5)
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, end] += 3
        model.final_logits_bias[0, [unknown, pad]] = -100  # Heedful writes neither, whatever a model thinks of them
    logging.disable_progress_bar()
    model.save_pretrained(folder, max_shard_size=shard)
    return model
