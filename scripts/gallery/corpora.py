"""The training data of the gallery's models, from the generators that ship with Heedful, and invented reviews."""

import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from PIL import Image

from heedful.data.builtin.english_spanish import sentence_pairs
from heedful.data.builtin.reports import NAMES, NUMBERS, PLACES, SURNAMES, THINGS, TIMES, report_questions
from heedful.data.builtin.scenes import COLOURS, SHAPES, Scene, Thing
from heedful.data.builtin.scenes_drawing import draw_scene

PARTS: Final = {"train": 6000, "valid": 300}
SIZES: Final = ("medium", "large")
NEUTRAL: Final = (
    "The film lasts two hours.", "It was shot in the north.", "We saw it on a Sunday.", "It is based on a novel.",
    "My brother bought the tickets.", "There are four songs in it.", "The story begins in a harbour.",
    "The cinema was half full.", "The director is from Norway.", "A teacher moves to a small town.",
    "Two sisters inherit a farm.", "It came out in the spring.",
)  # fmt: skip
# The images that are explained; no training image equals them.
STAR: Final = Scene((Thing("star", "orange", "large", 0, 2, 0.04, -0.08),))
SCENE: Final = Scene((Thing("star", "yellow", "large", 0, 1), Thing("circle", "blue", "large", 2, 0)))
PRAISE: Final = ("great", "lovely", "moving", "wonderful", "clever", "funny", "superb", "charming")
BLAME: Final = ("dull", "awful", "clumsy", "boring", "weak", "silly", "dreadful", "tedious")
JUDGED: Final = ("plot", "cast", "music", "ending", "acting", "dialogue", "camera work", "pace")
SAID: Final = ("The {0} was {1}.", "I found the {0} {1}.", "In my view the {0} is {1}.", "What a {1} {0}!")


def write_corpora(folder: Path) -> None:
    """Write the files that the recipes of the gallery name."""
    folder.mkdir(parents=True)
    _draw(STAR, folder / "star.png")
    _draw(SCENE, folder / "scene.png")
    for part, count in PARTS.items():
        chance = random.Random(f"gallery {part}")
        for write in (_shapes, _scenes, _texts, _tagged, _reviews):
            write(folder, part, count, chance)


def _thing(chance: random.Random, cell: int) -> Thing:
    down, right = chance.uniform(-0.1, 0.1), chance.uniform(-0.1, 0.1)
    shape, colour, size = chance.choice(SHAPES), chance.choice(COLOURS), chance.choice(SIZES)
    return Thing(shape, colour, size, *divmod(cell, 3), down, right)


def _shapes(folder: Path, part: str, count: int, chance: random.Random) -> None:
    """Write images of one thing, in a folder for each shape."""
    for number in range(count):
        thing = _thing(chance, chance.randrange(9))
        _draw(Scene((thing,)), folder / "shapes" / part / thing.shape / f"{number}.png")


def _scenes(folder: Path, part: str, count: int, chance: random.Random) -> None:
    """Write images of two things, with a caption and questions."""
    captions, questions = [], []
    for number in range(count):
        one, other = (_thing(chance, cell) for cell in sorted(chance.sample(range(9), 2)))
        if one.shape == other.shape or one.colour == other.colour:
            continue
        name = f"scenes/{part}/{number}.png"
        _draw(Scene((one, other)), folder / name)
        said = f"{_called(one)} and {_called(other)}"
        captions.append({"path": name, "caption": said})
        for thing in (one, other):
            questions.append({"path": name, "question": f"what colour is the {thing.shape} ?", "answer": thing.colour})
            questions.append(
                {"path": name, "question": f"what shape is the {thing.colour} thing ?", "answer": thing.shape}
            )
    _write(folder / f"captions.{part}.jsonl", map(json.dumps, captions))
    _write(folder / f"questions.{part}.jsonl", map(json.dumps, questions))


def _called(thing: Thing) -> str:
    return f"{'an' if thing.colour == 'orange' else 'a'} {thing.colour} {thing.shape}"


def _texts(folder: Path, part: str, count: int, chance: random.Random) -> None:
    """Write plain sentences, and reports, with marks as words of their own."""
    _write(folder / f"english.{part}.txt", (_split(english) for english, _ in sentence_pairs(part, 5 * count)))
    reports = dict.fromkeys(_split(text) for _, text, _, _ in report_questions(part, 5 * count))
    _write(folder / f"reports.{part}.txt", reports)


def _split(text: str) -> str:
    return re.sub(r"([.,?!])", r" \1", text)


def _tagged(folder: Path, part: str, count: int, chance: random.Random) -> None:
    """Write reports whose people, things, places and times are marked: one word per line with its label."""
    texts = dict.fromkeys(text for _, text, _, _ in report_questions(part, count))
    _write(folder / f"entities.{part}.conll", (line for text in texts for line in _labelled(text)))


ENTITIES: Final[Mapping[tuple[str, ...], str]] = {
    **{(first, surname): "PERSON" for first in NAMES for surname in SURNAMES},
    **{tuple(thing.split()): "THING" for thing in THINGS},
    **{tuple(place.core.split()): "PLACE" for place in PLACES},
    **{tuple(time.core.split()): "TIME" for time in TIMES},
    **{(number,): "NUMBER" for number in NUMBERS},
}


def _labelled(text: str) -> Iterator[str]:
    words = _split(text).split()
    at = 0
    while at < len(words):
        length, label = next(filter(None, (_entity(words[at : at + length]) for length in (3, 2, 1))), (1, ""))
        for number, word in enumerate(words[at : at + length]):
            yield f"{word}\t{'BI'[number > 0] + '-' + label if label else 'O'}"
        at += length
        if words[at - 1] == ".":
            yield ""


def _entity(words: list[str]) -> tuple[int, str] | None:
    """Return the number of words and the label of an entity, which may be at the start of a sentence."""
    small = (words[0].lower(), *words[1:])
    label = ENTITIES.get(tuple(words)) or ENTITIES.get(small)
    return (len(words), label) if label else None


def _reviews(folder: Path, part: str, count: int, chance: random.Random) -> None:
    """Write reviews of two to four sentences that say nothing, and one or two with an opinion."""
    rows = []
    for _ in range(count // 2):
        label, words = chance.choice((("positive", PRAISE), ("negative", BLAME)))
        sentences = chance.sample(NEUTRAL, chance.randint(2, 4))
        for judged in chance.sample(JUDGED, chance.randint(1, 2)):
            said = chance.choice(SAID).format(judged, chance.choice(words))
            sentences.insert(chance.randint(0, len(sentences)), said)
        rows.append(f"{label}\t{' '.join(sentences)}")
    _write(folder / f"reviews.{part}.tsv", rows)


def _draw(scene: Scene, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(draw_scene(scene)).save(path)


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
