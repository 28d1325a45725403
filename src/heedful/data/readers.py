"""Pairs of sentences from every kind of corpus that a recipe can name."""

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final, assert_never

from heedful.config.schema import AnyCorpus, BuiltinCorpus, JsonlCorpus, TextCorpus, TsvCorpus
from heedful.data import english_spanish
from heedful.data.lines import TextFile, check_exists, locate, read_lines
from heedful.data.text import TextForm
from heedful.errors import UserError, counted, suggestion
from heedful.files import sha256_of_file

Pair = tuple[str, str]
AS_IT_STANDS: Final = TextForm()


def read_pairs(corpus: AnyCorpus, folder: str = "", form: TextForm = AS_IT_STANDS) -> Iterator[Pair]:
    """Yield the (source, target) pairs of a corpus in order, blank ones included."""
    pairs = _selected(_all_pairs(corpus, folder), corpus)
    if form == AS_IT_STANDS:
        return pairs
    return ((form(source), form(target)) for source, target in pairs)


def is_blank(pair: Pair) -> bool:
    """Whether a side has nothing to say."""
    return not pair[0].strip() or not pair[1].strip()


def corpus_name(corpus: AnyCorpus) -> str:
    """What to call a corpus in messages."""
    if corpus.name:
        return corpus.name
    match corpus:
        case TextCorpus():
            return f"{corpus.source} + {corpus.target}"
        case TsvCorpus():
            return corpus.tsv
        case JsonlCorpus():
            return corpus.jsonl
        case BuiltinCorpus():
            return f"{corpus.builtin} {corpus.part}"
        case _:
            assert_never(corpus)


def check_files(corpus: AnyCorpus, folder: str = "") -> None:
    """Refuse a corpus whose files cannot be opened, before anything long begins."""
    for file in _files(corpus, folder):
        check_exists(file)


def content_key(corpus: AnyCorpus, folder: str = "") -> dict[str, object]:
    """All that decides which pairs are read: the content of the files, not where they are, and the reader's options."""
    files = _files(corpus, folder)
    check_files(corpus, folder)
    options = corpus.model_dump(exclude={"name", "weight"} | _FILE_KEYS[type(corpus)])
    return {
        "kind": type(corpus).__name__,
        "options": options,
        "files": [[sha256_of_file(file.path), file.path.suffix.lower(), file.member] for file in files],
        "generator": _generator_hashes() if isinstance(corpus, BuiltinCorpus) else [],
    }


_FILE_KEYS: dict[type, set[str]] = {
    TextCorpus: {"source", "target"},
    TsvCorpus: {"tsv"},
    JsonlCorpus: {"jsonl"},
    BuiltinCorpus: set(),
}


def _files(corpus: AnyCorpus, folder: str) -> list[TextFile]:
    match corpus:
        case TextCorpus():
            return [locate(corpus.source, folder), locate(corpus.target, folder)]
        case TsvCorpus():
            return [locate(corpus.tsv, folder)]
        case JsonlCorpus():
            return [locate(corpus.jsonl, folder)]
        case BuiltinCorpus():
            return []
        case _:
            assert_never(corpus)


def _generator_hashes() -> list[str]:
    """A generator that changed makes other sentences: its source text stands for them."""
    here = Path(english_spanish.__file__)
    return [sha256_of_file(file) for file in sorted(here.parent.glob(f"{here.stem}*.py"))]


def _all_pairs(corpus: AnyCorpus, folder: str) -> Iterator[Pair]:
    match corpus:
        case TextCorpus():
            return _text_pairs(*_files(corpus, folder))
        case TsvCorpus():
            return _tsv_pairs(corpus, *_files(corpus, folder))
        case JsonlCorpus():
            return _jsonl_pairs(corpus, *_files(corpus, folder))
        case BuiltinCorpus():
            return english_spanish.sentence_pairs(corpus.part, corpus.count)
        case _:
            assert_never(corpus)


def _text_pairs(source: TextFile, target: TextFile) -> Iterator[Pair]:
    check_exists(source)
    check_exists(target)
    rows = zip_longest(read_lines(source), read_lines(target))
    for number, (left, right) in enumerate(rows, start=1):
        if left is None or right is None:
            short, long = (source, target) if left is None else (target, source)
            total = number + sum(1 for _ in rows)
            raise UserError(
                f"{short.name} has {number - 1:,} lines but {long.name} has {total:,}: line n of one must translate "
                "line n of the other."
            )
        yield left, right


def _tsv_pairs(corpus: TsvCorpus, file: TextFile) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(file), start=1):
        if not line:
            yield "", ""
            continue
        columns = line.split("\t")
        if len(columns) < max(corpus.source, corpus.target):
            asked, column = max((corpus.source, "source"), (corpus.target, "target"))[::-1]
            raise UserError(
                f"{file.name}, line {number:,} has {counted(len(columns), 'column')}, but `{asked}` is column "
                f"{column}: columns are separated by tabs."
            )
        yield columns[corpus.source - 1], columns[corpus.target - 1]


def _jsonl_pairs(corpus: JsonlCorpus, file: TextFile) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(file), start=1):
        where = f"{file.name}, line {number:,}"
        if not line.strip():
            yield "", ""
            continue
        row = _json_object(line, where)
        yield _text_field(row, corpus.source, where), _text_field(row, corpus.target, where)


def _json_object(line: str, where: str) -> dict[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON: {error}.") from error
    if not isinstance(row, dict):
        raise UserError(f"{where} is {_json_kind(row)}, but must be an object with the fields of a pair.")
    return row


def _text_field(row: dict[str, object], field: str, where: str) -> str:
    if field not in row:
        raise UserError(f"{where} has no field `{field}`.{suggestion(field, list(row))}")
    text = row[field]
    if not isinstance(text, str):
        raise UserError(f"{where}: field `{field}` is {_json_kind(text)}, but must be text.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{where}: field `{field}` holds half of a surrogate pair, which is no character.") from error
    return text


def _json_kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"


def _selected(pairs: Iterator[Pair], corpus: AnyCorpus) -> Iterator[Pair]:
    """Only the pairs of `lines`, where the corpus has that key."""
    if not corpus.lines:
        yield from pairs
        return
    first, last = map(int, corpus.lines.split("-"))
    if not 1 <= first <= last:
        raise UserError(
            f'{corpus_name(corpus)}: `lines` is "{corpus.lines}", but must go up from a line to a later one, counted '
            "from 1."
        )
    number = 0
    for number, pair in enumerate(pairs, start=1):
        if number >= first:
            yield pair
        if number == last:
            return
    raise UserError(
        f'{corpus_name(corpus)} has {counted(number, "line")}, but `lines` is "{corpus.lines}": lower its end.'
    )
