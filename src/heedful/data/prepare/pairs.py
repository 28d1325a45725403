"""From a recipe to tokenizers and tokenized pairs; what the cache already has is neither trained nor read again."""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Final

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AnyCorpus, Builtin
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import AnySide, SideName, side_of
from heedful.data.cache import Say
from heedful.data.corpora.pairs import Pair, is_blank, read_pairs, why_blank
from heedful.data.prepare.prepared import Preparation, Prepared
from heedful.data.prepare.stores import Rows, Streams
from heedful.data.text_form import TextForm
from heedful.data.token_store import StreamType, id_stream
from heedful.data.tokenize.cached import Sample, TokenizerTraining
from heedful.data.tokenize.encoding import Encoded, Encoder, Filters
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.data.tokenize.worker_pool import Workers, available_cores

SIDES: Final[tuple[SideName, ...]] = ("source", "target")
_CHUNK: Final = 4096  # pairs that are tokenized together
_FEW: Final = 12  # chunks for which no other processes are started


def prepare(
    recipe: Recipe,
    progress: Say = lambda message: None,
    given: Vocabularies | None = None,
) -> Prepared:
    """Train the tokenizers, unless vocabularies are given, and tokenize the training and validation corpora.

    `progress` is called with a line of text for each longer task.
    """
    work, data = Preparation.of(recipe, progress, given), recipe.data
    if given is not None:
        vocabularies = _extended(work, given) if given.to_learn else given
    elif recipe.tokenizer.joint:
        vocabularies = Vocabularies(dict.fromkeys(SIDES, _tokenizer(work, recipe.tokenizer, "both", SIDES)))
    else:
        vocabularies = Vocabularies(
            {side: _tokenizer(work, side_of(recipe.tokenizer, side), side, (side,)) for side in SIDES}
        )
    source, target = vocabularies["source"], vocabularies["target"]
    for corpus in (*data.train, *data.valid, *data.test):
        _refuse_unknown_tag(corpus, source)

    def rows(corpus: AnyCorpus, training: bool) -> Rows[Pair]:
        filters = Filters(data.max_length, data.max_ratio) if training else Filters()
        return pair_rows(corpus, data, source, target, filters)

    return work.prepared(vocabularies, rows)


def _extended(work: Preparation, given: Vocabularies) -> Vocabularies:
    """Return given vocabularies with new pieces that the texts of their sides need."""
    most = work.recipe.tokenizer.sample

    def grown(*sides: SideName) -> Tokenizer:
        of_side = "" if len(sides) > 1 else f" of the {sides[0]} side"
        return work.extended(given[sides[0]], lambda: sample_pairs(work.data, sides, most), of_side)

    if given.joint:
        return Vocabularies(dict.fromkeys(SIDES, grown(*SIDES)))
    return Vocabularies({side: grown(side) for side in SIDES})


def _refuse_unknown_tag(corpus: AnyCorpus, tokenizer: Tokenizer) -> None:
    """Refuse a target language without a tag, and where a given vocabulary has tags, a corpus without a language."""
    if tokenizer.tags and not corpus.to:
        known = ", ".join(f'"{language}"' for language in tokenizer.tags)
        raise UserError(f"{corpus.title}: `to` is missing, but the vocabulary has tags: set it to one of {known}.")
    try:
        if corpus.to:
            tokenizer.tag(corpus.to)
    except UserError as error:
        raise UserError(f'{corpus.title}: `to` is "{corpus.to}", but {error}') from error


def _tokenizer(work: Preparation, config: AnySide, name: str, sides: Sequence[SideName]) -> Tokenizer:
    """Return the tokenizer of one side or of both, from the cache or trained on the training corpora."""
    data = work.data

    def sample() -> Sample:
        for corpus in data.train:
            if all(is_blank(pair) for pair in read_pairs(corpus, data.folder)):
                missing = "tree" if "tree" in corpus.roles else "pair with text on both sides"
                raise UserError(f"{corpus.title} has no {missing} to train on.")
        return sample_pairs(data, sides, config.sample)

    languages = sorted({corpus.to for corpus in data.train if corpus.to}) if "source" in sides else []
    of_side = "" if name == "both" else f" of the {name} side"
    training = TokenizerTraining(config, work.form, [work.contents[corpus] for corpus in data.train], languages)
    return training.tokenizer(name, of_side, sample, work.progress)


