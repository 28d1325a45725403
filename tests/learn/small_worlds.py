"""Small worlds that a model can learn in seconds: what a right answer is follows from a simple rule, with no noise."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
ANIMALS, TOOLS, COLOURS = (["cat", "dog", "horse"], ["saw", "drill", "hammer"], ["red", "green", "blue"])
FILLERS = ["the", "a", "so", "then", "there", "very", "quite", "here", "now", "again"]
NAMES = ["anna", "ben", "carla", "dora", "emil"]
THINGS = ["a cup", "a hat", "two coins", "the old map", "an apple", "nothing new"]

Rows = Iterator[dict[str, Any]]


def spelled_numbers(draw: Random, count: int) -> Rows:
    """Yield digits, and the same numbers in words."""
    for _ in range(count):
        digits = [draw.randrange(10) for _ in range(draw.randint(2, 5))]
        yield {"source": " ".join(map(str, digits)), "target": " ".join(DIGITS[digit] for digit in digits)}


def topics(draw: Random, count: int) -> Rows:
    """Yield texts with a word of one of three kinds among fillers; a number goes with each kind and filler."""
    kinds = {"animal": ANIMALS, "tool": TOOLS, "colour": COLOURS}
    for _ in range(count):
        kind = draw.choice(sorted(kinds))
        words = [draw.choice(FILLERS) for _ in range(draw.randint(4, 8))]
        number = 10.0 * sorted(kinds).index(kind) + words.count("very")
        words.insert(draw.randrange(len(words)), draw.choice(kinds[kind]))
        yield {"text": " ".join(words), "label": kind, "number": number}


def tagged_words(draw: Random, count: int) -> Rows:
    """Yield words with labels of BIO: a colour belongs to the animal after it."""
    for _ in range(count):
        words, labels = list[str](), list[str]()
        for _ in range(draw.randint(2, 4)):
            words += [draw.choice(FILLERS)]
            labels += ["O"]
            if draw.random() < 0.5:
                words += [draw.choice(COLOURS), draw.choice(ANIMALS)]
                labels += ["B-animal", "I-animal"]
            else:
                words += [draw.choice(ANIMALS)]
                labels += ["B-animal"]
        yield {"text": " ".join(words), "label": " ".join(labels)}


def questions(draw: Random, count: int) -> Rows:
    """Yield texts that say what each person has, and a question about one of them."""
    for _ in range(count):
        names = draw.sample(NAMES, 3)
        owned = {name: draw.choice(THINGS) for name in names}
        asked = draw.choice(names)
        text = " . ".join(f"{name} has {thing}" for name, thing in owned.items()) + " ."
        start = text.index(f"{asked} has ") + len(f"{asked} has ")
        yield {"text": text, "question": f"what has {asked} ?", "answer": owned[asked], "start": start}


def trees(draw: Random, count: int) -> Iterator[str]:
    """Yield bracketed trees of short sentences."""
    for _ in range(count):
        subject, thing = (
            f"(NP (DT {draw.choice(['the', 'a'])}) "
            + (f"(JJ {draw.choice(COLOURS)}) " if draw.random() < 0.5 else "")
            + f"(NN {draw.choice(ANIMALS)}))"
            for _ in range(2)
        )
        yield f"(S {subject} (VP (VB {draw.choice(['sees', 'likes'])})" + (
            f" {thing}))" if draw.random() < 0.6 else "))"
        )


def counting(draw: Random, count: int) -> Iterator[str]:
    """Yield lines that count upwards from some digit, in words: after the first word, all are certain."""
    for _ in range(count):
        first = draw.randrange(10)
        yield " ".join(DIGITS[(first + step) % 10] for step in range(8))


def bright_corners(draw: Random, count: int) -> Iterator[tuple[np.ndarray[Any, Any], str, str]]:
    """Yield images of 16 x 16 pixels with one bright quarter, and its row and column in words."""
    for _ in range(count):
        row, column = draw.randrange(2), draw.randrange(2)
        pixels = np.array([[draw.randrange(60) for _ in range(16)] for _ in range(16)], np.uint8)
        pixels[8 * row : 8 * row + 8, 8 * column : 8 * column + 8] += 150
        yield pixels, ("top", "bottom")[row], ("left", "right")[column]


def write_rows(folder: Path, rows: Callable[[Random, int], Rows], sizes: Mapping[str, int]) -> None:
    """Write train.jsonl and valid.jsonl."""
    for seed, (split, count) in enumerate(sizes.items()):
        lines = (json.dumps(row) for row in rows(Random(seed), count))
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")


def write_lines(folder: Path, lines: Callable[[Random, int], Iterator[str]], sizes: Mapping[str, int]) -> None:
    """Write train.txt and valid.txt."""
    for seed, (split, count) in enumerate(sizes.items()):
        (folder / f"{split}.txt").write_text("\n".join(lines(Random(seed), count)) + "\n")


def write_images(folder: Path, sizes: Mapping[str, int]) -> None:
    """Write images, and train.jsonl and valid.jsonl that name them with a label, a caption, a question and a number."""
    for seed, (split, count) in enumerate(sizes.items()):
        rows = []
        for number, (pixels, row, column) in enumerate(bright_corners(Random(seed), count)):
            name = f"{split}-{number}.png"
            Image.fromarray(pixels).save(folder / name)
            asked, answer = (("which row?", row), ("which column?", column))[number % 2]
            place = 2.0 * (row == "bottom") + (column == "right")
            rows.append(
                {
                    "image": name,
                    "label": f"{row} {column}",
                    "caption": f"the light is at the {row} {column}",
                    "question": asked,
                    "answer": answer,
                    "number": place,
                }
            )
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
