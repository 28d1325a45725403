"""The [data] table of a recipe."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt

from heedful.config.corpora import Corpora, Language
from heedful.config.section import Section


def _current_word(value: Any) -> Any:
    """Read the word that recipes and bundles had before."""
    return "start" if value == "begin" else value


Cut = Annotated[Literal["end", "start", "middle"], BeforeValidator(_current_word)]


class Tokenized(Section):
    """The languages by whose Moses rules the text is already tokenized; a corpus's `to` may name its own target."""

    source: Annotated[Language, Field(min_length=1)]
    target: Annotated[Language, Field(min_length=1)]


class Data(Section):
    """Where the sentences are, which of them are used, and the number of tokens in a batch."""

    folder: str = ""  # put before every relative file name
    train: Annotated[Corpora, Field(min_length=1)]
    valid: Corpora = ()
    test: Corpora = ()
    batch_tokens: PositiveInt = 4096  # source tokens, and separately target tokens, of one micro-batch
    # Training pairs with a side longer than this are dropped, and counted; longer texts are cut to this length, markers
    # included, or split where a masked language model reads them.
    max_length: PositiveInt = 256
    cut: Cut = "end"  # where a text to classify that is too long loses tokens
    max_ratio: Annotated[float, Field(ge=1)] | None = None  # longer side over shorter side, in tokens
    temperature: Annotated[float, Field(ge=1)] = 1.0  # above 1, small corpora are shown more often: n^(1/temperature)
    nfc: bool = False  # normalise to Unicode's composed form
    lowercase: bool = False
    tokenized: Tokenized | None = None

    @property
    def paired(self) -> bool:
        """Whether a classifier reads pairs of texts."""
        return any(getattr(corpus, "second", None) is not None for corpus in self.train)
