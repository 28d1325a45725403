"""Every routine of ours that reads texts of any length, and texts that are hard for one or another of them."""

import contextlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from heedful.base.columns import one_column, printable
from heedful.base.errors import UserError
from heedful.base.files import is_unicode
from heedful.base.trees import from_sequence, read_tree
from heedful.cli.input import is_file
from heedful.cli.nbest_lists import read_nbest_lists
from heedful.config.corpora.containers import AnyCorpus, Conll, Csv, Jsonl, Tsv
from heedful.config.tokenizer import Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.corpora.formats.column_kinds import describe_columns, detect_header, detect_separator
from heedful.data.corpora.formats.column_names import meanings
from heedful.data.corpora.formats.conll import column_names
from heedful.data.corpora.formats.detection import detect
from heedful.data.corpora.formats.encodings import guess_encoding
from heedful.data.corpora.formats.json_objects import objects_of_array
from heedful.data.corpora.formats.lines import split_member
from heedful.data.corpora.formats.rows import read_rows
from heedful.data.corpora.sentence_splitting import split_sentences, split_with_spacing
from heedful.data.corpora.tagged import read_tagged
from heedful.data.corpora.trees import trees_of_lines
from heedful.data.text_form import Aligned, TextForm, join_words, split_words
from heedful.data.tokenize.cached import ShortenedWords
from heedful.data.tokenize.encoding import restore_breaks, running_pieces
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.decode.constraints.words.spelling import occurrences
from heedful.doctor.corpora.text_faults import excerpt, find_odd_characters
from heedful.explain.texts import swap_words
from heedful.metrics.edits import CHARACTERS, WORDS, nearest
from heedful.metrics.label_spans import spans_of
from heedful.metrics.translation import bleu, chrf
from heedful.pages.charts.drawing import escape
from heedful.pages.html import static_page
from heedful.server.html import HtmlTexts
from heedful.tasks.answer.baseline import _sentences
from heedful.tasks.answer.metrics import token_f1
from heedful.tasks.fill.mask_text import split_at_masks
from heedful.tasks.parse.bracketing import score_trees

# What is repeated up to the size that is asked for.
TEXTS: Mapping[str, str] = {
    "one endless word": "a",
    "words": "to be or not ",
    "spaces": " ",
    "dots": ".",
    "abbreviations": "a.b. ",
    "sentences": "A. ",
    "quotes": '. " ',
    "apostrophes": "'",
    "contractions": "n't ' ",
    "brackets": "( [ { ",
    "trees": "(S (NP a) ",
    "digits": "7",
    "commas": "1,a,",
    "hyphens": "- -",
    "tags": "<br <a &amp ",
    "tabs": "a\tb\t",
    "marks": "\u0300\u0316",
    "sigmas": "Σ'",
    "ideographs": "。」と",
    "files": ".zip:a",
    "json": '{"a":1},',
    "underscores": "_ ",
    "line ends": "a\r\n",
    "emails": "a@b.",
}
FORM = TextForm(nfc=True, lowercase=True)
SAMPLE = ["to be or not to be, that is the question: a dog 7.", "e\u0300 Σ 。」と n't"] * 20
KINDS: Mapping[str, Any] = {
    "byte pairs of bytes": ByteBpe(size=300),
    "byte pairs": Bpe(kind="bpe", size=60),
    "unigrams": Unigram(kind="unigram", size=60),
    "word pieces": WordPiece(kind="wordpiece", size=60),
    "words": Words(kind="word"),
    "letters": Characters(kind="char"),
}
TOKENIZERS = {name: train_tokenizer(kind, SAMPLE, []) for name, kind in KINDS.items()}


def in_file(suffix: str, read: Callable[[Path], object]) -> Callable[[str], object]:
    """Return a routine that reads a file with the text."""

    def routine(text: str) -> object:
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"file{suffix}"
            path.write_text(text, encoding="utf-8", newline="")
            return read(path)

    return routine


def words_of(tokenizer: Tokenizer, text: str) -> object:
    return tokenizer.words(tokenizer.encode(text))


def text_of(tokenizer: Tokenizer, text: str) -> object:
    return tokenizer.decode(tokenizer.encode(text))


def rows_of(make: Callable[[str], AnyCorpus]) -> Callable[[Path], object]:
    return lambda path: [*read_rows(make(str(path)), "")]  # type: ignore[arg-type]


