"""Rows that files of people have: opinions, ratings, translations and drawn images; and the ways to write them."""

import csv
import io
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ROWS = 40
GOOD = ("wonderful", "lovely", "great", "superb")
BAD = ("awful", "boring", "dreadful", "poor")
THINGS = ("film", "book", "meal", "hotel", "song", "game", "café", "journey")
ENDINGS = ("and I would go again", "said my friend, who knows", "in the end", "for once", "to be honest")
COLOURS = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (50, 70, 210)}
GERMAN = {"the": "das", "a": "ein", "film": "Film", "book": "Buch", "meal": "Essen", "hotel": "Hotel"} | {
    "was": "war", "great": "großartig", "poor": "dürftig", "song": "Lied", "game": "Spiel", "is": "ist"
}  # fmt: skip
RUSSIAN = {"the": "", "film": "фильм", "book": "роман", "meal": "ужин", "hotel": "отель", "was": "был"} | {
    "great": "великолепен", "poor": "плох", "song": "концерт", "game": "матч"
}  # fmt: skip
CHINESE = {"film": "电影", "book": "书", "meal": "饭菜", "hotel": "酒店", "song": "歌", "game": "游戏"}


# --- rows -------------------------------------------------------------------------------------------------------------


def opinions(count: int = ROWS, seed: int = 1) -> list[tuple[str, str]]:
    """Different texts, each with its label."""
    chance, found = random.Random(seed), dict[str, str]()
    while len(found) < count:
        good = len(found) % 2 == 0
        word, thing = chance.choice(GOOD if good else BAD), chance.choice(THINGS)
        text = f"The {thing} was {word}, {chance.choice(ENDINGS)}, number {len(found)}."
        found[text] = "positive" if good else "negative"
    return list(found.items())


def stars(seed: int = 2) -> list[tuple[str, float]]:
    """Texts with numbers."""
    chance = random.Random(seed)
    return [(text, round(chance.uniform(3, 5) if label == "positive" else chance.uniform(1, 3), 1))
            for text, label in opinions(seed=seed)]  # fmt: skip


def translations(words: dict[str, str], count: int = ROWS, seed: int = 3) -> list[tuple[str, str]]:
    """English sentences and their translations word by word."""
    chance, found = random.Random(seed), dict[str, str]()
    while len(found) < count:
        things = [thing for thing in THINGS if thing in words]
        parts = ["the", chance.choice(things), "was", chance.choice(("great", "poor"))]
        parts += [str(len(found))]
        other = " ".join(filter(None, (words.get(part, part) for part in parts)))
        found[" ".join(parts)] = other
    return list(found.items())


# --- writing ----------------------------------------------------------------------------------------------------------


def table(rows: Iterable[Sequence[object]], separator: str = ",", end: str = "\n") -> str:
    """The text of a table, with quotes where they are needed."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator=end).writerows(rows)
    return text.getvalue()


def written(folder: Path, name: str, text: str, encoding: str = "utf-8") -> list[str]:
    """Write one file, and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return [str(path)]


def json_lines(folder: Path, name: str, rows: Iterable[Any]) -> list[str]:
    """Write one object per line."""
    return written(folder, name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def drawn(folder: Path, count: int = ROWS) -> list[tuple[str, str, float]]:
    """Draw images of one colour; return the path of each, its colour and its brightness."""
    (folder / "pictures").mkdir(exist_ok=True)
    found = []
    for number in range(count):
        colour, shade = [*COLOURS][number % 3], 0.4 + 0.6 * (number % 7) / 7
        name = f"pictures/photo {number:03}.png"
        draw(folder / name, colour, shade, number)
        found.append((name, colour, round(100 * shade, 1)))
    return found


def draw(path: Path, colour: str, shade: float, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((16, 16, 3), [int(shade * part) for part in COLOURS[colour]], np.uint8)
    pixels[number % 16, :, :] = number % 200  # no two are equal
    Image.fromarray(pixels).save(path)
