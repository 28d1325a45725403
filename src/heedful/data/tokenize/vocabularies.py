"""The vocabularies of a model: its tokenizers by name, and the names of its classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from heedful.base.files import read_bytes
from heedful.data.tokenize.own_tokenizer import AnyOwnTokenizer, read_tokenizer
from heedful.data.tokenize.tokenizer import Tokenizer

_ONE_FILE: Final = "tokenizer.json"


class Scale(NamedTuple):
    """The mean of the numbers of training rows, and their standard deviation: the units that a regressor learns in."""

    mean: float
    deviation: float


@dataclass(frozen=True, eq=False)
class Vocabularies:
    """Tokenizers by name, possibly none, and the names of classes or the scale of numbers.

    Translators have the names "source" and "target", with one object under both where the vocabulary is joint; models
    that read texts have "text".
    """

    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)
    labels: tuple[str, ...] = ()  # the classes of a classifier, in the order of its scores
    scale: Scale | None = None  # of the numbers of a regressor
    to_learn: int = 0  # number of pieces that are to be added to each, where a model is trained further

    @classmethod
    def read(
        cls,
        folder: Path,
        names: Sequence[str],
        joint: bool,
        labels: tuple[str, ...] = (),
        given: Mapping[str, AnyOwnTokenizer] | None = None,
        scale: Scale | None = None,
    ) -> "Vocabularies":
        """Read the tokenizers of these names from a folder; `joint` says that they share one.

        `given` are tokenizers of the caller's program, by name.
        """

        def tokenizer(file: str, name: str) -> Tokenizer:
            return read_tokenizer(read_bytes(folder / file), str(folder / file), (given or {}).get(name))

        if names and (joint or len(names) == 1):
            return cls(dict.fromkeys(names, tokenizer(_ONE_FILE, names[0])), labels, scale)
        return cls({name: tokenizer(_file_of(name), name) for name in names}, labels, scale)

    def __getitem__(self, name: str) -> Tokenizer:
        return self.tokenizers[name]

    @property
    def joint(self) -> bool:
        """Whether all names share one tokenizer."""
        return len({id(tokenizer) for tokenizer in self.tokenizers.values()}) == 1

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of tokens of each vocabulary."""
        return {name: tokenizer.size for name, tokenizer in self.tokenizers.items()}

    def first_difference(self, other: "Vocabularies") -> str | None:
        """Return the first name whose vocabulary is not the other's of that name; None where all are equal."""
        for name in {**self.tokenizers, **other.tokenizers}:
            ours, theirs = self.tokenizers.get(name), other.tokenizers.get(name)
            if ours is None or theirs is None or ours.fingerprint != theirs.fingerprint:
                return name
        return None

    def files(self) -> dict[str, Tokenizer]:
        """Return the tokenizers by the names of their files: one file where there is one tokenizer."""
        if self.joint:
            return {_ONE_FILE: next(iter(self.tokenizers.values()))}
        return {_file_of(name): tokenizer for name, tokenizer in self.tokenizers.items()}


def _file_of(name: str) -> str:
    return f"tokenizer.{name}.json"