ROUTINES: Mapping[str, Callable[[str], object]] = {
    "sentence splitting": split_sentences,
    "sentences with their spacing": split_with_spacing,
    "texts of HTML": lambda text: HtmlTexts(text).texts,
    **{f"Moses tokenizer, {one}": partial(split_words, language=one) for one in ("en", "de", "fr", "zh")},
    **{f"Moses detokenizer, {one}": partial(join_words, language=one) for one in ("en", "fr", "zh")},
    "normalisation": FORM,
    "normalisation with places": lambda text: Aligned.of(text, FORM),
    "one tree": lambda text: read_tree(text, "here"),
    "trees of lines": lambda text: [*trees_of_lines(text.split("\n"), "file")],
    "a tree of a sequence": lambda text: from_sequence(text.split(), [word for word in text.split() if word[0] != "("]),
    "scores of trees": lambda text: score_trees([read_tree(text, "here")], [read_tree(text, "here")]),
    "detection": in_file("", detect),
    "detection of CSV": in_file(".csv", detect),
    "detection of JSON": in_file(".json", detect),
    "rows of CSV": in_file(".csv", rows_of(lambda path: Csv(csv=path, text=1))),
    "rows of TSV": in_file(".tsv", rows_of(lambda path: Tsv(tsv=path, text=1))),
    "rows of JSON lines": in_file(".jsonl", rows_of(lambda path: Jsonl(jsonl=path, text="a"))),
    "sentences of CoNLL": in_file(".conll", lambda path: [*read_tagged(Conll(conll=str(path), word=1, label=2))]),
    "columns of CoNLL": lambda text: column_names([text, f"# global.columns = {text}"]),
    "objects of an array": lambda text: [*objects_of_array(f" [{text}")],
    "separator": lambda text: detect_separator([text] * 3),
    "header": lambda text: detect_header([text.split(",")] * 3),
    "kinds of columns": lambda text: describe_columns([1], [[text]] * 3, Path()),
    "meaning of a column": meanings,
    "encoding": lambda text: guess_encoding([text.encode("latin-1", "replace")]),
    "odd characters": find_odd_characters,
    "excerpt": lambda text: excerpt(text, "tags"),
    "BLEU": lambda text: bleu([text], [text[1:]]),
    "chrF": lambda text: chrf([text], [text[1:]]),
    "edits of characters": lambda text: nearest(text, text[::-1] + "b", CHARACTERS),
    "edits of words": lambda text: nearest(text, f"b {text[::-1]} b", WORDS),
    "spans of labels": lambda text: spans_of([f"B-{word}" for word in text.split()]),
    "F1 of an answer": lambda text: token_f1(text, [text[1:]]),
    "sentences of a reader's baseline": _sentences,
    "masks": split_at_masks,
    "required words": lambda text: [*occurrences(text, text[: len(text) // 2])],
    "required words that are missing": lambda text: [*occurrences(text, f"{text[: len(text) // 2]}#")],
    "swapped words": lambda text: swap_words(f"{text} b", {"b": "c"}),
    "words shortened for training": lambda text: [*ShortenedWords([text, text[:999] + " "])],
    **{f"pieces, {name}": one.encode for name, one in TOKENIZERS.items()},
    **{f"words of {name}": partial(words_of, one) for name, one in TOKENIZERS.items()},
    **{f"text of {name}": partial(text_of, one) for name, one in TOKENIZERS.items()},
    "running text": lambda text: running_pieces(text, True),
    "line breaks": lambda text: restore_breaks(text, TOKENIZERS["byte pairs"]),
    "one column": one_column,
    "terminal": printable,
    "name of a file": is_file,
    "member of an archive": split_member,
    "n-best lists": lambda text: [*read_nbest_lists([(text, "here")], ["a"], "here")],
    "Unicode": is_unicode,
    "image": escape,
    "page": lambda text: static_page(text, text, text),
}  # fmt: skip


def make_text(name: str, size: int) -> str:
    """Return the text of a name, of so many bytes."""
    part = TEXTS[name]
    return (part * (size // len(part.encode()) + 1))[: size * len(part) // len(part.encode())]


def seconds(routine: Callable[[str], object], text: str) -> float:
    """Return how long a routine takes; a text that it refuses counts too."""
    began = time.process_time()
    with contextlib.suppress(UserError):
        routine(text)
    return time.process_time() - began
