"""Damage to the files of models: safetensors, tokenizers and SentencePiece models."""

import base64
import json
import struct
from random import Random
from typing import Any, Final

from benchmarks.damage.mutators import change_value, dump, flip_bytes

# --- safetensors ------------------------------------------------------------------------------------------------------

_TYPES: Final = ("F64", "F32", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL", "F8_E4M3", "U64", "X", "")
_SHAPES: Final[tuple[Any, ...]] = (
    [],
    [0],
    [1],
    [10**9],
    [10**6, 10**6],
    [2**32, 2**32],
    [-1],
    [1] * 100,
    "x",
    None,
    [1.5],
)


def change_tensors(chance: Random, data: bytes) -> bytes:
    """Change the header of a safetensors file, or its numbers."""
    try:
        size = int.from_bytes(data[:8], "little")
        header, tensors = json.loads(data[8 : 8 + size]), data[8 + size :]
        names = [name for name in header if name != "__metadata__"]
        name = chance.choice(names)
    except (ValueError, IndexError, AttributeError):
        return flip_bytes(chance, data)
    if chance.random() < 0.7 and isinstance(header.get("__metadata__"), dict):
        header["__metadata__"].pop("sha256", None)  # as in files that others write
    match chance.randrange(9):
        case 0:
            header[name]["dtype"] = chance.choice(_TYPES)
        case 1:
            header[name]["shape"] = chance.choice(_SHAPES)
        case 2:
            header[name]["data_offsets"] = chance.choice(([0, 0], [0, 10**12], [-1, 4], [8, 4], [], "x", [0, 4]))
        case 3:
            header[chance.choice(("x", "", name + ".x", "\0"))] = header.pop(name)
        case 4:
            header = change_value(chance, header)
        case 5:
            tensors = struct.pack("<f", chance.choice((float("nan"), float("inf"), 3e38, 0.0))) * (len(tensors) // 4)
        case 6:
            return chance.choice((0, 1, 2**31, 2**63, 2**64 - 1, 10**8)).to_bytes(8, "little") + data[8:]
        case 7:
            del header[name]
        case _:
            tensors = flip_bytes(chance, tensors)
    written = dump(header)
    return len(written).to_bytes(8, "little") + written + tensors


# --- tokenizers -------------------------------------------------------------------------------------------------------

_REGEXES: Final = (
    "(a*)*$",
    "(x+x+)+y",
    "",
    "(",
    "[",
    "\\p{X}",
    "(?=",
    ".*" * 30,
    "\\s*",
    "a{100000}",
    "(?:a{1000}){1000}",
)


def change_tokenizer(chance: Random, data: bytes) -> bytes:
    """Change a tokenizer.json where its library trusts it."""
    try:
        tokenizer = json.loads(data)
        model = tokenizer["model"]
        vocabulary = model["vocab"]
        piece = chance.choice(list(vocabulary))
    except (ValueError, KeyError, IndexError, TypeError):
        return flip_bytes(chance, data)
    long = chance.choice("xé語") * chance.choice((5_000, 200_000, 1_000_000))
    number = chance.choice((10**9, 2**32 - 1, 2**32, -1, 0, 3, len(vocabulary), len(vocabulary) + 1, 10**30, 0.5, None))
    match chance.randrange(9):
        case 0 if isinstance(vocabulary, dict):
            vocabulary[piece] = number
        case 0:
            piece[1] = chance.choice((0, 1e308, -1e308, float("nan"), float("inf"), None, "x"))
        case 1 if isinstance(vocabulary, dict):
            vocabulary[long] = vocabulary.pop(piece)
        case 1:
            piece[0] = long
        case 2 if isinstance(vocabulary, dict):
            vocabulary[long] = chance.choice((len(vocabulary), 10**9))
        case 2:
            model["unk_id"] = number
        case 3:
            chance.choice(tokenizer["added_tokens"])["id"] = number
        case 4:
            chance.choice(tokenizer["added_tokens"])["content"] = chance.choice(
                ("", "x", "<2xx>", "<mask>", "\0", long)
            )
        case 5:
            model["merges"] = chance.choice(
                (["a b"], [["a", "b"]], [["", ""]], ["x"], [[]], [list("ab")] * 1000, 1, None)
            )
        case 6:
            part = chance.choice(("normalizer", "pre_tokenizer", "decoder", "post_processor", "truncation", "padding"))
            tokenizer[part] = chance.choice(_parts(chance))
        case 7:
            model["type"] = chance.choice(("BPE", "WordPiece", "WordLevel", "Unigram", "X", None))
        case _:
            tokenizer = change_value(chance, tokenizer)
    return dump(tokenizer)


def _parts(chance: Random) -> list[Any]:
    regex = {"Regex": chance.choice(_REGEXES)}
    truncated = {"direction": "Right", "max_length": chance.choice((0, 1, 10**9)), "strategy": "LongestFirst"}
    padded = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": 0, "pad_id": 0}
    template = [{"SpecialToken": {"id": "x", "type_id": 0}}]
    return [
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(character_map(chance)).decode()},
        {"type": "Replace", "pattern": regex, "content": chance.choice(("", "x", "x" * 1000))},
        {"type": "Split", "pattern": regex, "behavior": "Isolated", "invert": chance.random() < 0.5},
        {"type": "Sequence", "normalizers": [], "pretokenizers": [], "decoders": []},
        {"type": "Prepend", "prepend": "x" * 100_000},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "Strip", "content": "x", "start": 10**9, "stop": 10**9},
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "TemplateProcessing", "single": template, "pair": [], "special_tokens": {}},
        {"type": "Digits", "individual_digits": True},
        {"type": "Punctuation", "behavior": "Removed"},
        {**truncated, "stride": chance.choice((0, 1, 5))},
        {**padded, "pad_type_id": 0, "pad_token": "x"},
        *({"type": kind} for kind in ("ByteFallback", "Fuse", "CTC", "Metaspace", "X")),
        None,
        1,
        [],
    ]


