"""What a search is told."""

from dataclasses import dataclass, field

from heedful.decode.penalties import LengthPenalty, Wu
from heedful.errors import UserError


@dataclass(frozen=True)
class Settings:
    """How wide to search, how far, and what the best is.

    A hypothesis has at most as many tokens as its source has pieces, plus `max_extra`; `</s>` counts. One that comes so
    far without `</s>` is finished as it stands, is not `complete`, and ranks behind all that are.
    """

    beam: int = 4
    nbest: int = 1
    max_extra: int = 50
    penalty: LengthPenalty = field(default_factory=lambda: Wu(0.6))

    def __post_init__(self) -> None:
        for name in ("beam", "nbest", "max_extra"):
            if getattr(self, name) < 1:
                raise UserError(f"`{name}` is {getattr(self, name)}, but must be at least 1.")
        if self.nbest > self.beam:
            raise UserError(
                f"`nbest` is {self.nbest}, but a beam of {self.beam} finds no more than {self.beam}: "
                f"set `beam` to {self.nbest} or more."
            )
