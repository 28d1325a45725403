"""The [tokenizer] table of a recipe: one class per kind, and one per kind for a separate target vocabulary."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PositiveInt, field_validator, model_validator

from heedful.config.section import Section, VocabularySize, as_tuple

SideName = Literal["source", "target"]
# Bytes of printable ASCII are letters of themselves in byte-level vocabularies: every kind reads and writes such words.
_KEPT: Final = re.compile(r"[!-~]{1,64}")
_MARKERS: Final = re.compile(r"<(pad|s|/s|unk|mask|2.*)>")


# --- one vocabulary ---------------------------------------------------------------------------------------------------


class OneSide(Section):
    """Keys of every vocabulary."""

    sample: PositiveInt = 1_000_000
    """Maximum number of texts to train on, taken evenly from all training corpora."""
    keep: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = Field(default=(), examples=[["<bt>"]])
    """Words that are never split, such as a tag of training pairs; printable ASCII, at most 64 characters each."""

    @field_validator("keep")
    @classmethod
    def _are_words(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        for word in words:
            check_kept_word(word)
        return words

    @property
    def table(self) -> str:
        """Name of the table in messages."""
        return "tokenizer" if isinstance(self, BothSides) else "tokenizer.target"


def check_kept_word(word: str, kept: str = "a word that is never split") -> None:
    """Raise ValueError for what cannot be a piece that is never split, called `kept`."""
    if not _KEPT.fullmatch(word):
        raise ValueError(f"{word!r} cannot be {kept}: use up to 64 printable characters of ASCII, without a space")
    if _MARKERS.fullmatch(word):
        raise ValueError(f"{word!r} cannot be {kept}, as it is a marker of vocabularies: choose another")


class ByteBpeSide(OneSide):
    """Byte-level byte-pair encoding: lossless for any text."""

    kind: Literal["byte_bpe"]
    size: Annotated[int, Field(ge=260, le=10_000_000)] = 8000
    """Maximum number of pieces, markers included."""


class BpeSide(OneSide):
    """Byte-pair encoding of characters inside words split at spaces (Sennrich et al. 2016), for tokenized text."""

    kind: Literal["bpe"]
    size: VocabularySize = 10000
    """Maximum number of pieces, markers included."""


class WordPieceSide(OneSide):
    """WordPiece (Schuster and Nakajima 2012), as BERT uses it."""

    kind: Literal["wordpiece"]
    size: VocabularySize = 32000
    """Maximum number of pieces, markers included."""


class UnigramSide(OneSide):
    """Pieces of a unigram language model (Kudo 2018)."""

    kind: Literal["unigram"]
    size: VocabularySize = 8000
    """Maximum number of pieces, markers included."""


class WordsSide(OneSide):
    """Whole words, split at spaces."""

    kind: Literal["word"]
    size: VocabularySize = 50000
    """Maximum number of words, markers included; the most frequent are kept."""
    min_count: PositiveInt = 1
    """Minimum number of occurrences of a word."""


class CharactersSide(OneSide):
    """Single characters."""

    kind: Literal["char"]
    size: VocabularySize = 5000
    """Maximum number of characters, markers included; the most frequent are kept."""


AnySide = ByteBpeSide | BpeSide | WordPieceSide | UnigramSide | WordsSide | CharactersSide


# --- the table --------------------------------------------------------------------------------------------------------


class BothSides(Section):
    """Keys that relate the vocabularies of the source and the target."""

    joint: bool = True
    """Whether source and target share one vocabulary."""
    target: AnySide | None = Field(default=None, discriminator="kind", examples=[{"kind": "word", "size": 20000}])
    """Table of a separate target vocabulary; by default the target has the kind and size of the source.

    That of a parser has whole words, which brackets are.
    """
    extend: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(default=None, examples=[2000])
    """Maximum number of pieces to add to each vocabulary of `train.start_from`, for a new language or domain.

    They are learned on the training texts; kind and size stay those of the start. By default no piece is added.
    """

    @model_validator(mode="before")
    @classmethod
    def _a_target_of_its_own_is_separate(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("target") is None:
            return values
        if values.get("joint") is True:
            raise ValueError("`joint` must be false where `target` is a separate vocabulary: leave it out")
        return {"joint": False, **values}

    @property
    def why_separate(self) -> str | None:
        """Reason why source and target have separate vocabularies, in words; None where they share one."""
        if self.target is not None:
            return "`tokenizer.target` is a separate vocabulary"
        return None if self.joint else "`tokenizer.joint` is false"


class ByteBpe(ByteBpeSide, BothSides):
    """Byte-level byte-pair encoding: lossless for any text."""

    kind: Literal["byte_bpe"] = "byte_bpe"


class Bpe(BpeSide, BothSides):
    """Byte-pair encoding of characters inside words split at spaces (Sennrich et al. 2016), for tokenized text."""


class WordPiece(WordPieceSide, BothSides):
    """WordPiece (Schuster and Nakajima 2012), as BERT uses it."""


class Unigram(UnigramSide, BothSides):
    """Pieces of a unigram language model (Kudo 2018)."""


class Words(WordsSide, BothSides):
    """Whole words, split at spaces."""


class Characters(CharactersSide, BothSides):
    """Single characters."""


AnyTokenizer = Annotated[
    ByteBpe | Bpe | WordPiece | Unigram | Words | Characters,
    Field(discriminator="kind"),
]


def take_kind_of_start(table: Any) -> Any:
    """Return a table that only extends the vocabulary of a start with a kind, which that start replaces by its own."""
    return {"kind": "byte_bpe", **table} if isinstance(table, dict) and table.get("extend") is not None else table


def side_of(tokenizer: AnyTokenizer, side: SideName) -> AnySide:
    """Return the table of a side's vocabulary."""
    return tokenizer.target if side == "target" and tokenizer.target is not None else tokenizer


def with_only_target(tokenizer: AnyTokenizer, only: AnySide | None) -> AnyTokenizer:
    """Return the table with the only target vocabulary that its task can have, unless it sets another or a joint one.

    What is added does not count as set: `model_fields_set` stays what it is.
    """
    joint = tokenizer.joint and "joint" in tokenizer.model_fields_set
    separate = not tokenizer.joint and tokenizer.kind == getattr(only, "kind", "")
    if only is None or tokenizer.target is not None or joint or separate:
        return tokenizer
    added = tokenizer.model_copy()
    added.__dict__.update(joint=False, target=only)
    return added
