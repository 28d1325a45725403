"""The values of a config.json, each checked when it is asked for."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heedful.errors import UserError

_MOST: Final = 10_000_000  # of anything that a model has


@dataclass(frozen=True)
class CheckedConfig:
    """What a JSON file says by name; null is the same as nothing."""

    where: Path
    values: Mapping[str, Any]

    def number(self, key: str, default: int | None = None) -> int:
        """How many there are of something; refuses a key that is missing and has no default."""
        value = self._value(key, default)
        if type(value) is not int:
            raise self._refusal(key, value, "a whole number")
        if not 1 <= value <= _MOST:
            raise self._refusal(key, value, f"a whole number from 1 to {_MOST:,}")
        return value

    def divisor(self, key: str, whole: str) -> int:
        """A number of equal parts that another number is split into."""
        value, total = self.number(key), self.number(whole)
        if total % value:
            raise self._refusal(key, value, f"a number that `{whole}` ({total:,}) is a multiple of")
        return value

    def real(self, key: str, default: float) -> float:
        """A number above 0 that need not be whole."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise self._refusal(key, value, "a number above 0")
        return float(value)

    def fraction(self, key: str, default: float) -> float:
        """A part of all, but not all of it: 0 is possible, 1 is not."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise self._refusal(key, value, "a number of at least 0 and below 1")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._value(key, default)
        if type(value) is not bool:
            raise self._refusal(key, value, "true or false")
        return value

    def choice(self, key: str, choices: Mapping[str, str]) -> str:
        """What a word stands for in a table."""
        value = self._value(key, None)
        if value not in tuple(choices):
            raise self._refusal(key, value, f"one of {', '.join(choices)}")
        return choices[value]

    def must_be(self, key: str, wanted: Any, why: str) -> None:
        """Refuse another value than this one; nothing is no other value."""
        value = self._value(key, wanted)
        if value != wanted:
            raise UserError(f"{self.where}: `{key}` is {json.dumps(value)}, but must be {json.dumps(wanted)}: {why}.")

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def _refusal(self, key: str, value: Any, wanted: str) -> UserError:
        what = "is missing" if value is None else f"is {json.dumps(value)}"
        return UserError(f"{self.where}: `{key}` {what}, but must be {wanted}.")
