"""Damage to files of text: bytes, lines, JSON and TOML values.

Every mutator takes a random generator and the bytes of a file, and returns other bytes. What a mutator cannot read as
its own format, it damages as bytes.
"""

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any, Final

Mutator = Callable[[Random, bytes], bytes]

_DEEP: Final = {"@deep-100@": 100, "@deep-100000@": 100_000}
ODD_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, "", "x", "1", "\0", "\ud800", "x" * 10_000, "../../x", "/dev/zero", "NaN", -1, 0, 1, 2, 3, 7,
    255, 4097, 10**6, 10**9, 2**31, 2**32, 2**63, 2**64, 10**30, -(10**9), -(10**30), 0.0, 0.5, -0.5, 1e-300, 1e308,
    float("nan"), float("inf"), float("-inf"), [], {}, [[]], [None], [0], ["x"], [1, "x", None, {}], {"x": 1},
    {"": {"": {}}}, list(range(1000)), *_DEEP,
)  # fmt: skip
_WORDS: Final = (
    b"10000000000",
    b"-1",
    b"1e999",
    b"nan",
    b"true",
    b'"x"',
    b"[]",
    b"{}",
    b"1000000000",
    b"0",
    b"99999999999999999999999999999999",
)
_INSERTED: Final = (
    b"\0", b"\xff", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b"\t", b'"', b"\\",
    b"\xe2\x80\xa8", b"\x1b[2J", b"<s>", b"</s>", b"<unk>", b"[MASK]", b"\xf4\x8f\xbf\xbf", b"\xcc\x81" * 2000, b"%s%n",
)  # fmt: skip
_LENGTHS: Final = (1_000, 20_000, 200_000, 999_000, 1_000_001, 4_000_000)


# --- bytes ------------------------------------------------------------------------------------------------------------


def flip_bytes(chance: Random, data: bytes) -> bytes:
    """Change one to eight bytes."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8) if data else 0):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def truncate(chance: Random, data: bytes) -> bytes:
    """Keep the beginning."""
    return data[: chance.randrange(len(data) + 1)]


def delete_span(chance: Random, data: bytes) -> bytes:
    """Leave a part out."""
    begin, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return data[:begin] + data[end:]


def duplicate_span(chance: Random, data: bytes) -> bytes:
    """Repeat a part, once or many times."""
    begin, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    times = chance.choice((2, 2, 3, 50))
    return data[:begin] + data[begin:end] * times + data[end:]


def insert_odd_bytes(chance: Random, data: bytes) -> bytes:
    """Insert what is not text, or not of this text."""
    place = chance.randrange(len(data) + 1)
    return data[:place] + chance.choice(_INSERTED) * chance.choice((1, 1, 1, 100)) + data[place:]


def empty(chance: Random, data: bytes) -> bytes:
    """Keep nothing."""
    return b""


def insert_long_run(chance: Random, data: bytes) -> bytes:
    """Insert a word, a line or a run of spaces of any length."""
    place, length = chance.randrange(len(data) + 1), chance.choice(_LENGTHS)
    unit = chance.choice((b"x", b"xy ", b" ", b"\t", b"\n", "語".encode(), b"ab", b"1", b"0x1F "))
    return data[:place] + (unit * (length // len(unit))) + data[place:]


def insert_random_word(chance: Random, data: bytes) -> bytes:
    """Insert one enormous word without any repetition."""
    place, length = chance.randrange(len(data) + 1), chance.choice(_LENGTHS)
    return data[:place] + bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz0123456789", k=length)) + data[place:]


def replace_number(chance: Random, data: bytes) -> bytes:
    """Replace a number that is written as text."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data[:200_000]))
    if not found:
        return insert_odd_bytes(chance, data)
    number = chance.choice(found)
    return data[: number.start()] + chance.choice(_WORDS) + data[number.end() :]


BYTES: Final[tuple[Mutator, ...]] = (
    flip_bytes, truncate, delete_span, duplicate_span, insert_odd_bytes, empty, replace_number,
)  # fmt: skip
TEXT: Final[tuple[Mutator, ...]] = (*BYTES, insert_long_run, insert_random_word)


