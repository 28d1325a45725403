"""The items of the texts, read from `lists/`, without torch."""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args

from heedful.base.errors import UserError, nearest

Verdict = Literal["same", "corrected", "measured otherwise", "not run"]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
MEANINGS: Final[Mapping[Verdict, str]] = {
    "same": "the text's own expression, example, figure or listing is what Heedful computes, draws or trains",
    "corrected": "the text has a mistake, which is named; Heedful follows the original paper",
    "measured otherwise": "a claim or a figure that our own measurement or count does not confirm: both are given",
    "not run": "nothing was measured or computed here, and why",
}
MODEL: Final = "MODEL"  # in a command: the folder of a trained translator
_LISTS: Final = ("thesis", "notes", "tutorial", "seq2seq", "transformers")


@dataclass(frozen=True)
class Item:
    """An equation, a figure, a table or a result of a text."""

    id: str  # of all texts: "thesis-2.9"
    what: str
    verdict: Verdict
    section: str = ""  # where it is in the text, by the text's own number or heading
    says: str = ""  # the text's figure, or its claim in our words
    found: str = ""  # our figure, and where it is recorded
    why: str = ""
    check: str | None = None  # in `checks.table.CHECKS`
    arguments: str | None = None  # of a command of Heedful
    short: str | None = None  # arguments of a command that tests run instead, where the whole one takes long
    reason: str = ""  # why there is no command

    @property
    def command(self) -> str | None:
        """The command that recomputes the item."""
        if self.check is not None:
            return f"heedful texts {self.id}"
        return None if self.arguments is None else f"heedful {self.arguments}"


@dataclass(frozen=True)
class Text:
    """A text and its items, in its order."""

    name: str
    author: str
    title: str
    items: Sequence[Item]


@cache
def read_texts() -> tuple[Text, ...]:
    """Return all texts."""
    return tuple(_read(name) for name in _LISTS)


def find_item(given: str) -> Item:
    """Return the item with this name."""
    items = {item.id: item for text in read_texts() for item in text.items}
    if given not in items:
        near = nearest(given.lower(), list(items))
        hint = f" Did you mean `{near}`?" if near else ""
        raise UserError(f"`{given}` is not an item of the texts.{hint} `heedful texts` lists all.")
    return items[given]


def count_verdicts(texts: Sequence[Text]) -> dict[Verdict, int]:
    """Return how many items of texts have each verdict."""
    found = Counter(item.verdict for text in texts for item in text.items)
    return {verdict: found[verdict] for verdict in VERDICTS}


def _read(name: str) -> Text:
    values = tomllib.loads((Path(__file__).parent / "lists" / f"{name}.toml").read_text(encoding="utf-8"))
    return Text(name, values["author"], values["title"], tuple(_item(name, item) for item in values["item"]))


def _item(text: str, values: Mapping[str, Any]) -> Item:
    named = {"arguments" if key == "command" else key: value for key, value in values.items()}
    return Item(**{**named, "id": f"{text}-{values['id']}"})
