"""A tokenizer of each kind with a mask, and the codec of texts around it."""

import pytest
import tokenizers
from tests.unit.tasks.masked_models import TEXTS, mask_of
from tokenizers import decoders, models, pre_tokenizers

from heedful.config.tokenizer import AnyTokenizer, Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.text_form import TextForm
from heedful.data.tokenize.tokenizer import MASK, SPECIALS, UNKNOWN, Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.tasks.fill.mask_text import MaskTextCodec

KINDS: dict[str, AnyTokenizer] = {
    "byte_bpe": ByteBpe(size=340),
    "bpe": Bpe(kind="bpe", size=140),
    "wordpiece": WordPiece(kind="wordpiece", size=140),
    "unigram": Unigram(kind="unigram", size=60),
    "word": Words(kind="word", size=100),
    "char": Characters(kind="char", size=100),
}


def unigram_by_hand() -> Tokenizer:
    """The trainer finds hardly a word in so little text."""
    words = ("the", "cat", "sat", "on", "mat", "a", "un", "dog", "saw", "ball", ".", ",", "able")
    whole = [*(f"▁{word}" for word in words), "able", "believ", ".", ","]
    letters = sorted({letter for text in TEXTS for letter in text} - {" ", ".", ","})
    pieces = [*((piece, -2.0) for piece in whole), *((letter, -5.0) for letter in ("▁", *letters))]
    markers = (*SPECIALS, MASK)
    library = tokenizers.Tokenizer(models.Unigram([*((marker, 0.0) for marker in markers), *pieces], UNKNOWN, False))
    library.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    library.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    library.add_special_tokens(list(markers))
    return Tokenizer.from_json(Tokenizer(library).to_json(), "by hand")


TOKENIZERS = {kind: train_tokenizer(config, TEXTS, mask=True) for kind, config in KINDS.items()}
TOKENIZERS["unigram"] = unigram_by_hand()
all_kinds = pytest.mark.parametrize("kind", KINDS)


def wording(kind: str, lowercase: bool = False, tokenizer: Tokenizer | None = None) -> MaskTextCodec:
    tokenizer = tokenizer or TOKENIZERS[kind]
    return MaskTextCodec(tokenizer, kind, TextForm(lowercase=lowercase), mask_of(tokenizer))
