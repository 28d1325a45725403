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
_MARKS: Final = {**{mark: "[" * depth + "]" * depth for mark, depth in _DEEP.items()}, "@digits@": "9" * 6000}
ODD_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, "", "x", "1", "\0", "\ud800", "x" * 10_000, "../../x", "/dev/zero", "NaN", -1, 0, 1, 2, 3, 7,
    255, 4097, 10**6, 10**9, 2**31, 2**32, 2**63, 2**64, 10**30, -(10**9), -(10**30), 0.0, 0.5, -0.5, 1e-300, 1e308,
    float("nan"), float("inf"), float("-inf"), [], {}, [[]], [None], [0], ["x"], [1, "x", None, {}], {"x": 1},
    {"": {"": {}}}, list(range(1000)), *_MARKS,
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
    b"9" * 6000, b"\x1b]0;x\x07", "\u202e".encode(), b"(" * 5000, b")" * 50, b"[" * 5000, b"&x;", b"<!--", b"]]>",
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
    """Write JSON; some texts stand for what Python does not write: very deep lists, and very long numbers."""
    text = json.dumps(value)
    for mark, written in _MARKS.items():
        text = text.replace(f'"{mark}"', written)
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


# --- XML --------------------------------------------------------------------------------------------------------------

_ENTITIES: Final = (  # each ten times the one before it
    '<!DOCTYPE x [<!ENTITY a0 "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    + "]>"
)
_OUTSIDE: Final = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd"><!ENTITY % p SYSTEM "http://127.0.0.1/x">]>'


def change_xml(chance: Random, data: bytes) -> bytes:
    """Change tags, attributes and texts of a file in XML; declare entities that grow or come from outside."""
    text = data.decode(errors="replace")
    tags = list(re.finditer(r"<[^>]*>", text))
    if not tags:
        return flip_bytes(chance, data)
    tag = chance.choice(tags)
    declared = text.index("?>") + 2 if "?>" in text else 0
    match chance.randrange(8):
        case 0:
            text = text[:declared] + _ENTITIES + text[declared : tag.end()] + "&a9;" + text[max(declared, tag.end()) :]
        case 1:
            text = text[:declared] + _OUTSIDE + text[declared : tag.end()] + "&e;" + text[max(declared, tag.end()) :]
        case 2:
            depth = chance.choice((100, 100_000))
            text = text[: tag.end()] + "<hi>" * depth + "</hi>" * depth + text[tag.end() :]
        case 3:
            text = text[: tag.start()] + text[tag.end() :]
        case 4:
            text = text[: tag.end()] + tag[0] * chance.choice((1, 1000)) + text[tag.end() :]
        case 5:
            value = chance.choice(("", "x" * 100_000, "&#0;", "en-" * 1000, "<", "\ud800"))
            text = re.sub(r'="[^"]*"', lambda found: f'="{value}"', text, count=chance.choice((1, 3)))
        case 6:
            encoding = chance.choice(("utf-16", "utf-7", "x", "ucs-4", "cp037", "iso-8859-1"))
            text = text.replace("UTF-8", encoding).replace("utf-8", encoding)
        case _:
            words = f" x{chance.randrange(9)}=''" * chance.choice((1, 20_000))
            text = text[: tag.end() - 1] + words + text[tag.end() - 1 :]
    return text.encode(errors="surrogatepass")


# --- tables and trees -------------------------------------------------------------------------------------------------


_CELLS: Final = (
    b"", b" ", b"nan", b"1e999", b"-inf", b"9" * 5000, b"../../etc/passwd", b"/dev/zero", b"=1+1", b"x" * 200_000,
)  # fmt: skip


def change_cells(chance: Random, data: bytes) -> bytes:
    """Change separators, quotes and cells of a table."""
    lines = data.split(b"\n")
    place = chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:
            lines[place] += chance.choice((b"\t", b",", b";", b" ")) * chance.choice((1, 3, 100_000))
        case 1:
            lines[place] = b'"' + lines[place]
        case 2:
            lines[place] = lines[place].replace(b"\t", b",").replace(b",", b"\t")
        case 3:
            lines[0] = chance.choice((b"", lines[-1], lines[0] + lines[0], b"\xef\xbb\xbf" + lines[0]))
        case 4:
            cells = re.split(rb"([\t,])", lines[place])
            cells[chance.randrange(len(cells))] = chance.choice(_CELLS)
            lines[place] = b"".join(cells)
        case _:
            chance.shuffle(lines)
    return b"\n".join(lines)


def change_brackets(chance: Random, data: bytes) -> bytes:
    """Nest, close, open and label the brackets of trees."""
    place, depth = chance.randrange(len(data) + 1), chance.choice((1, 3, 200, 20_000, 200_000))
    inserted = chance.choice((b"(", b")", b"(X ", b"(X (Y y) ", b"(X x)", b"(", b"()"))
    after = chance.choice((b"", b")" * depth))
    return data[:place] + inserted * depth + after + data[place:]
