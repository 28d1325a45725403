"""Right and wrong pairs of captions, from captions in two languages that are aligned line by line.

Captions are taken two by two, and each two swap their translations: of the captions i and j come four rows,

    yes  i's English  i's German        yes  j's English  j's German
    no   i's English  j's German        no   j's English  i's German

so every caption, in either language, is in one right and in one wrong row: whoever reads one side alone is right in
half of the rows and no more. Which captions are taken together is drawn within a part, such as train or val:

random     by a permutation drawn from the seed
similar    in an order drawn from the seed, each caption that is left with the most similar one that is left

The similarity of two captions is the mean over both languages of 2 s / (a + b), where a and b are the sums of the
weights of their words and s that of the words they share: alike if they share most words and are of similar length. A
word, lowercased and counted once, weighs log(n / m) if m of the n captions have it, as "a man" says little. Captions
whose words are the same in one of the languages do not swap: the wrong row would be right. A caption without a partner
at the end is left out.
"""

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import UserError
from heedful.base.files import write_bytes

Caption = tuple[str, str]  # English, German
Swap = tuple[int, int]
ROWS = 4  # of a swap


@dataclass(frozen=True)
class Drawn:
    """Captions that swap their translations."""

    swaps: list[Swap]
    similarity: float  # mean over swaps

    def rows(self, captions: Sequence[Caption]) -> list[tuple[str, str, str]]:
        """The labels and both texts."""
        found = []
        for i, j in self.swaps:
            for one, other in ((i, j), (j, i)):
                found.append(("yes", captions[one][0], captions[one][1]))
                found.append(("no", captions[one][0], captions[other][1]))
        return found


def draw_random(captions: Sequence[Caption], seed: int) -> Drawn:
    order = np.random.default_rng(seed).permutation(len(captions)).tolist()
    swaps = list(zip(order[0::2], order[1::2], strict=False))
    likeness = _Likeness(captions)
    return Drawn(swaps, mean(float(likeness.of(i)[j]) for i, j in swaps[:1000]))


def draw_similar(captions: Sequence[Caption], seed: int) -> Drawn:
    likeness = _Likeness(captions)
    left = np.ones(len(captions), dtype=bool)
    swaps, similarities = [], []
    for i in np.random.default_rng(seed).permutation(len(captions)).tolist():
        if not left[i]:
            continue
        left[i] = False
        similar = np.where(left, likeness.of(i), -1.0)
        j = int(similar.argmax())
        if similar[j] >= 0:
            left[j] = False
            swaps.append((i, j))
            similarities.append(float(similar[j]))
    return Drawn(swaps, mean(similarities))


class _Likeness:
    """The similarity of captions, by lists of the captions that have a word."""

    def __init__(self, captions: Sequence[Caption]) -> None:
        self._sides = [_Side([caption[side] for caption in captions]) for side in (0, 1)]

    def of(self, i: int) -> NDArray[np.float64]:
        """That of a caption to all; -1 for itself, and for one whose words are the same in one of the languages."""
        sides = [side.of(i) for side in self._sides]
        return np.where(np.maximum(*sides) > 1 - 1e-9, -1.0, np.mean(sides, axis=0))


class _Side:
    def __init__(self, texts: Sequence[str]) -> None:
        self._words = [sorted(set(re.findall(r"\w+", text.lower()))) for text in texts]
        having: dict[str, list[int]] = {}
        for number, words in enumerate(self._words):
            for word in words:
                having.setdefault(word, []).append(number)
        self._having = {word: np.array(numbers) for word, numbers in having.items()}
        self._weight = {word: float(np.log(len(texts) / len(numbers))) + 1e-6 for word, numbers in having.items()}
        self._sums = np.array([sum(map(self._weight.__getitem__, words)) for words in self._words])

    def of(self, i: int) -> NDArray[np.float64]:
        shared = np.zeros(len(self._words))
        for word in self._words[i]:
            shared[self._having[word]] += self._weight[word]
        return 2 * shared / np.maximum(self._sums + self._sums[i], 1e-12)


# --- files ------------------------------------------------------------------------------------------------------------

DRAWS = {"similar": draw_similar, "random": draw_random}


def read_captions(folder: Path, part: str, languages: tuple[str, str] = ("en", "de")) -> list[Caption]:
    """The captions of a part: NAME.en.gz and NAME.de.gz, a caption per line."""
    sides = []
    for language in languages:
        path = folder / f"{part}.{language}.gz"
        if not path.exists():
            raise UserError(f"{path} does not exist: give the folder with Multi30k's files.")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            sides.append([" ".join(line.split()) for line in lines])
    if len(sides[0]) != len(sides[1]):
        raise UserError(f"{part} has {len(sides[0]):,} English captions, but {len(sides[1]):,} German ones.")
    return list(zip(*sides, strict=True))


def write_pairs(splits: dict[str, list[list[Caption]]], out: Path, seed: int) -> dict[str, float]:
    """Write SPLIT.similar.tsv and SPLIT.random.tsv of the parts of each split; return their mean similarities."""
    out.mkdir(parents=True, exist_ok=True)
    found = {}
    for split, parts in splits.items():
        for kind, draw in DRAWS.items():
            drawn = [(captions, draw(captions, seed)) for captions in parts]
            rows = [row for captions, swapped in drawn for row in swapped.rows(captions)]
            write_bytes(out / f"{split}.{kind}.tsv", "".join("\t".join(row) + "\n" for row in rows).encode())
            found[f"{split}_{kind}"] = mean(swapped.similarity for _, swapped in drawn)
    return found
