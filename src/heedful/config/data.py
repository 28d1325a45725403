"""The [data] table of a recipe."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from heedful.config.corpora.containers import AnyCorpus, Corpora
from heedful.config.corpora.corpus import Language
from heedful.config.section import BatchTokens, Positions, Section


def _current_word(value: Any) -> Any:
    """Translate the word that older recipes and bundles use."""
    return "start" if value == "begin" else value


Cut = Annotated[Literal["end", "start", "middle"], BeforeValidator(_current_word)]


class Tokenized(Section):
    """Languages by whose Moses rules the text is already tokenized; a corpus with `to` has that target language."""

    source: Annotated[Language, Field(min_length=1, examples=["en"])]
    """Source language."""
    target: Annotated[Language, Field(min_length=1, examples=["de"])]
    """Target language."""


class ImageForm(Section):
    """The size that a model reads images in."""

    height: Annotated[int, Field(ge=1, le=100_000)] | None = Field(default=None, examples=[224])
    """Height in pixels that images are resized to; by default `width`, and without either they keep their size."""
    width: Annotated[int, Field(ge=1, le=100_000)] | None = Field(default=None, examples=[224])
    """Width in pixels that images are resized to; by default `height`, and without either they keep their size."""
    fit: Literal["stretch", "crop"] = "stretch"
    """How images of other proportions are resized: stretched, or cropped to their middle."""
    max_pixels: Annotated[int, Field(ge=1, le=1_000_000_000)] = 50_000_000
    """Maximum pixels of an image in a file; a larger one is refused before it is decoded."""
    cache_limit: Annotated[float, Field(gt=0, le=1_000_000)] = 64.0
    """Most GiB that the decoded images of a corpus may take in the cache.

    Files that would take more, resized to `height` and `width`, are kept as they are and decoded whenever they are
    shown: training then needs more time of the processor. It applies to classifiers.
    """

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of all images; None if they keep their own."""
        height, width = self.height or self.width, self.width or self.height
        return None if height is None or width is None else (height, width)


def _without_part(corpus: AnyCorpus) -> object:
    return type(corpus), corpus.model_dump(exclude={"name", "weight", "part"})


class Data(Section):
    """Where the data is, which of it is used, and the number of tokens in a batch."""

    folder: str = Field(default="", examples=["/data/news"])
    """Folder that relative file names start from."""
    train: Annotated[Corpora, Field(min_length=1, examples=[{"source": "train.en", "target": "train.de"}])]
    """Training corpora: one table or a list of tables."""
    valid: Corpora = Field(default=(), examples=[{"source": "valid.en", "target": "valid.de"}])
    """Validation corpora.

    A recipe without this key holds out rows of its training corpora for a new run, chosen by hash: about a tenth, at
    most about 2,000. With `valid = []` all of them are trained on, and the last model is kept instead of the best one.
    """
    test: Corpora = Field(default=(), examples=[{"source": "test.en", "target": "test.de"}])
    """Test corpora, which `heedful evaluate` scores by default."""
    batch_tokens: BatchTokens = 4096
    """Maximum source tokens, and separately target tokens, of one micro-batch; of texts, maximum tokens."""
    max_length: Positions = 256
    """Maximum length in tokens.

    Training pairs with a longer side, and longer captions, are dropped, and counted. Texts to classify are cut to this
    length, markers included; a masked language model splits them, and a language model reads windows of this length.
    """
    max_line: Annotated[int, Field(ge=1, le=10_000_000)] = 1_000_000
    """Maximum length of a line in characters; longer ones are dropped before tokenizing, and counted."""
    borders: Literal["closed", "open"] = "closed"
    """Borders between the documents that a language model reads.

    closed: a window ends where its document ends; open: it continues into the next document, whose start is not
    predicted.
    """
    cut: Cut = "end"
    """Part that is removed from a text to classify that is too long."""
    stride: Positions | None = Field(default=None, examples=[128])
    """Tokens by which a reader's window moves over a text that is too long to be read at once; by default half of it.

    Every window is read with the whole question, within `max_length`.
    """
    max_ratio: Annotated[float, Field(ge=1)] | None = Field(default=None, examples=[3.0])
    """Maximum ratio of the longer to the shorter side, in tokens; pairs above it are dropped. By default any ratio."""
    temperature: Annotated[float, Field(ge=1, examples=[5.0])] = 1.0
    """Temperature of the choice of corpora: above 1, small ones are shown more often, n^(1/temperature)."""
    nfc: bool = False
    """Whether text is normalised to Unicode's composed form (NFC)."""
    lowercase: bool = False
    """Whether all text is lowercased."""
    target_tags: bool = False
    """Whether a target begins with the tag of its language, as its source does (Fan et al. 2021).

    The tag is read after `<s>`, and a search starts every translation with it. It needs a joint vocabulary.
    """
    tokenized: Tokenized | None = Field(default=None, examples=[{"source": "en", "target": "de"}])
    """Languages, if the files are already tokenized by Moses' rules; by default they are not."""

    images: ImageForm = Field(default_factory=ImageForm, examples=[{"height": 224, "width": 224}])
    """Size of images."""

    @property
    def held_out_parts(self) -> tuple[AnyCorpus, ...]:
        """Validation corpora that are another part of a training corpus."""
        known = [_without_part(corpus) for corpus in self.train if getattr(corpus, "part", "")]
        return tuple(corpus for corpus in self.valid if _without_part(corpus) in known)

    @property
    def paired(self) -> bool:
        """Whether a classifier reads pairs of texts."""
        return any("second" in corpus.roles for corpus in self.train)