def sample_pairs(data: Data, sides: Sequence[SideName], most: int) -> Sample:
    """Return at most `most` texts of these sides of the training corpora, in whole pairs."""

    def rows() -> Iterator[tuple[str, ...]]:
        for corpus in data.train:
            for pair in read_pairs(corpus, data.folder, TextForm.of(data)):
                yield tuple(text for side, text in zip(SIDES, pair, strict=True) if side in sides)

    return Sample.of(rows, most, len(sides), sum(_count(corpus, data.folder) for corpus in data.train))


def _count(corpus: AnyCorpus, folder: str) -> int:
    """Count the pairs of a corpus, which is read only where its table does not tell."""
    if corpus.lines:
        first, last = corpus.line_range
        return last - first + 1
    return corpus.count if isinstance(corpus, Builtin) else sum(1 for _ in read_pairs(corpus, folder))


# --- stores -----------------------------------------------------------------------------------------------------------


def pair_rows(
    corpus: AnyCorpus, data: Data, source: Tokenizer, target: Tokenizer, filters: Filters, processes: int | None = None
) -> "PairRows":
    """Return what the rows of a corpus of pairs, or of trees, are; by default all cores tokenize."""
    form = TextForm.of(data)
    tag = [source.tag(corpus.to)] if corpus.to else []
    stream = PairStream(source, target, filters, form, tag, data.target_tags)
    return PairRows(
        noun="tree" if "tree" in corpus.roles else "pair",
        read=lambda dropped: read_pairs(corpus, data.folder, form),
        streams=[stream],
        objection=lambda pair: why_blank(pair) if is_blank(pair) else None,
        dropped={
            "empty": "with an empty side",
            "line": f"with a line longer than `data.max_line` ({data.max_line:,} characters)",
            "ratio": f"of lengths further apart than `data.max_ratio` ({data.max_ratio})",
            "too long": f"longer than `data.max_length` ({data.max_length:,} tokens)",
        },
        chunk=_CHUNK,
        stream=stream,
        processes=available_cores() if processes is None else processes,
    )


@dataclass(frozen=True, eq=False)
class PairStream:
    """The tokens of both sides of pairs, without the pairs that filters object to."""

    source: Tokenizer
    target: Tokenizer
    filters: Filters
    form: TextForm
    tag: Sequence[int] = ()  # goes before every source
    both: bool = False  # whether it goes before every target too

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The ids of both vocabularies."""
        return {"source": id_stream(self.source.size), "target": id_stream(self.target.size)}

    @property
    def key(self) -> Mapping[str, object]:
        """The form of texts, the tokenizers and the filters; the tag is decided by the corpus and the tokenizer."""
        return {
            "form": self.form.key(),
            "tokenizers": [self.source.fingerprint, self.target.fingerprint],
            "filters": [self.filters.max_length, self.filters.max_ratio],
            **({"target_tags": True} if self.both else {}),
        }

    @cached_property
    def encoder(self) -> Encoder:
        """The work of a process that tokenizes."""
        return Encoder(self.source, self.target, self.filters, self.tag, self.both)

    def encode(self, rows: Sequence[Pair], dropped: Counter[str]) -> Streams:
        """Tokenize pairs in this process."""
        return self.taken(self.encoder(rows), dropped)

    def taken(self, encoded: Encoded, dropped: Counter[str]) -> Streams:
        """Count the pairs that a process left out, and return the others."""
        dropped.update(encoded.dropped)
        return encoded.streams


@dataclass(frozen=True, kw_only=True)
class PairRows(Rows[Pair]):
    """Pairs of texts, tokenized by several processes where there are many."""

    stream: PairStream
    processes: int

    def encode(self, chunks: Iterator[list[Pair]], dropped: Counter[str]) -> Generator[Streams, None, None]:
        """Encode in this process where the corpus is small: starting others takes a second."""
        first = list(islice(chunks, _FEW))
        chunks = chain(first, chunks)
        portable = self.stream.source.portable and self.stream.target.portable
        if len(first) < _FEW or self.processes == 1 or not portable:
            yield from super().encode(chunks, dropped)
            return
        with Workers(self.stream.encoder, self.processes) as workers:
            for encoded in workers.map(chunks):
                yield self.stream.taken(encoded, dropped)
