"""What if a word were another: the explanation of a changed text, next to that of the text itself."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from heedful.arguments import check_text
from heedful.errors import UserError
from heedful.tasks.shared.explaining.explanation import Explanation


def explain_swapped(explain: Callable[[str], Explanation], text: str, swapped: Mapping[str, str]) -> Explanation:
    """Return the explanation of the text with other words; its `before` is that of the text as it is."""
    other = swap_words(text, swapped)
    change = ", ".join(f"{old} \N{RIGHTWARDS ARROW} {new}" if new else f"without {old}" for old, new in swapped.items())
    return replace(explain(other), change=change, before=explain(text))


def swap_words(text: str, swapped: Mapping[str, str]) -> str:
    """Replace words, wherever a text has them, all at once; refuse a word that it does not have."""
    if not isinstance(swapped, Mapping) or not swapped:
        raise UserError("`swapped` must be a dictionary of words and what replaces them, at least one.")
    for old, new in swapped.items():
        check_text(new, f"`swapped`, `{check_text(old, '`swapped`')}`")
        if not old.strip():
            raise UserError("`swapped` has a blank word: name a word of the text.")
        if not re.search(_whole(old), text):
            raise UserError(f"The text has no word `{old}` to swap: words are case-sensitive, and whole.")
    pattern = "|".join(_whole(old) for old in sorted(swapped, key=len, reverse=True))
    return " ".join(re.sub(pattern, lambda found: swapped[found[0]], text).split())


def _whole(word: str) -> str:
    """Return the pattern of a word that is not a part of another."""
    return rf"(?<!\w){re.escape(word)}(?!\w)"