def character_map(chance: Random) -> bytes:
    """Return rules of normalisation in SentencePiece's compiled form, with a trie of random numbers."""
    units = chance.choice((0, 1, 10, 255, 256, 1024))
    trie = b"".join(struct.pack("<I", chance.getrandbits(32)) for _ in range(units))
    if trie and chance.random() < 0.5:  # a root that is followed, and a node for each letter
        labels = [
            struct.pack("<I", letter | chance.choice((0x100, 0)) | chance.getrandbits(21) << 10)
            for letter in range(256)
        ]
        trie = struct.pack("<I", 1 << 10) + trie[4:] + b"".join(labels)
    size = chance.choice((len(trie), len(trie), len(trie), 0, 3, 2**31, len(trie) + 4))
    return struct.pack("<I", size) + trie + chance.choice((b"", b"a\0b\0", b"\xff\xff", "é\0ü".encode()))


# --- SentencePiece ----------------------------------------------------------------------------------------------------


def change_sentencepiece(chance: Random, data: bytes) -> bytes:
    """Add or change a field of a SentencePiece model."""
    long = chance.choice((b"x", "語".encode())) * chance.choice((5_000, 200_000, 1_000_000))
    match chance.randrange(5):
        case 0:
            return data + field(1, field(1, long) + b"\x15" + struct.pack("<f", -1.0))
        case 1:
            return data + field(3, field(2, character_map(chance)))
        case 2:
            return data + field(1, field(1, chance.choice((b"", b"\xff", b"\0", b"<s>", "▁".encode() * 5000))))
        case 3:
            return data + field(
                2, varint(chance.choice((3, 24, 35, 4)) << 3) + varint(chance.choice((0, 1, 2, 3, 2**63)))
            )
        case _:
            return flip_bytes(chance, data)


def field(number: int, value: bytes) -> bytes:
    """Write a field of bytes in the form of Protocol Buffers."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(number: int) -> bytes:
    """Write a number, seven bits per byte."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
