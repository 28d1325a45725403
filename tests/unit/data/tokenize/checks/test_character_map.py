"""Compiled rules of normalisation: those of SentencePiece are accepted, and no other kills the library."""

import random
import struct

import pytest
from tests.shared.refusals import refuses
from tests.unit.interop.marian_folders import ENGLISH, spm
from tokenizers import normalizers

from heedful.data.tokenize.checked_json import check_character_map
from heedful.interop.transformers.tokenizers.sentencepiece_file import read_sentencepiece


def rules_of(name: str) -> bytes:
    return read_sentencepiece(spm(ENGLISH, normalization_rule_name=name), "x.spm").normalisation.rules


@pytest.mark.parametrize("name", ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"])
def test_the_rules_of_sentencepiece_are_accepted(name: str) -> None:
    check_character_map(rules_of(name))


def test_what_is_accepted_can_be_applied() -> None:
    chance, sound = random.Random(1), rules_of("nfkc")
    texts = ["".join(chr(chance.randrange(0x20, 0x3000)) for _ in range(100)) for _ in range(3)]
    applied = 0
    for _ in range(60):
        changed = bytearray(sound)
        for _ in range(chance.choice((1, 2, 8))):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            check_character_map(bytes(changed))
        except ValueError:
            continue
        applied += 1
        for text in texts:
            normalizers.Precompiled(bytes(changed)).normalize_str(text)
    assert 0 < applied < 60


@pytest.mark.parametrize(
    ("units", "texts", "words"),
    [
        ([], b"", "the trie has no size that fits"),
        ([0x7FFFFFFF] * 256, b"", "the trie leads outside of itself"),
        ([0] * 255, b"", "the trie leads outside of itself"),
        ([0] * 256, b"\xff", "the texts are not UTF-8"),
        ([1 << 10 | 1 << 8, 5, *[0] * 254], b"ab\0", "a value is outside of the texts"),
        ([1 << 10 | 1 << 8, 1, *[0] * 254], "é\0".encode(), "a value is inside of a character"),
    ],
)
def test_rules_that_lead_outside_are_refused(units: list[int], texts: bytes, words: str) -> None:
    trie = struct.pack(f"<{len(units)}I", *units)
    with refuses(words, ValueError):
        check_character_map(struct.pack("<I", len(trie)) + trie + texts)


@pytest.mark.parametrize("data", [b"", b"\x04\0\0\0", b"\x03\0\0\0abcdef", b"\xff\xff\xff\xff1234"])
def test_a_size_that_does_not_fit_is_refused(data: bytes) -> None:
    with refuses("the trie has no size that fits", ValueError):
        check_character_map(data)
