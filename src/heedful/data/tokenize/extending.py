"""A vocabulary that grows: new pieces for new texts, learned on top of a trained tokenizer of any kind.

The old pieces keep their ids. What the old vocabulary cannot spell at all, new letters or whole words, comes first;
then the two pieces that occur next to each other most often become one, again and again (Sennrich et al. 2016), in
words that the old vocabulary has cut. The same texts always give the same pieces: equal counts follow the alphabet.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, Final

from tokenizers import Tokenizer as Library

from heedful.base.errors import UserError
from heedful.data.tokenize.tokenizer import UNKNOWN, Tokenizer

_LEAST: Final = 2  # times that a new piece occurs: one that occurs once would be learned from one example
_DIGITS: Final = 6  # of the scores of a unigram model, as in training
_WORDS: Final = re.compile(r"▁?[^▁]+|▁+")  # where the vocabulary itself does not split texts
Pair = tuple[str, str]


class Extended(Tokenizer):
    """A tokenizer with new pieces at its end; `parts` has the old ids that each of them replaces."""

    def __init__(self, inner: Library, parts: Sequence[tuple[int, ...]]) -> None:
        super().__init__(inner)
        self.parts = parts


def extend_tokenizer(tokenizer: Tokenizer, texts: Iterable[str], count: int, letters_only: bool = False) -> Extended:
    """Add at most `count` pieces that texts need; fewer where the texts do not support more.

    `letters_only` is for vocabularies of single characters.
    """
    growing = _Growing(json.loads(tokenizer.to_json()), count)
    words = growing.count(texts, whole=letters_only)
    growing.add_letters(words)
    if not letters_only and growing.kind != "WordLevel":
        growing.merge(words)
    if not growing.parts:
        raise UserError(
            "`tokenizer.extend`: the training texts need no new pieces, as the vocabulary spells all of their words: "
            "leave it out."
        )
    return Extended(growing.library(), [growing.parts[piece] for piece in growing.added])


class _Growing:
    """A vocabulary, as the library writes it, while it grows."""

    def __init__(self, written: dict[str, Any], room: int) -> None:
        self._written, self._room = written, room
        self.model: dict[str, Any] = written["model"]
        self.kind: str = self.model["type"]
        unigram = self.kind == "Unigram"
        listed = [piece for piece, _ in self.model["vocab"]] if unigram else self.model["vocab"]
        self._known = {piece: n for n, piece in enumerate(listed)} if unigram else dict(self.model["vocab"])
        self._size = Library.from_str(json.dumps(written)).get_vocab_size()
        self.added: list[str] = []
        self.parts: dict[str, tuple[int, ...]] = {}

    @property
    def full(self) -> bool:
        """Whether there are as many new pieces as were asked for."""
        return len(self.added) >= self._room

    def library(self) -> Library:
        """Return the vocabulary by now."""
        return Library.from_str(json.dumps(self._written))

    def count(self, texts: Iterable[str], whole: bool) -> Counter[str]:
        """Return how often each word occurs, as the vocabulary splits texts; of letters alone, each letter."""
        library, words = self.library(), Counter[str]()
        for text in texts:
            normal = text if library.normalizer is None else library.normalizer.normalize_str(text)
            if whole:
                words.update(normal)
            elif library.pre_tokenizer is None:
                words.update(_WORDS.findall(normal))
            else:
                words.update(word for word, _ in library.pre_tokenizer.pre_tokenize_str(normal))
        return words

    def add(self, piece: str, parts: tuple[int, ...], score: float) -> None:
        """Add a piece, unless it is there."""
        if piece in self._known:
            return
        self._known[piece] = self._size + len(self.added)
        if self.kind == "Unigram":
            self.model["vocab"].append([piece, round(score, _DIGITS)])
        else:
            self.model["vocab"][piece] = self._known[piece]
        self.added.append(piece)
        self.parts[piece] = parts

    # --- what the vocabulary cannot spell -----------------------------------------------------------------------------

    def add_letters(self, words: Counter[str]) -> None:
        """Add the letters of words that have no pieces yet; to a vocabulary of words, the words."""
        tokenize, missing = self.library().model.tokenize, Counter[str]()
        for word, times in words.items():
            pieces = tokenize(word)
            if not pieces or any(piece.id == UNKNOWN for piece in pieces):
                missing.update({form: times * n for form, n in Counter(self._forms(word)).items()})
        lowest = min((score for _, score in self.model["vocab"]), default=0.0) if self.kind == "Unigram" else 0.0
        for form in sorted(missing, key=lambda form: (-missing[form], form)):
            if self.full:
                return
            if missing[form] >= _LEAST:
                self.add(form, (self._nearest(form),), lowest)

    def _nearest(self, form: str) -> int:
        """Return the id of the same letter elsewhere in a word, or of what is unknown."""
        inside, end = self._inside, self.model.get("end_of_word_suffix") or ""
        letter = form.removeprefix(inside).removesuffix(end)
        alike = [self._known[other] for other in (letter, inside + letter, letter + end) if other in self._known]
        return next((number for number in alike if number < self._size), UNKNOWN)

    def _forms(self, word: str) -> list[str]:
        """Return the smallest pieces that a word can be cut into."""
        inside, end = self._inside, self.model.get("end_of_word_suffix") or ""
        if self.kind == "WordLevel":
            return [word]
        letters = [*word[:1], *(inside + letter for letter in word[1:])]
        return [*letters[:-1], letters[-1] + end] if letters else []

    @property
    def _inside(self) -> str:
        """What marks a piece that does not begin a word."""
        return self.model.get("continuing_subword_prefix") or ""

    # --- pieces that become one ---------------------------------------------------------------------------------------

    def merge(self, words: Counter[str]) -> None:
        """Make one piece of two that are neighbours, the most frequent pair first, until there are enough."""
        tokenize = self.library().model.tokenize
        cut = [([piece.value for piece in tokenize(word)], times) for word, times in sorted(words.items())]
        pairs = _Pairs(cut, self._unknown())
        total = sum(len(pieces) * times for pieces, times in cut)
        scores = dict(self.model["vocab"]) if self.kind == "Unigram" else {}
        merges: list[Any] | None = self.model.get("merges")
        as_text = merges is not None and any(isinstance(one, str) for one in merges[:1])
        while not self.full and (found := pairs.most_frequent()):
            (one, other), times = found
            piece = one + other.removeprefix(self._inside)
            own = math.log(times / total)
            if scores:  # never less likely than its parts, which would still be preferred
                own = max(own, scores[one] + scores[other] + 10**-_DIGITS)
                scores.setdefault(piece, own)
            self.add(piece, self._parts_of(one) + self._parts_of(other), own)
            if merges is not None:
                merges.append(f"{one} {other}" if as_text else [one, other])
            pairs.merge((one, other), piece)

    def _unknown(self) -> frozenset[str]:
        """Return the piece of what cannot be spelled."""
        return frozenset(piece for piece, number in self._known.items() if number == UNKNOWN)

    def _parts_of(self, piece: str) -> tuple[int, ...]:
        """Return the old ids of a piece, old or new."""
        return self.parts.get(piece) or (self._known[piece],)


class _Pairs:
    """The neighbours in words, by how often they occur, while words change."""

    def __init__(self, words: Sequence[tuple[list[str], int]], never: frozenset[str]) -> None:
        self._words, self._never = [list(pieces) for pieces, _ in words], never
        self._times = [times for _, times in words]
        self._counts, self._where = Counter[Pair](), dict[Pair, set[int]]()
        for number in range(len(words)):
            self._note(number, 1)
        self._heap = [(-times, pair) for pair, times in self._counts.items()]
        heapify(self._heap)

    def most_frequent(self) -> tuple[Pair, int] | None:
        """Return the pair that occurs most often; None if none does often enough."""
        while self._heap:
            times, pair = heappop(self._heap)
            if -times < _LEAST:
                return None
            if self._counts[pair] == -times:  # entries of counts that have changed since are passed over
                return pair, -times
        return None

    def merge(self, pair: Pair, piece: str) -> None:
        """Replace a pair by one piece wherever it occurs."""
        changed = set[Pair]()
        for number in sorted(self._where.pop(pair, ())):
            changed |= self._note(number, -1)
            self._words[number] = _joined(self._words[number], pair, piece)
            changed |= self._note(number, 1)
        for each in changed - {pair}:
            heappush(self._heap, (-self._counts[each], each))

    def _note(self, number: int, sign: int) -> set[Pair]:
        pieces, seen = self._words[number], set[Pair]()
        for pair in pairwise(pieces):
            if self._never.isdisjoint(pair):
                self._counts[pair] += sign * self._times[number]
                self._where.setdefault(pair, set()).add(number)
                seen.add(pair)
        return seen


def _joined(pieces: Sequence[str], pair: Pair, piece: str) -> list[str]:
    joined, place = list[str](), 0
    while place < len(pieces):
        if tuple(pieces[place : place + 2]) == pair:
            joined.append(piece)
            place += 2
        else:
            joined.append(pieces[place])
            place += 1
    return joined
