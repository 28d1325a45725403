"""The texts that golden curves are trained on."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Final

NOUNS: Final = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jackdaw", "kingfisher", "lapwing")
PRAISE: Final = ("great", "lovely", "funny", "superb")
BLAME: Final = ("dull", "awful", "boring", "flat")
TOPICS: Final = ("cast", "plot", "sound")


def write_texts(folder: Path) -> None:
    """All corpora: an epoch of each is less than twenty updates."""
    chance = random.Random(0)
    for name, count, turned in (("back", 110, -1), ("same", 50, 1)):
        sentences = [chance.choices(NOUNS, k=chance.randint(1, 6)) for _ in range(count)]
        _write(folder / f"{name}.in", (" ".join(words) for words in sentences))
        _write(folder / f"{name}.out", (" ".join(words[::turned]).replace("a", "o") for words in sentences))
    labels = [chance.choice(("pos", "pos", "neg")) for _ in range(100)]
    _write(folder / "reviews.tsv", (f"{label}\t{_review(label, chance)}" for label in labels))
    _write(folder / "pairs.tsv", (_pair(label, chance) for label in labels))
    _write(folder / "topics.tsv", (_topical(chance) for _ in range(100)))
    _write(folder / "running.txt", (_document(chance) for _ in range(40)))


def _review(label: str, chance: random.Random) -> str:
    words = PRAISE if label == "pos" else BLAME
    said = (f"The {chance.choice(NOUNS)} was {chance.choice(words)} ." for _ in range(chance.randint(1, 5)))
    return " ".join(said)


def _pair(label: str, chance: random.Random) -> str:
    """Of one opinion or of two."""
    first = chance.choice(("pos", "neg"))
    second = first if label == "pos" else "neg" if first == "pos" else "pos"
    return f"{label}\t{_review(first, chance)}\t{_review(second, chance)}"


def _topical(chance: random.Random) -> str:
    """Any number of topics, also none."""
    topics = [topic for topic in TOPICS if chance.random() < 0.4]
    said = " ".join(f"The {topic} was {chance.choice(PRAISE + BLAME)} ." for topic in topics)
    return f"{','.join(topics)}\t{_review('pos', chance)} {said}"


def _document(chance: random.Random) -> str:
    """Sentences that count up through the animals, and a blank line."""
    start, sentences = chance.randrange(len(NOUNS)), []
    for number in range(chance.randint(3, 6)):
        length = chance.randint(3, 7)
        words = [NOUNS[(start + number * 3 + place) % len(NOUNS)] for place in range(length)]
        sentences.append("The " + " ".join(words) + ".")
    return " ".join(sentences) + "\n"


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
