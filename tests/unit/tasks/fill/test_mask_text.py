"""Texts around masks: encoded as in training, and with the pieces put back as text."""

import re
from collections.abc import Iterator

import pytest
from tests.unit.tasks.fill.mask_tokenizers import TOKENIZERS, all_kinds, wording
from tests.unit.tasks.masked_models import TEXTS, mask_of, masked_bundle

from heedful.data.tokenize.tokenizer import UNKNOWN, Tokenizer
from heedful.tasks.fill.mask_text import split_at_masks
from heedful.tasks.fill.model import MaskFiller

# --- pieces around masks ----------------------------------------------------------------------------------------------


def masked_one_by_one(tokenizer: Tokenizer, text: str) -> Iterator[tuple[str, list[int]]]:
    """The text with each of its words masked that is one piece, and the text's own pieces with a mask for that one."""
    ids = tokenizer.encode(text)
    for word in re.finditer(r"[^\s.,☃]+", text):
        with_word = len(tokenizer.encode(text[: word.end()]))
        without = (text[: word.start()], text[: word.start()].removesuffix(" "))  # the piece may hold a space
        if any(tokenizer.encode(before) == ids[: with_word - 1] for before in without):
            masked = text[: word.start()] + "[MASK]" + text[word.end() :]
            yield masked, [*ids[: with_word - 1], mask_of(tokenizer), *ids[with_word:]]


@pytest.mark.parametrize("kind", ["byte_bpe", "bpe", "wordpiece", "unigram", "word"])
@pytest.mark.parametrize("text", [*TEXTS[:4], "the  cat   sat", "a cat\tsat on the\n mat", "the ☃ cat ☃ saw ☃"])
def test_a_mask_takes_the_place_of_a_word_and_nothing_else_changes(kind: str, text: str) -> None:
    cases = list(masked_one_by_one(TOKENIZERS[kind], text))
    for masked, expected in cases:
        assert wording(kind).encode([split_at_masks(masked)]) == [expected], masked
    if text == TEXTS[0]:
        assert len(cases) == 6


@all_kinds
def test_a_text_without_masks_is_encoded_as_it_is(kind: str) -> None:
    for text in TEXTS:
        assert wording(kind).encode([[text]]) == [TOKENIZERS[kind].encode(text)]


def shown(kind: str, text: str) -> list[str]:
    (ids,) = wording(kind).encode([split_at_masks(text)])
    return TOKENIZERS[kind].pieces(ids)


def test_byte_level_masks_hold_the_space_before_them() -> None:
    assert shown("byte_bpe", "the cat [MASK] on") == ["the", "▁cat", "<mask>", "▁on"]
    assert shown("byte_bpe", "the cat  [MASK]on") == ["the", "▁cat", "▁", "<mask>", "on"]
    assert shown("byte_bpe", "the [MASK] [MASK][MASK].") == ["the", "<mask>", "<mask>", "<mask>", "."]
    assert shown("byte_bpe", "[MASK] cat") == ["<mask>", "▁cat"]
    assert shown("byte_bpe", "the\n[MASK]") == ["the", "<0x0A>", "<mask>"]


def test_unigram_masks_hold_the_space_before_them_and_what_follows_goes_on_with_the_word() -> None:
    assert shown("unigram", "the cat [MASK]. a") == ["▁the", "▁cat", "<mask>", ".", "▁a"]
    assert shown("unigram", "the [MASK] [MASK] a") == ["▁the", "<mask>", "<mask>", "▁a"]
    assert shown("unigram", "[MASK] [MASK], a") == ["<mask>", "<mask>", ",", "▁a"]
    assert shown("unigram", "un[MASK]able") == ["▁un", "<mask>", "able"]
    assert shown("unigram", "the [MASK]☃. a") == ["▁the", "<mask>", "<unk>", ".", "▁a"]
    assert shown("unigram", "the cat☃[MASK]able") == ["▁the", "▁cat", "<unk>", "<mask>", "able"]


def test_pieces_before_a_mask_inside_a_word_do_not_end_it() -> None:
    assert shown("bpe", "un [MASK] able")[:2] != shown("bpe", "un[MASK] able")[:2]
    before = shown("bpe", "cat un[MASK]able .")
    place = before.index("<mask>")
    assert "".join(before[:place]) == "cat</w>un"
    assert "".join(before[place + 1 :]) == "able</w>.</w>"
    assert shown("bpe", "cat ☃[MASK]") == ["cat</w>", "<unk>", "<mask>"]
    assert shown("bpe", "cat\n[MASK]") == ["cat</w>", "<mask>"]


