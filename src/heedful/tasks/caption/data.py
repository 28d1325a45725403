"""Corpora of captions to stores: captions tokenized, each with the number of its image, and images decoded once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from heedful.base.errors import counted
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.model.mixed import CaptionerModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import model_of
from heedful.data.batches.images import ImageCollator
from heedful.data.batches.pairs import PairBatch, next_token_side
from heedful.data.cache import Say
from heedful.data.collate import StaticShape, gather, layouts, lengths_of, rows_by_store
from heedful.data.corpora.images import read_captioned
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.prepare.images import CHUNK, image_rows
from heedful.data.prepare.prepared import Preparation, Prepared
from heedful.data.prepare.stores import WHOLE_NUMBERS, Rows, Streams, Tokenized
from heedful.data.text_form import TooLong
from heedful.data.token_store import Ragged, StreamType, TokenStore, id_stream, id_type
from heedful.data.tokenize.encoding import ID, ragged
from heedful.data.tokenize.vocabularies import Vocabularies


@dataclass(frozen=True, eq=False)
class CaptionStore(TokenStore):
    """Captions as token ids (`text`), each with the number of its image (`image`) in a store of their own."""

    images: TokenStore = field(kw_only=True)


def prepare_captions(
    recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None
) -> Prepared:
    """Train the tokenizer, unless it is given, tokenize training and validation captions, and decode their images."""
    work, data = Preparation.of(recipe, progress, given), recipe.data
    channels = model_of(recipe, CaptionerModel).encoder.channels
    listed = {corpus: [*read_captioned(corpus, data.folder, work.form)] for corpus in (*data.train, *data.valid)}
    tokenizer = work.tokenizer(
        lambda corpus: (text for one in listed[corpus] for text in one.captions if text.strip()),
        noun="caption",
        without="it has none, or all are blank",
    )

    def store(corpus: AnyCorpus, training: bool) -> CaptionStore:
        shown = image_rows(listed[corpus], lambda captioned: captioned.image, data.images, channels)
        images = work.store(corpus, replace(shown, facts=lambda store: []))
        longest = data.max_length if training else None
        rows = Rows(
            noun="caption",
            read=lambda dropped: (
                _Caption(text, number) for number, one in enumerate(listed[corpus]) for text in one.captions
            ),
            streams=[CaptionStream(tokenizer, work.form, longest, images.key)],
            objection=lambda caption: None if caption.text.strip() else caption.why_blank,
            dropped={
                "empty": "blank",
                "line": "longer than `data.max_line`",
                "too long": f"longer than `data.max_length` ({longest} tokens)",
            },
            chunk=CHUNK,
            facts=lambda store: [f"{counted(len(store), 'caption')} of {counted(len(images), 'image')}"],
        )
        made = work.store(corpus, rows)
        return CaptionStore(made.streams, made.key, made.dropped, images=images)

    return work.prepared(Vocabularies({"text": tokenizer}), store)


class _Caption(NamedTuple):
    text: str
    image: int  # its number in the corpus

    @property
    def why_blank(self) -> str:
        return "line" if isinstance(self.text, TooLong) else "empty"


@dataclass(frozen=True, eq=False)
class CaptionStream(Tokenized):
    """The tokens of captions, and the number of the image of each."""

    longest: int | None  # tokens
    images: str  # the key of the store of images

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The ids of the vocabulary, and numbers of images."""
        return {"text": id_stream(self.tokenizer.size), "picture": WHOLE_NUMBERS}

    @property
    def key(self) -> Mapping[str, object]:
        """What decides the captions, and which images they belong to."""
        return {**super().key, "pictures": self.images, "longest": self.longest}

    def encode(self, rows: Sequence[_Caption], dropped: Counter[str]) -> Streams:
        """Tokenize captions, and leave out those that are too long."""
        encoded = self.words.encode([caption.text for caption in rows])
        lengths = [len(ids) // ID.itemsize for ids in encoded]
        kept = [
            place for place, length in enumerate(lengths) if length and (not self.longest or length <= self.longest)
        ]
        dropped.update(["too long"] * (len(encoded) - len(kept)))
        return {
            "text": ragged([encoded[place] for place in kept], id_type(self.tokenizer.size)),
            "picture": Ragged.of([[rows[place].image] for place in kept]),
        }


@dataclass(frozen=True)
class CaptionCollator:
    """Makes batches of captions with their images."""

    noun: ClassVar = "caption"

    images: ImageCollator

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> tuple[Counts, Counts]:
        """Return the tokens of some captions, end markers included, and the patches of their images."""
        (patches,) = self.images.costs(*_images(stores, indices))
        return lengths_of(stores, "text", indices) + 1, patches

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> PairBatch:
        """Make the batch of these rows, always ragged: nothing fills it up."""
        tokens, lengths = gather(stores, "text", indices)
        lengths = lengths + 1
        (layout,) = layouts([lengths], None, 1)
        (patches,) = self.images.costs(*_images(stores, indices))
        return PairBatch(
            self.images.images(*_images(stores, indices)),
            *next_token_side(tokens, lengths, layout),
            sentences=len(indices),
            source_tokens=int(patches.sum()),
            target_tokens=int(lengths.sum()),
        )


def _images(stores: Sequence[TokenStore], indices: Indices) -> tuple[list[TokenStore], Indices]:
    """Return the stores of the images, and the rows of those that belong to some captions."""
    held = [store.images for store in stores if isinstance(store, CaptionStore)]
    assert len(held) == len(stores), "stores without images"
    firsts = np.cumsum([0, *map(len, held)])
    rows = np.empty(len(indices), np.int64)
    for first, (store, mine, own) in zip(firsts, rows_by_store(stores, indices), strict=False):
        rows[mine] = first + store.streams["picture"].values[own].astype(np.int64)  # one number per row
    return held, rows