# --- JSON -------------------------------------------------------------------------------------------------------------


def change_json(chance: Random, data: bytes) -> bytes:
    """Change, rename, remove or repeat one to three values of a JSON file."""
    try:
        value = json.loads(data)
    except ValueError:
        return flip_bytes(chance, data)
    for _ in range(chance.choice((1, 1, 2, 3))):
        value = change_value(chance, value)
    return dump(value)


def dump(value: Any) -> bytes:
    """Write JSON; some texts stand for lists that are nested too deep to be written by Python."""
    text = json.dumps(value)
    for mark, depth in _DEEP.items():
        text = text.replace(f'"{mark}"', "[" * depth + "]" * depth)
    return text.encode(errors="surrogatepass")


def change_value(chance: Random, value: Any) -> Any:
    """Return a JSON value with one change somewhere inside; `value` itself may be changed."""
    holders = list(_holders(value))
    if not holders or chance.random() < 0.02:
        return chance.choice(ODD_VALUES)
    holder = chance.choice(holders)
    key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    match chance.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[chance.choice(("", "x", "type", f"{key}x", "\0", "1"))] = holder.pop(key)
        case 1:
            holder.extend([holder[key]] * chance.choice((1, 2, 1000)))
        case 2 if isinstance(holder, dict):
            holder[chance.choice(list(holder))] = holder[key]  # two keys with one value
        case _:
            holder[key] = chance.choice(ODD_VALUES)
    return value


def _holders(value: Any, depth: int = 0) -> list[Any]:
    """Return the objects and lists that are not empty; of long ones the first and last entries are looked at."""
    if not isinstance(value, dict | list) or depth > 12:
        return []
    items = list(value.values()) if isinstance(value, dict) else value
    some = items if len(items) <= 40 else [*items[:20], *items[-20:]]
    return ([value] if items else []) + [holder for item in some for holder in _holders(item, depth + 1)]


def change_json_line(chance: Random, data: bytes) -> bytes:
    """Change a line of a JSONL file."""
    lines = data.split(b"\n")
    place = chance.randrange(len(lines))
    lines[place] = change_json(chance, lines[place])
    return b"\n".join(lines)


# --- TOML -------------------------------------------------------------------------------------------------------------

_ODD_TOML: Final = (
    "-1", "0", "1", "2", "3", "1000", "1000000", "1000000000", "1" + "0" * 30, "-1" + "0" * 30, "1e9", "1e308", "1e999",
    "nan", "inf", "-inf", "0.5", "true", "false", '""', '"x"', '"\\u0000"', "'/dev/zero'", '"auto"', "[]", "{}", "[[]]",
    "[1, 'x']", "{ x = 1 }", "1979-05-27", "07:32:00", '"' + "x" * 5000 + '"', "[" * 200 + "]" * 200, "0x10",
    '"cuda:99"', '"../.."', '"~nobody/x"', "",
)  # fmt: skip


def change_toml(chance: Random, data: bytes) -> bytes:
    """Change, rename, remove or repeat keys of a recipe."""
    lines = data.decode(errors="surrogateescape").split("\n")
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        places = [place for place, line in enumerate(lines) if "=" in line]
        if not places:
            break
        place = chance.choice(places)
        key, _, value = lines[place].partition("=")
        match chance.randrange(8):
            case 0:
                del lines[place]
            case 1:
                lines.insert(chance.randrange(len(lines) + 1), lines[place])
            case 2:
                lines[place] = key.strip() + chance.choice(("x", ".x", "-", "=", '"')) + " = " + value
            case 3:
                lines[place] = re.sub(r'"[^"]*"|\d+', lambda _: chance.choice(_ODD_TOML), lines[place], count=1)
            case _:
                lines[place] = f"{key}= {chance.choice(_ODD_TOML)}"
    return "\n".join(lines).encode(errors="surrogateescape")
