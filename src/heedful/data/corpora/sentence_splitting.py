"""Sentences found in running text, by rules that ask for no model and hardly for a language.

A sentence ends at `.`, `!`, `?` or `…`, with the closing quotes and brackets after it, where white space and
something that can begin a sentence follow. Line breaks and `<br />` end one always, and so do the stops of Chinese and
Japanese, which have no space after it. Text with spaces around its punctuation is understood as well.
"""

import re
from itertools import pairwise
from typing import Final, NamedTuple

RULES: Final = 1  # raise it when the same text gives other sentences

_BREAK: Final = re.compile(r"(?i)<br\s*/?>")
_BETWEEN: Final = re.compile(r"(?i)(?:\s|<br\s*/?>)*+")
_OPENERS: Final = r"\"'“”„‘’‚«»‹›(\[{¿¡"  # straight quotes open and close, and so do those that languages turn round
_CLOSERS: Final = r"\"'“”‘’«»‹›)\]}"
_END: Final = re.compile(  # possessive: time is linear whatever the text is
    rf"(?P<stop>[.!?…‽؟۔।॥]++)[{_CLOSERS}]*+(?: [)\]}}”’](?= ))*+(?P<quote> \"(?= ))?"
    r"|(?P<wide>[。！？｡]++)[」』）】》〉〕”’\"]*+"
)
_BEGIN: Final = re.compile(rf"[{_OPENERS} –—-]*+(?P<first>.)")
_NEVER_FIRST: Final = frozenset(".,;:!?…%)]}/|·")
_LONG: Final = 2000  # letters: no sentence goes back farther, as far as quotes are counted
_WINDOW: Final = 16  # letters before a stop that can tell what it is
_LAST_WORD: Final = re.compile(rf"(?:^| )[{_OPENERS}]*(?P<word>[^ {_OPENERS}]{{1,9}})\Z")  # where it is short
_SPELLED_OUT: Final = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}|[^\W\d_]")  # e.g, U.S, Ph.D, z.B; initials
_NUMBER: Final = re.compile(r"\d{1,2}")
_QUOTED_SPEECH: Final = re.compile(r"[」』]\Z")  # in Japanese, と or って may continue the sentence

# Abbreviations that come before a name or another word, hardly ever at the end of a sentence.
_ABBREVIATION: Final = re.compile(
    r"(?i)mr|mrs|ms|messrs|mme|mmes|mlle|dr|dra|drs|prof|rev|fr|hon|st|ste|mt|gen|maj|col|capt|cmdr|cpt|lt|sgt|cpl"
    r"|adm|gov|sen|rep|pres|supt|hr|sr|sra|srta|dott|sig|vs|cf|viz|al|resp|ca|approx|bzw|evtl|ggf|inkl|vgl"
)
_BEFORE_NUMBER: Final = re.compile(r"(?i)nos?|nr|núm|n|vols?|pp?|pg|figs?|ch|chap|sec|art|op|eq|abs|bd|kap")
_AFTER_ORDINAL: Final = re.compile(  # German has "3. Mai", and writes nouns with capitals
    r"Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|Jahrhundert"
)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, in order, with single spaces for white space: only `<br />` is lost."""
    lowercase = text.islower()  # no capital shows where a sentence begins
    lines = (" ".join(line.split()) for line in _BREAK.sub("\n", text).splitlines())
    return [sentence for line in lines if line for sentence in _sentences(line, lowercase)]


class Piece(NamedTuple):
    """A sentence of a text, with the white space and the breaks before it."""

    before: str
    text: str  # as it is written; empty for what follows the last sentence


def split_with_spacing(text: str) -> list[Piece]:
    """Return the sentences of a text so that all pieces, joined, are the text again; a blank text is one piece."""
    pieces: list[Piece] = []
    cursor = 0
    for sentence in split_sentences(text):
        skipped = _BETWEEN.match(text, cursor)
        begin = end = skipped.end() if skipped else cursor
        for number, word in enumerate(sentence.split()):
            place = text.index(word, end)
            begin, end = begin if number else place, place + len(word)
        pieces.append(Piece(text[cursor:begin], text[begin:end]))
        cursor = end
    if cursor < len(text) or not pieces:
        pieces.append(Piece(text[cursor:], ""))
    return pieces


def _sentences(line: str, lowercase: bool) -> list[str]:
    """Return the sentences of a line that has single spaces only."""
    cuts = [0]
    for match in _END.finditer(line):
        end = _end_of_sentence(line, cuts[-1], match, lowercase)
        if end is not None:
            cuts.append(end)
    return [line[begin:end].strip() for begin, end in pairwise((*cuts, len(line)))]


def _end_of_sentence(line: str, begin: int, match: re.Match[str], lowercase: bool) -> int | None:
    """Return where the sentence that began at `begin` ends after this stop; None where it does not."""
    end = match.end()
    if match["wide"]:
        goes_on = _QUOTED_SPEECH.search(match[0]) and line.startswith(("と", "って"), end)
        return None if goes_on or end == len(line) else end
    if line[end : end + 1] != " ":
        return None
    if match["quote"] and line.count('"', max(begin, end - _LONG), match.start("quote")) % 2 == 0:
        end = match.start("quote")  # it opens what follows
    first = _BEGIN.match(line, end)
    if first is None or first["first"] in _NEVER_FIRST:
        return None
    sign, before = line[match.start() : end], line[max(begin, match.start() - _WINDOW) : match.start()]
    ellipsis = (match["stop"] != "." and not match["stop"].strip(".…")) or before.endswith((". ", "… "))
    alone = sign == "." and before.endswith(" ")
    if first["first"].islower() and (ellipsis or not (alone or lowercase)):
        return None
    return None if sign == "." and _is_abbreviation(before, first) else end


def _is_abbreviation(before: str, first: re.Match[str]) -> bool:
    """Whether a full stop belongs only to the word before it."""
    found = _LAST_WORD.search(before)
    word = found["word"] if found else ""
    if _NUMBER.fullmatch(word):
        is_item = word == before.strip()
        return is_item or bool(_AFTER_ORDINAL.match(first.string, first.start("first")))
    if _BEFORE_NUMBER.fullmatch(word):
        return first["first"].isdigit()
    return bool(_SPELLED_OUT.fullmatch(word) or _ABBREVIATION.fullmatch(word))
