"""Corpora of captions to stores: captions tokenized, each with the number of its image, and images decoded once."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from heedful.base.errors import UserError, counted
from heedful.config.corpora.any import AnyCorpus
from heedful.config.model.mixed import CaptionerModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.data.cache import Say, cache_folder, cached, key_of
from heedful.data.images.batches import SIZE, image_streams, pixel_stream
from heedful.data.images.captions import Captioned, read_captioned
from heedful.data.images.stores import decode_all, tell_size
from heedful.data.prepare.prepared import Contents, Prepared, contents_of, weights_of
from heedful.data.text_form import TextForm, TooLong
from heedful.data.token_store import FORMAT, Ragged, StreamType, TokenStore, id_stream, id_type, open_store, write_store
from heedful.data.tokenize.cached import TokenizerTraining
from heedful.data.tokenize.encoding import ID, KnownWords
from heedful.data.tokenize.pair_encoder import ragged
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training_sample import described, evenly
from heedful.data.tokenize.vocabularies import Vocabularies

_CHUNK: Final = 256  # images that are decoded together
_NUMBER: Final = StreamType(np.dtype(np.uint32))


@dataclass(frozen=True, eq=False)
class CaptionStore(TokenStore):
    """Captions as token ids (`text`), each with the number of its image (`image`) in a store of their own."""

    images: TokenStore = field(kw_only=True)


def prepare_captions(
    recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None
) -> Prepared:
    """Train the tokenizer, unless it is given, tokenize training and validation captions, and decode their images."""
    data, form = recipe.data, TextForm.of(recipe.data)
    contents = contents_of(data, progress)
    listed = {corpus: [*read_captioned(corpus, data.folder, form)] for corpus in (*data.train, *data.valid)}
    if given is not None:
        tokenizer = given["text"]
    else:
        training = TokenizerTraining(recipe.tokenizer, form, [contents[corpus] for corpus in data.train])
        captions = [
            text for corpus in data.train for one in listed[corpus] for text in one.captions if text.strip()
        ]  # fmt: skip
        tokenizer = training.tokenizer("text", "", lambda: CaptionSample(captions, recipe.tokenizer.sample), progress)
    work = CaptionStores(recipe, tokenizer, contents, listed, progress)
    train = tuple(work.store(corpus, data.max_length) for corpus in data.train)
    return Prepared(
        Vocabularies({"text": tokenizer}),
        train,
        weights_of(data, [len(store) for store in train]),
        tuple(work.store(corpus) for corpus in data.valid),
    )


@dataclass(frozen=True)
class CaptionSample:
    """Captions that a tokenizer is trained on: all, or `most` of them at equal distances."""

    captions: list[str]
    most: int

    def __iter__(self) -> Iterator[str]:
        if not self.captions:
            raise UserError(
                "There is no caption to train a tokenizer on in `data.train`: there is none, or all are blank."
            )
        return evenly(self.captions, min(self.most, len(self.captions)), len(self.captions))

    @property
    def description(self) -> str:
        """The number of captions out of how many, in words; empty where all are taken."""
        return described(min(self.most, len(self.captions)), len(self.captions))


@dataclass(frozen=True)
class CaptionStores:
    """Turns corpora into stores, all with the same tokenizer."""

    recipe: Recipe
    tokenizer: Tokenizer
    contents: Contents
    captioned: Mapping[AnyCorpus, list[Captioned]]
    progress: Say

    def store(self, corpus: AnyCorpus, longest: int | None = None) -> CaptionStore:
        """Return the corpus, from the cache or made now; captions of more than `longest` tokens are dropped."""
        images, data = self._images(corpus), self.recipe.data
        key = key_of(
            {
                "format": FORMAT,
                "content": self.contents[corpus],
                "form": TextForm.of(data).key(),
                "tokenizer": self.tokenizer.fingerprint,
                "pictures": images.key,
                "longest": longest,
            }
        )

        def build(staged: Path) -> None:
            self.progress(f"tokenizing {corpus.title}")
            dropped: Counter[str] = Counter()
            types = {"text": id_stream(self.tokenizer.size), "picture": _NUMBER}
            write_store(staged, key, types, self._captions(corpus, longest, dropped), dropped)

        store = cached(cache_folder() / "tokens" / key, lambda folder: open_store(folder, key), build, self.progress)
        dropped = _dropped(store.dropped, longest)
        if not len(store):
            raise UserError(f"{corpus.title} has no caption to use: {dropped or 'it is empty'}.")
        told = f"{counted(len(store), 'caption')} of {counted(len(images), 'image')}"
        self.progress(f"{corpus.title}: {told}" + (f", {dropped}" if dropped else ""))
        return CaptionStore(store.streams, key, store.dropped, images=images)

    def _captions(
        self, corpus: AnyCorpus, longest: int | None, dropped: Counter[str]
    ) -> Iterator[Mapping[str, Ragged]]:
        words, rows = KnownWords(self.tokenizer), iter(enumerate(self.captioned[corpus]))
        while chunk := list(islice(rows, _CHUNK)):
            texts: list[str] = []
            numbers: list[int] = []
            for number, captioned in chunk:
                for text in captioned.captions:
                    if text.strip():
                        texts.append(text)
                        numbers.append(number)
                    else:
                        dropped["line" if isinstance(text, TooLong) else "empty"] += 1
            encoded = words.encode(texts)
            kept = [place for place, ids in enumerate(encoded) if ids and _fits(len(ids) // ID.itemsize, longest)]
            dropped.update(["too long"] * (len(encoded) - len(kept)))
            yield {
                "text": ragged([encoded[place] for place in kept], id_type(self.tokenizer.size)),
                "picture": Ragged.of([[numbers[place]] for place in kept]),
            }

    def _images(self, corpus: AnyCorpus) -> TokenStore:
        """Return the decoded images of a corpus, from the cache or made now."""
        images = [captioned.image for captioned in self.captioned[corpus]]
        if not images:
            raise UserError(f"{corpus.title} has no image to use.")
        form, channels = self.recipe.data.images, model_of(self.recipe, CaptionerModel).encoder.channels
        key = key_of(
            {
                "format": FORMAT,
                "content": self.contents[corpus],
                "pictures": [image.content() for image in images if isinstance(image.source, Path)],
                "size": [form.size, form.fit if form.size else ""],
                "channels": channels,
            }
        )

        def build(staged: Path) -> None:
            tell_size(self.progress, corpus.title, len(images), form, channels)
            decoded = decode_all(images, form, channels)
            chunks = iter(lambda: list(islice(decoded, _CHUNK)), [])
            types = {"pixels": pixel_stream(channels), "size": SIZE}
            write_store(staged, key, types, map(image_streams, chunks), Counter())

        return cached(cache_folder() / "pictures" / key, lambda folder: open_store(folder, key), build, self.progress)


def _fits(tokens: int, longest: int | None) -> bool:
    return longest is None or tokens <= longest


def _dropped(dropped: Mapping[str, int], longest: int | None) -> str:
    """Say how many captions were dropped and why."""
    words = {
        "empty": "blank",
        "line": "longer than `data.max_line`",
        "too long": f"longer than `data.max_length` ({longest} tokens)",
    }
    reasons = [f"{count:,} {words[reason]}" for reason, count in sorted(dropped.items())]
    return f"dropped {', '.join(reasons)}" if reasons else ""
