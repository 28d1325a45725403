"""The line that a translator has to beat: word by word, by a dictionary that is learned from co-occurrence.

The dictionary is learned as in `links.py`. Each source word becomes its most likely target word, in the order of the
source; unknown words are copied. A side whose texts have no spaces is read letter by letter, and a letter becomes up to
two target units: as many as it usually has.
It is learned once per run, from the same training pairs, in seconds. Nothing is drawn at random.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from heedful.data.collate import gather, lengths_of
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.tasks.shared.line import sample_rows
from heedful.tasks.translate.links import Ids, Links

_MOST_LINKS: Final = 3_000_000  # pairs of a source and a target token: of more pairs of sentences, some are sampled
_LONGEST: Final = 100  # units of a side that are read


class Pair(NamedTuple):
    """A source, its target, and the language of the target where there are several."""

    source: str
    target: str
    language: str = ""


def sample_pairs(train: Sequence[TokenStore], vocabularies: Vocabularies) -> tuple[list[Pair], str]:
    """Return training pairs as texts, some at equal distances where there are many, and which these are, in words."""
    count = sum(map(len, train))
    every, _ = sample_rows(count, 1_000, "pair")
    links = float(np.mean(lengths_of(train, "source", every) * lengths_of(train, "target", every)))
    rows, sample = sample_rows(count, max(1, int(_MOST_LINKS / max(1.0, links))), "pair")
    languages = {number: language for language, number in vocabularies["source"].tags.items()}
    sides = []
    for name in ("source", "target"):
        tokens, lengths = gather(train, name, rows)
        sides.append([part.tolist() for part in np.split(tokens, np.cumsum(lengths)[:-1])])
    named = [languages.get(ids[0], "") if ids else "" for ids in sides[0]]
    sources = [ids[1:] if language else ids for ids, language in zip(sides[0], named, strict=True)]
    texts = vocabularies["source"].decode_batch(sources), vocabularies["target"].decode_batch(sides[1])
    return [Pair(*pair) for pair in zip(*texts, named, strict=True)], sample


@dataclass(frozen=True)
class Units:
    """What a side is read in: words, or letters."""

    letters: bool

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Units":
        """Return letters where most texts have no space between words."""
        return cls(2 * sum(len(text.split()) > 1 for text in texts) < len(texts))

    def split(self, text: str) -> list[str]:
        """Return the units of a text; of letters, spaces are units too."""
        return list(text.strip()) if self.letters else text.split()

    def join(self, units: Sequence[str]) -> str:
        """Return the text of units."""
        return ("" if self.letters else " ").join(units)


class Dictionary:
    """The usual translations of words or letters."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._source, self._target = (Units.of([pair[side] for pair in pairs]) for side in (0, 1))
        sources = [[(pair.language, unit) for unit in self._source.split(pair.source)[:_LONGEST]] for pair in pairs]
        targets = [self._target.split(pair.target)[:_LONGEST] for pair in pairs]
        kept = [number for number in range(len(pairs)) if sources[number] and targets[number]]
        names = sorted({unit for number in kept for unit in targets[number]})
        known = sorted({unit for number in kept for unit in sources[number]})
        numbers, of_target = ({unit: place for place, unit in enumerate(units)} for units in (known, names))
        found = _translations(
            [np.array([numbers[unit] for unit in sources[number]]) for number in kept],
            [np.array([of_target[unit] for unit in targets[number]]) for number in kept],
            len(names),
            2 if self._source.letters else 1,
        )
        self._known = {unit: [names[target] for target in found.get(place, ())] for unit, place in numbers.items()}

    def translate(self, text: str, language: str = "") -> str:
        """Return the translation of a text."""
        units = self._source.split(text)
        return self._target.join([one for unit in units for one in self._known.get((language, unit), (unit,))])


def _translations(sources: Sequence[Ids], targets: Sequence[Ids], target_units: int, most: int) -> dict[int, list[int]]:
    """Return the most likely target units of each source unit: one, or as many as it usually has, up to `most`."""
    if not sources:
        return {}
    links = Links.of(sources, targets, target_units)
    t = links.learn()
    counts = links.counts(t)
    of_source = links.keys // target_units
    occurs = np.bincount(np.concatenate(sources))
    usual = np.rint(np.bincount(of_source, counts) / np.maximum(occurs, 1)).clip(0, most).astype(int)
    ranked = np.lexsort((links.keys, -t, of_source))
    found: dict[int, list[int]] = {}
    for place in ranked.tolist():
        source = int(of_source[place])
        chosen = found.setdefault(source, [])
        if len(chosen) < (1 if most == 1 else usual[source]):
            chosen.append(int(links.keys[place] % target_units))
    return found