def test_wordpiece_and_word_masks_are_words_by_themselves() -> None:
    assert shown("wordpiece", "the cat[MASK], the") == ["the", "cat", "<mask>", ",", "the"]
    assert shown("word", "the cat[MASK]. the") == ["the", "cat", "<mask>", ".", "the"]


def test_character_masks_are_one_character() -> None:
    assert shown("char", "a c[MASK]t[MASK]a") == ["a", "▁", "c", "<mask>", "t", "<mask>", "a"]
    assert shown("char", "a [MASK]") == ["a", "▁", "<mask>"]


@all_kinds
def test_no_other_text_is_a_mask(kind: str) -> None:
    for text in ("[mask] < mask> [ MASK ] <MASK>", "</s> <s> <unk> <pad>"):
        (ids,) = wording(kind).encode([split_at_masks(text)])
        assert all(token == UNKNOWN or token >= TOKENIZERS[kind].markers for token in ids)


def test_the_form_of_text_is_given_to_what_is_around_masks_and_the_answer_keeps_the_users() -> None:
    tokenizer = TOKENIZERS["word"]
    lower = wording("word", lowercase=True)
    assert lower.encode([split_at_masks("THE [MASK] Sat")]) == [
        [*tokenizer.encode("the"), mask_of(tokenizer), *tokenizer.encode("sat")]
    ]
    filler = MaskFiller(masked_bundle(lowercase=True))
    found, small = filler.fill(["THE [MASK] Sat", "the [MASK] sat"])
    assert found.masks == small.masks
    assert found.text == f"THE {found.masks[0][0].text} Sat"


# --- back to text -----------------------------------------------------------------------------------------------------


def token_of(kind: str, shown_as: str) -> int:
    tokenizer = TOKENIZERS[kind]
    (token,) = (token for token in range(tokenizer.size) if tokenizer.pieces([token]) == [shown_as])
    return token


PUT_BACK = [
    ("byte_bpe", "the [MASK] sat", ["▁cat"], "the cat sat"),
    ("byte_bpe", "the [MASK] sat", ["."], "the. sat"),
    ("byte_bpe", "the[MASK] sat", ["▁cat"], "the cat sat"),
    ("byte_bpe", "[MASK] sat", ["▁cat"], "cat sat"),
    ("byte_bpe", "H[MASK][MASK]he", ["<0xC3>", "<0xB6>"], "Höhe"),
    ("byte_bpe", "the [MASK] [MASK].", ["▁cat", "▁sat"], "the cat sat."),
    ("bpe", "the [MASK] sat", ["cat</w>"], "the cat sat"),
    ("bpe", "the [MASK] sat", ["c"], "the csat"),
    ("bpe", "the [MASK]at sat", ["c"], "the cat sat"),
    ("wordpiece", "the [MASK] sat.", ["cat"], "the cat sat."),
    ("wordpiece", "the c [MASK] sat", ["##a"], "the ca sat"),
    ("wordpiece", "the cat [MASK] the", [","], "the cat, the"),
    ("wordpiece", "the ([MASK]) [MASK]", ["cat", "sat"], "the (cat) sat"),
    ("wordpiece", "the [MASK][MASK] on", ["cat", "sat"], "the cat sat on"),
    ("unigram", "a [MASK] b", ["▁un"], "a un b"),
    ("unigram", "[MASK] b", ["▁un"], "un b"),
    ("unigram", "a [MASK] b", ["t"], "at b"),
    ("word", "the [MASK] sat [MASK]", ["cat", "."], "the cat sat ."),
    ("char", "the c[MASK]t", ["a"], "the cat"),
    ("char", "the[MASK]cat", ["▁"], "the cat"),
]


@pytest.mark.parametrize(("kind", "text", "pieces", "expected"), PUT_BACK)
def test_pieces_are_put_into_the_users_own_text(kind: str, text: str, pieces: list[str], expected: str) -> None:
    assert wording(kind).filled(split_at_masks(text), [token_of(kind, piece) for piece in pieces]) == expected


@all_kinds
def test_what_is_filled_in_is_what_the_pieces_spell(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    for text in TEXTS[:2]:
        ids = tokenizer.encode(text)
        for masked, pieces in masked_one_by_one(tokenizer, text):
            (own,) = (token for token, piece in zip(ids, pieces, strict=True) if piece == tokenizer.mask)
            assert wording(kind).filled(split_at_masks(masked), [own]) == text
