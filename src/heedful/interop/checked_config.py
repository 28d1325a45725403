"""The values of a config.json, each checked when it is read."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heedful.base.errors import UserError

_MOST: Final = 10_000_000  # no size in a model is larger


@dataclass(frozen=True)
class CheckedConfig:
    """The values of a JSON file by key; null counts as missing."""

    where: Path
    values: Mapping[str, Any]

    def number(self, key: str, default: int | None = None) -> int:
        """Return a whole number of at least 1; a key without a default must be present."""
        value = self._value(key, default)
        if type(value) is not int:
            raise self._refusal(key, value, "a whole number")
        if not 1 <= value <= _MOST:
            raise self._refusal(key, value, f"a whole number from 1 to {_MOST:,}")
        return value

    def index(self, key: str, size: int) -> int:
        """Return a whole number from 0 up to, but not including, `size`."""
        value = self._value(key, None)
        if type(value) is not int or not 0 <= value < size:
            raise self._refusal(key, value, f"one whole number from 0 to {size - 1:,}")
        return value

    def divisor(self, key: str, whole: str) -> int:
        """Return a whole number that divides the value of another key."""
        value, total = self.number(key), self.number(whole)
        if total % value:
            raise self._refusal(key, value, f"a divisor of `{whole}` ({total:,})")
        return value

    def real(self, key: str, default: float) -> float:
        """Return a number above 0."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise self._refusal(key, value, "a number above 0")
        return float(value)

    def fraction(self, key: str, default: float) -> float:
        """Return a number from 0 up to, but not including, 1."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise self._refusal(key, value, "at least 0 and below 1")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self._value(key, default)
        if type(value) is not bool:
            raise self._refusal(key, value, "true or false")
        return value

    def choice(self, key: str, choices: Mapping[str, str]) -> str:
        """Return what a table maps the value to."""
        value = self._value(key, None)
        if value not in tuple(choices):
            raise self._refusal(key, value, f"one of {', '.join(choices)}")
        return choices[value]

    def table(self, key: str) -> "CheckedConfig":
        """Return the values of a table, by the key of the table and their own; a missing table has none."""
        value = self._value(key, {})
        if not isinstance(value, dict):
            raise self._refusal(key, value, "a table")
        return CheckedConfig(self.where, {f"{key}.{name}": inner for name, inner in value.items()})

    def must_be(self, key: str, wanted: Any, why: str) -> None:
        """Refuse any value other than this one; a missing value is accepted."""
        value = self._value(key, wanted)
        if value != wanted:
            raise UserError(f"{self.where}: `{key}` is {json.dumps(value)}, but must be {json.dumps(wanted)}: {why}.")

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def _refusal(self, key: str, value: Any, wanted: str) -> UserError:
        what = "is missing" if value is None else f"is {json.dumps(value)}"
        return UserError(f"{self.where}: `{key}` {what}, but must be {wanted}.")
