"""What tables of networks have in common besides keys: widths, limits of length, and the tables inside them."""

from typing import TYPE_CHECKING, ClassVar

from heedful.config.section import Section


class Part(Section):
    """The usual widths of an encoder or decoder, and no limit of length."""

    if TYPE_CHECKING:
        width: int

    @property
    def embedding_width(self) -> int:
        """Width of embeddings."""
        return getattr(self, "embedding", None) or self.width

    @property
    def memory_width(self) -> int:
        """Width of the encoder's output for a token, a sentence or a patch."""
        return self.width

    @property
    def output_width(self) -> int:
        """Width of the states that the output layer scores."""
        return self.width

    @property
    def longest(self) -> tuple[int, str] | None:
        """Maximum tokens of an input, markers included, and the key that sets it; None where there is no limit."""
        return None


class OnPart(Section):
    """What tables of models have in common whose states are those of one part."""

    part: ClassVar[str] = "encoder"  # the key that holds its table

    @property
    def width(self) -> int:
        """Width of the states."""
        width: int = getattr(self, self.part).width
        return width

    @property
    def longest(self) -> tuple[int, str] | None:
        """Maximum tokens of an input, markers included, and the key that sets it; None where there is no limit."""
        end: tuple[int, str] | None = getattr(self, self.part).longest
        return end and (end[0], f"{self.part}.{end[1]}")
