"""What an .spm file says, against the program that wrote it, and one line for every file that Heedful cannot read."""

from typing import Any

import pytest
import sentencepiece
from tests.unit.interop.marian_folders import ENGLISH, spm

from heedful.base.errors import UserError
from heedful.interop.transformers.tokenizers.sentencepiece_file import read_sentencepiece


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("options", [{}, {"byte_fallback": True, "size": 400}], ids=str)
def test_pieces_and_scores_are_the_programs(kind: str, options: dict[str, Any]) -> None:
    data = spm(ENGLISH, kind, **options)
    program, model = sentencepiece.SentencePieceProcessor(model_proto=data), read_sentencepiece(data, "x.spm")
    numbers = range(program.get_piece_size())
    normal = [n for n in numbers if not (program.is_control(n) or program.is_unknown(n) or program.is_byte(n))]
    assert model.algorithm == kind
    assert list(model.scores) == [program.id_to_piece(n) for n in normal]
    assert list(model.scores.values()) == [program.get_score(n) for n in normal]
    assert model.byte_pieces == tuple(program.id_to_piece(n) for n in numbers if program.is_byte(n))
    assert bool(model.byte_pieces) == bool(options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalization_rule_name": "identity"},
        {"add_dummy_prefix": False},
        {"remove_extra_whitespaces": False, "normalization_rule_name": "nfkc_cf"},
    ],
    ids=str,
)
def test_normalisation_is_read(options: dict[str, Any]) -> None:
    found = read_sentencepiece(spm(ENGLISH, **options), "x.spm").normalisation
    assert found.name == options.get("normalization_rule_name", "nmt_nfkc")
    assert bool(found.rules) == (found.name != "identity")
    assert found.dummy_prefix == options.get("add_dummy_prefix", True)
    assert found.extra_spaces_removed == options.get("remove_extra_whitespaces", True)


def test_letters_are_the_pieces_of_one_character() -> None:
    model = read_sentencepiece(spm(ENGLISH), "x.spm")
    assert model.letters == set("".join(ENGLISH)) - {" "} | {"▁"}


def refusal(data: bytes) -> str:
    with pytest.raises(UserError) as caught:
        read_sentencepiece(data, "x.spm")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def inside(field: int, message: bytes) -> bytes:
    """A message inside another; what is appended to a file is merged with what it says."""
    return bytes([field << 3 | 2, len(message)]) + message


def test_kinds_that_are_not_known_are_refused() -> None:
    assert refusal(spm(ENGLISH, "char")) == "x.spm has model type 4, but Heedful reads unigram and bpe (1 and 2)."


def test_spaces_in_other_places_are_refused() -> None:
    assert refusal(spm(ENGLISH, treat_whitespace_as_suffix=True)) == (
        "x.spm: `treat_whitespace_as_suffix` is true, but Heedful supports only spaces before words."
    )
    assert refusal(spm(ENGLISH) + inside(3, b"\x28\x00")) == (
        "x.spm: `escape_whitespaces` is false, but Heedful supports only pieces with `▁` for a space."
    )


def test_rules_behind_the_model_are_refused() -> None:
    assert refusal(spm(ENGLISH) + inside(5, inside(2, b"rules"))) == (
        "x.spm has rules that change its output text, which Heedful does not support."
    )


def test_pieces_of_other_types_are_refused() -> None:
    assert refusal(spm(ENGLISH, user_defined_symbols="<sep>")) == (
        "x.spm: the piece `<sep>` is USER_DEFINED, which Heedful does not support."
    )
    assert refusal(spm(ENGLISH) + inside(1, inside(1, b"x") + b"\x18\x05")) == (
        "x.spm: the piece `x` is UNUSED, which Heedful does not support."
    )


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "it has no pieces"),
        (b"not a model", "wire type 6 at byte 1"),
        (b"\x08\x01", "found the number 1 instead of bytes"),
        (inside(1, inside(1, b"\xff")), "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (inside(1, inside(1, b"x") + b"\x18\x09"), "9 is not a valid PieceType"),
        (inside(1, inside(1, b"x") + inside(3, b"")), "field 3 is not a number"),
        (inside(1, inside(1, b"x") + inside(2, b"ab")), "unpack requires a buffer of 4 bytes"),
        (inside(1, inside(1, b"x") + b"\x15\x00\x00\xc0\x7f"), "a score is not finite"),
        (inside(1, inside(1, b"x")) + inside(3, inside(2, b"rules")), "its normalisation rules are damaged"),
    ],
)
def test_a_damaged_file_is_refused(data: bytes, what: str) -> None:
    assert refusal(data) == f"x.spm is not a SentencePiece model ({what}): copy it again."


@pytest.mark.parametrize("length", [1_001, 200_000])
def test_an_enormous_piece_is_refused(length: int) -> None:
    piece = "é" * length
    size = len(piece.encode())
    inner = b"\x0a" + _varint(size) + piece.encode()
    assert refusal(spm(ENGLISH, "bpe") + b"\x0a" + _varint(len(inner)) + inner) == (
        f"x.spm is not a SentencePiece model (a piece has {length:,} characters, but the longest may have 1,000): copy "
        "it again."
    )


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80]) + _varint(number >> 7) if number > 0x7F else bytes([number])


def test_a_score_that_is_left_out_is_zero() -> None:
    model = read_sentencepiece(inside(1, inside(1, b"x")) + inside(1, inside(1, b"y") + b"\x15\x00\x00\x80\xbf"), "x")
    assert model.scores == {"x": 0.0, "y": -1.0}


def test_a_message_in_two_parts_is_one() -> None:
    kind, spelling = b"\x18\x02", b"\x98\x02\x01"
    byte_piece = inside(1, inside(1, b"<0x41>") + b"\x18\x06")
    model = read_sentencepiece(inside(1, inside(1, b"x")) + byte_piece + inside(2, kind) + inside(2, spelling), "x")
    assert (model.algorithm, model.byte_pieces) == ("bpe", ("<0x41>",))
