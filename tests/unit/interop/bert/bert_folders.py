"""Folders of BERT models of random weights to import, with a vocabulary of several scripts."""

import json
import random
import unicodedata
from pathlib import Path
from typing import Any, Final, Literal

import torch
from tests.models.text import BLAME, NOUNS, PRAISE
from tests.unit.interop.marian_folders import ENGLISH, GERMAN, ODD, some_texts
from transformers import BertConfig, BertForPreTraining, BertTokenizer, PreTrainedModel
from transformers.utils import logging

Files = Literal["list", "library", "both"]  # vocab.txt, tokenizer.json

MARKERS: Final = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")  # in the order of ours
# What texts are mixed with beside `ODD`: what is taken away, kept apart or lowercased, and words near the longest.
ODDER: Final = (
    "\x00", "\x07", "\x7f", "\x85", "\ufffd", "\u00ad", "\u200d", "\ufeff", "\u2028", "\r", "\n", "\x1c", "\ue000",
    "漢", "字", "漢字", "𠀀", "豈", "かな", "カタカナ", "한국어", "ไทย", "مَرْحَبًا", "क्षि", "ＦＵＬＬ", "a\u0301\u0323",
    "ÉCOLE", "école", "Ünïcödé", "İstanbul", "ΣΊΣΥΦΟΣ", "ǅ", "!", "?!", "...", "—", "’s", "«", "、", "。", "$5", "a+b",
    "^_^", "`", "don't", "e-mail", "x" * 99, "x" * 100, "x" * 101, "é" * 60, "ab" * 50, "ab" * 51, "[", "]",
    "[unused1]", "[row-7]", "##", "##ing", "<s>", "</s>", "<unk>", "<pad>", "<2de>", "1,000.5", "the", "The", "THE",
)  # fmt: skip


def varied_texts(count: int, seed: int = 0) -> list[str]:
    """Words of two languages with all that is odd between them; none has BERT's markers in it."""
    chance = random.Random(seed)
    odd = [*ODD, *ODDER]
    texts = some_texts(count, seed)
    return [
        "".join(
            word + chance.choice((" ", " ", "", chance.choice(odd), f" {chance.choice(odd)} "))
            for word in text.split(" ")
        )
        for text in texts
    ]


def bert_pieces() -> list[str]:
    """Letters, words and ends of words in any order; the markers stand somewhere between, as in BERT's."""
    chance = random.Random(5)
    words = sorted({part for line in (*ENGLISH, *GERMAN, *ODD, *ODDER) for part in line.split()})
    words += [_plain(word) for word in words]
    letters = sorted({letter for word in words for letter in word if chance.random() < 0.9})
    cut = [(word, chance.randint(1, max(1, len(word) - 1))) for word in words if chance.random() < 0.7]
    pieces = [*letters, *(f"##{letter}" for letter in letters), *words[::3], *NOUNS, *PRAISE, *BLAME, "the", "was"]
    pieces += [piece for word, place in cut for piece in (word[:place], f"##{word[place:]}")]
    pieces = [piece for piece in dict.fromkeys(pieces) if piece.strip("#") and len(piece.split()) == 1]
    chance.shuffle(pieces)
    return ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<S>", *_without(pieces, MARKERS)]


def write_bert_vocabulary(folder: Path, files: Files = "both", **options: Any) -> list[str]:
    """Write a vocabulary in one of its forms, with options of the tokenizer; return its pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = bert_pieces()
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **options}))
    if files != "list":
        BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    if files == "library":
        (folder / "vocab.txt").unlink()
    return pieces


def write_bert(
    folder: Path,
    kind: type[PreTrainedModel] = BertForPreTraining,
    *,
    files: Files = "both",
    lowercase: bool = True,
    shard: str = "5GB",
    **changed: Any,
) -> Any:
    """Write a BERT model of random weights with its vocabulary; return it."""
    pieces = write_bert_vocabulary(folder, files, do_lower_case=lowercase)
    values = {
        "vocab_size": len(pieces),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 24,
        "max_position_embeddings": 96,
        "hidden_dropout_prob": 0.25,
        "attention_probs_dropout_prob": 0.125,
    }
    torch.manual_seed(4)
    model = kind(BertConfig(**(values | changed))).eval()
    with torch.no_grad():  # biases of zero and norms of one would hide mistakes
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    logging.disable_progress_bar()
    model.save_pretrained(folder, max_shard_size=shard)
    return model


def _plain(word: str) -> str:
    """As an uncased model has it."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")


def _without(pieces: list[str], others: tuple[str, ...]) -> list[str]:
    return [piece for piece in pieces if piece not in others]
