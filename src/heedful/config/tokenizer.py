"""The [tokenizer] table of a recipe: one class per kind, and one per kind for a target side of its own."""

from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt, model_validator

from heedful.config.section import Section

SideName = Literal["source", "target"]


# --- one vocabulary ---------------------------------------------------------------------------------------------------


class OneSide(Section):
    """What every vocabulary may say."""

    sample: PositiveInt = 1_000_000  # texts that it is trained on, at most: evenly from all training corpora

    @property
    def table(self) -> str:
        """The table's name in messages."""
        return "tokenizer" if isinstance(self, BothSides) else "tokenizer.target"


class ByteBpeSide(OneSide):
    """Byte-level byte-pair encoding: any text comes back exactly."""

    kind: Literal["byte_bpe"]
    size: Annotated[int, Field(ge=260)] = 8000


class BpeSide(OneSide):
    """Byte-pair encoding of characters inside words split at spaces (Sennrich et al. 2016), for tokenized text."""

    kind: Literal["bpe"]
    size: PositiveInt = 10000


class WordPieceSide(OneSide):
    """WordPiece (Schuster and Nakajima 2012), as BERT uses it."""

    kind: Literal["wordpiece"]
    size: PositiveInt = 32000


class UnigramSide(OneSide):
    """The pieces of a unigram language model (Kudo 2018)."""

    kind: Literal["unigram"]
    size: PositiveInt = 8000


class WordsSide(OneSide):
    """Whole words, split at spaces."""

    kind: Literal["word"]
    size: PositiveInt = 50000
    min_count: PositiveInt = 1


class CharactersSide(OneSide):
    """Single characters."""

    kind: Literal["char"]
    size: PositiveInt = 5000


AnySide = ByteBpeSide | BpeSide | WordPieceSide | UnigramSide | WordsSide | CharactersSide


# --- the table --------------------------------------------------------------------------------------------------------


class BothSides(Section):
    """How the vocabularies of two sides go together."""

    joint: bool = True  # one vocabulary for both sides
    target: AnySide | None = Field(default=None, discriminator="kind")  # the target side's own kind

    @model_validator(mode="before")
    @classmethod
    def _a_target_of_its_own_is_separate(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("target") is None:
            return values
        if values.get("joint") is True:
            raise ValueError("`joint` must be false where `target` is a vocabulary of its own: leave it out")
        return {"joint": False, **values}

    @property
    def why_separate(self) -> str | None:
        """What makes the vocabularies of the two sides separate, in words; None where they are joint."""
        if self.target is not None:
            return "`tokenizer.target` is a vocabulary of its own"
        return None if self.joint else "`tokenizer.joint` is false"


class ByteBpe(ByteBpeSide, BothSides):
    """Byte-level byte-pair encoding: any text comes back exactly."""

    kind: Literal["byte_bpe"] = "byte_bpe"


class Bpe(BpeSide, BothSides):
    """Byte-pair encoding of characters inside words split at spaces (Sennrich et al. 2016), for tokenized text."""


class WordPiece(WordPieceSide, BothSides):
    """WordPiece (Schuster and Nakajima 2012), as BERT uses it."""


class Unigram(UnigramSide, BothSides):
    """The pieces of a unigram language model (Kudo 2018)."""


class Words(WordsSide, BothSides):
    """Whole words, split at spaces."""


class Characters(CharactersSide, BothSides):
    """Single characters."""


AnyTokenizer = Annotated[
    ByteBpe | Bpe | WordPiece | Unigram | Words | Characters,
    Field(discriminator="kind"),
]


def side_of(tokenizer: AnyTokenizer, side: SideName) -> AnySide:
    """Return the table that a side's vocabulary is trained by."""
    return tokenizer.target if side == "target" and tokenizer.target is not None else tokenizer
