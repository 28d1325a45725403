"""The text of tokens that arrive one after the other: never half of a character, nothing after a stop string."""

from collections.abc import Sequence
from typing import Final

from heedful.data.tokenize.encoding import restore_breaks, sign_of
from heedful.data.tokenize.tokenizer import Tokenizer

_BEFORE: Final = 8  # tokens of a prompt that decide how its continuation is joined to it
_HALF: Final = "\N{REPLACEMENT CHARACTER}"  # how a decoder shows bytes that are not a character yet
_PATIENCE: Final = 64  # tokens after which bytes are taken as they are


class ContinuationText:
    """The text that tokens add to a prompt, as they arrive.

    A character whose bytes have not all arrived waits for them. So does text that could become a stop string.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stop: Sequence[str] = ()) -> None:
        self._tokenizer, self._stop = tokenizer, stop
        self._waiting = _HALF if tokenizer.spells_spaces else f"{_HALF} "  # a space before a line break is not shown
        self._tail = list(prompt[-_BEFORE:])  # tokens that are decoded again, to see what the next ones add
        self._known = len(self._text(self._tail))  # characters of the tail that are taken
        self._fresh = 0  # tokens of the tail whose text may still change
        self._taken = ""
        self._shown = 0  # characters that were returned
        self._over = False
        self.stopped = False

    @property
    def text(self) -> str:
        """All text so far, without a stop string."""
        return self._taken

    def add(self, tokens: Sequence[int]) -> str:
        """Return what more can be shown after these tokens; nothing after a stop string."""
        if self.stopped:
            return ""
        self._tail += tokens
        self._fresh += len(tokens)
        self._take(final=False)
        return self._show()

    def end(self) -> str:
        """Return the rest, when no more tokens come."""
        if not self.stopped:
            self._take(final=True)
        self._over = True
        return self._show()

    def _take(self, final: bool) -> None:
        text = self._text(self._tail)
        whole = text if final or self._fresh > _PATIENCE else text.rstrip(self._waiting)
        if len(whole) > self._known:
            before = len(self._taken)
            self._taken += whole[self._known :]
            self._known = len(whole)
            self._cut(before)
        if len(whole) == len(text) and self._fresh:
            self._tail = self._tail[-_BEFORE:]
            self._known, self._fresh = len(self._text(self._tail)), 0

    def _cut(self, before: int) -> None:
        """Cut the text before the first stop string in it."""
        longest = max(map(len, self._stop), default=0)
        places = [self._taken.find(stop, max(0, before - longest + 1)) for stop in self._stop]
        found = [place for place in places if place >= 0]
        if found:
            self._taken, self.stopped = self._taken[: min(found)], True

    def _show(self) -> str:
        ready = len(self._taken)
        if not (self.stopped or self._over):
            ready -= self._held()
        shown, self._shown = self._taken[self._shown : ready], max(self._shown, ready)
        return shown

    def _held(self) -> int:
        """Return the number of last characters with which a stop string could begin."""
        longest = max(map(len, self._stop), default=1) - 1
        for count in range(min(longest, len(self._taken)), 0, -1):
            if any(stop.startswith(self._taken[-count:]) for stop in self._stop):
                return count
        return 0

    def _text(self, tokens: Sequence[int]) -> str:
        return restore_breaks(self._tokenizer.decode(tokens), self._tokenizer)


def unspellable(text: str, tokenizer: Tokenizer) -> str | None:
    """Return the first character of a text that no generated text has; None if there is none."""
    if tokenizer.spells_spaces:
        return next((letter for letter in text if not tokenizer.can_spell(letter)), None)
    return next((letter for letter in text if letter != " " and not tokenizer.can_spell(sign_of(letter))), None)
