"""Pairs from files of CAT tools: TMX, and XLIFF 1.2 and 2. They are read as they stream, and nothing is fetched or run.

Text inside codes (<bpt>, <ept>, <ph>, <it>, <ut>, <sub>) is layout, and not part of a text; <hi>, <g>, <mrk> and <pc>
are around text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from heedful.base.errors import UserError, alternatives, counted
from heedful.base.notes import note
from heedful.config.corpora.containers import Tmx, Xliff
from heedful.data.corpora.formats.lines import TextFile, locate, read_parts

_READ: Final = 1 << 16  # bytes
_CODES: Final = frozenset(("bpt", "ept", "ph", "it", "ut", "sub"))
_UNITS: Final = frozenset(("tu", "trans-unit", "segment"))
_TEXTS: Final = frozenset(("seg", "source", "target"))
_OTHERS: Final = frozenset(("alt-trans", "match", "ignorable", "seg-source"))  # whose texts are not those of a unit
_UNTRANSLATED: Final = frozenset(("new", "needs-translation"))  # states of a target that only repeats its source
_DEEPEST: Final = 200  # elements in each other
_FACTS: Final[Mapping[tuple[str, str], str]] = {  # element and attribute, in lower case, that name a language
    ("header", "srclang"): "source",
    ("file", "source-language"): "source",
    ("file", "target-language"): "target",
    ("xliff", "srclang"): "source",
    ("xliff", "trglang"): "target",
}
_NAMING: Final = frozenset(element for element, _ in _FACTS)


@dataclass
class _Unit:
    """The texts of a unit by language, or in XLIFF by "source" and "target"."""

    line: int
    languages: Mapping[str, str]  # source and target of its file, as far as they are named
    texts: dict[str, str] = field(default_factory=dict)


def read_translations(corpus: Tmx | Xliff, folder: str = "") -> Iterator[tuple[str, str]]:
    """Yield the pairs of a file in order, without units that have no translation."""
    file = locate(corpus.files()[0], folder)
    pairs = _tmx_pairs(corpus, file) if isinstance(corpus, Tmx) else _xliff_pairs(corpus, file)
    lost = 0
    for pair in pairs:
        if pair is None:
            lost += 1
        else:
            yield pair
    if lost:
        note(f"{file.name}: {counted(lost, 'unit')} without a translation left out")


# --- languages --------------------------------------------------------------------------------------------------------


def is_language(asked: str, tag: str) -> bool:
    """Whether a tag such as "en-GB" is of the language that is asked for: "en", "en-gb" or "en_GB"."""
    asked, tag = (name.lower().replace("_", "-") for name in (asked, tag))
    return tag == asked or tag.startswith(f"{asked}-")


def _tmx_pairs(corpus: Tmx, file: TextFile) -> Iterator[tuple[str, str] | None]:
    source, target = corpus.source, corpus.target
    if not (source and target):
        source, target = _languages(corpus, file)
        note(f"{file.name}: translations from {source} to {target}")
    tags: dict[str, None] = {}
    found = False
    for unit in _Reader(file, "tmx").units():
        tags.update(dict.fromkeys(unit.texts))
        sides = [_text_of(unit, language, key, file) for language, key in ((source, "source"), (target, "target"))]
        if sides[0] is not None:  # a unit between other languages is not one that lacks its translation
            found = found or sides[1] is not None
            yield (sides[0], sides[1]) if sides[0] and sides[1] else None
    if not found:
        shown = f": its languages are {', '.join(tags)}" if tags else ", and no other texts"
        raise UserError(f'{file.name} has no translations from "{source}" to "{target}"{shown}.')


def _text_of(unit: _Unit, language: str, key: str, file: TextFile) -> str | None:
    """Return the text of a unit in a language; None without one."""
    tags = [tag for tag in unit.texts if is_language(language, tag)]
    exact = [tag for tag in tags if tag.lower() == language.lower()]
    if len(tags) > 1 and len(exact) != 1:
        raise UserError(
            f'{file.name}, line {unit.line:,}: "{language}" is {alternatives(tags)} there: set `{key}` to one of them.'
        )
    chosen = exact or tags
    return unit.texts[chosen[0]] if chosen else None


def _languages(corpus: Tmx, file: TextFile) -> tuple[str, str]:
    """Return the languages of a memory that has two, or those that remain where the recipe sets one."""
    tags, named = dict[str, None](), ""
    for unit in _Reader(file, "tmx", texts=False).units():
        tags.update(dict.fromkeys(unit.texts))
        named = unit.languages.get("source", "")
    if not tags:
        raise UserError(f"{file.name} has no units with texts.")
    others = [tag for tag in tags if not (corpus.target and is_language(corpus.target, tag))]
    said = corpus.source or (named if any(is_language(named, tag) for tag in others) else "")
    sources = [tag for tag in others if is_language(said, tag)] if said else others if corpus.target else []
    targets = [tag for tag in tags if (is_language(corpus.target, tag) if corpus.target else tag not in sources)]
    if len(sources) == len(targets) == 1:
        return corpus.source or sources[0], corpus.target or targets[0]
    first, *_, last = (*tags, *tags)
    example = f'`source = "{first}"` and `target = "{last}"`'
    raise UserError(f"{file.name} has texts in {', '.join(tags)}: choose two languages, as in {example}.")


def _xliff_pairs(corpus: Xliff, file: TextFile) -> Iterator[tuple[str, str] | None]:
    asked = {key: value for key, value in (("source", corpus.source), ("target", corpus.target)) if value}
    targets, others = dict[str, None](), dict[str, None]()
    for unit in _Reader(file, "xliff").units():
        named = unit.languages
        if any(key in named and not is_language(language, named[key]) for key, language in asked.items()):
            others[f"{named.get('source', '?')} to {named.get('target', '?')}"] = None
            continue
        targets[named.get("target", "")] = None
        if len(targets) > 1:
            choice = " or ".join(f'`target = "{tag}"`' for tag in targets)
            raise UserError(f"{file.name}, line {unit.line:,} has another target language than before: set {choice}.")
        source, target = unit.texts.get("source", ""), unit.texts.get("target", "")
        if source:
            yield (source, target) if target else None
    if not targets:
        shown = f", but from {', '.join(others)}" if others else ""
        wanted = " ".join(f'{"from" if key == "source" else "to"} "{value}"' for key, value in asked.items())
        raise UserError(f"{file.name} has no translations{f' {wanted}' if others else ''}{shown}.")


def _single_spaced(text: str) -> str:
    """Replace line breaks, tabs and runs of spaces by one space each; spaces that do not break stay."""
    for mark in "\t\r\n":
        text = text.replace(mark, " ")
    while "  " in text:  # halves every run: a regular expression takes ten times as long for megabytes of words
        text = text.replace("  ", " ")
    return text.strip()


# --- XML --------------------------------------------------------------------------------------------------------------


class _Reader:
    """Reads the units of a file, one after the other; without `texts`, only which languages they have."""

    def __init__(self, file: TextFile, root: str, texts: bool = True) -> None:
        self._file, self._root, self._read_texts = file, root, texts
        self._languages: Mapping[str, str] = {}
        self._ended: list[_Unit] = []  # units that were read
        self._unit: _Unit | None = None
        self._key = ""  # that the text has in its unit
        self._text: list[str] | None = None  # parts of the text that is read
        self._opened: list[str] = []
        self._codes = self._others = 0  # elements that are open whose text does not count
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._take
        self._parser.EntityDeclHandler = self._refuse_entity

    def units(self) -> Iterator[_Unit]:
        """Yield the units of the file, in order."""
        for part in self._parts():
            try:
                self._parser.Parse(part, not part)
            except expat.ExpatError as error:
                reason = expat.ErrorString(error.code)
                raise UserError(f"{self._file.name}, line {error.lineno:,} is not XML: {reason}.") from error
            except (LookupError, ValueError) as error:  # an encoding that Python does not know, or not of one byte
                raise UserError(f"{self._file.name} has an encoding that is not read ({error}): use UTF-8.") from error
            yield from self._ended
            self._ended = []

    def _parts(self) -> Iterator[bytes]:
        yield from read_parts(self._file, _READ)
        yield b""

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        name = name.rpartition(":")[2]
        values = {key.rpartition(":")[2].lower(): value for key, value in attributes.items()}
        if not self._opened and name != self._root:
            raise UserError(f"{self._file.name} is not {self._root.upper()}: its first element is `{name}`.")
        self._opened.append(name)
        if len(self._opened) > _DEEPEST:
            raise UserError(
                f"{self._file.name}, line {self._parser.CurrentLineNumber:,}: elements are nested more than {_DEEPEST} "
                f"deep, which no {self._root.upper()} has: the file is damaged."
            )
        if self._text is not None:
            self._codes += name in _CODES
            return
        self._others += name in _OTHERS
        if name in _NAMING:
            self._learn_languages(name, values)
        if self._others:
            return
        if name in _UNITS:
            self._unit = _Unit(self._parser.CurrentLineNumber, self._languages)
        elif name == "tuv":
            self._key = values.get("lang", "")
        elif name in _TEXTS and self._unit is not None:
            self._text = []
            if name != "seg":
                self._key = "" if name == "target" and values.get("state") in _UNTRANSLATED else name

    def _learn_languages(self, name: str, values: Mapping[str, str]) -> None:
        """Take the languages that an element names; those of a file in XLIFF 1.2 replace those of the file before."""
        found = {
            fact: values[key]
            for (element, key), fact in _FACTS.items()
            if element == name and values.get(key, "*all*") != "*all*"
        }
        if found:
            self._languages = found if name == "file" else {**self._languages, **found}

    def _take(self, data: str) -> None:
        if self._text is not None and not self._codes:
            self._text.append(data)

    def _end(self, _: str) -> None:
        name = self._opened.pop()
        if self._text is not None:
            self._codes -= name in _CODES
            if name in _TEXTS and self._unit is not None:
                if self._key:
                    self._unit.texts[self._key] = _single_spaced("".join(self._text)) if self._read_texts else ""
                self._text = None
            return
        self._others -= name in _OTHERS
        if name in _UNITS and self._unit is not None and not self._others:
            self._ended.append(self._unit)
            self._unit = None

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise UserError(
            f"{self._file.name}, line {self._parser.CurrentLineNumber:,} declares the entity `{name}`: such files are "
            "not read. Replace it by its text, and remove the declaration."
        )
