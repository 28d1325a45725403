"""A built-in corpus: short reports of invented events, and questions about them: who, what, where, when, how many.

A report tells two to four events in varied words, between sentences that say nothing. Its events have different
people and different things, but often share the deed, the place or the time, so that an answer is found only by
whoever connects the question with the right event.

The parts are split by combination. About one name-thing, one name-place and one thing-place pair in twelve is held
out: it never occurs in an event of "train" or "valid", and every event of "test" has at least one. Every word is
trained on; which words go together is not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

from heedful.data.builtin.choices import Choices, check_part, hash_of

# --- words ------------------------------------------------------------------------------------------------------------


class Deed(NamedTuple):
    """What people do with things, as one says it."""

    base: str  # "find"
    past: str  # "found"
    participle: str  # "found", as in "were found"


class Phrase(NamedTuple):
    """A place or a time: the preposition, and the answer to a question after it."""

    preposition: str
    core: str

    @property
    def whole(self) -> str:
        """The phrase with its preposition."""
        return f"{self.preposition} {self.core}".strip()


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WOMEN: Final = _words(
    "Alma Beatrix Clara Dora Edith Flora Greta Hanna Ingrid Judith Karen Lydia Mona Nora Olga Paula Rita Sonja Thea "
    "Ursula Vera Wanda Yvonne Zelda"
)
MEN: Final = _words(
    "Arthur Boris Conrad Dennis Emil Frank Gustav Henry Ivan Jasper Kurt Leo Martin Nils Oscar Peter Quentin Robert "
    "Simon Thomas Ulrich Victor Walter Xavier"
)
NAMES: Final = WOMEN + MEN
SURNAMES: Final = _words("Abbott Berg Carter Dale Ellis Ford Grant Holm Irving Jensen Keller Lund Moss Nolan Olsen")

THINGS: Final = (
    "lanterns", "silver coins", "old maps", "wooden chairs", "umbrellas", "keys", "letters", "baskets of apples",
    "bicycles", "clocks", "blue vases", "paintings", "violins", "tents", "candles", "boxes of books", "mirrors",
    "carpets", "telescopes", "cups", "glass bottles", "kites", "ladders", "drums", "boots", "ropes", "bells",
    "sacks of flour", "cameras", "hats", "pots of paint", "toy boats", "stamps", "scarves", "barrels", "lamps",
)  # fmt: skip
PLACES: Final = tuple(
    Phrase(*words.split(" ", 1))
    for words in (
        "in the harbour", "at the old mill", "behind the station", "in the library", "at the market", "near the bridge",
        "in the museum", "on the island", "at the airport", "in the town hall", "under the castle", "in the school",
        "at the theatre", "in the forest", "beside the lake", "at the bakery", "in the garden", "on the farm",
        "at the hospital", "in the cellar", "near the fountain", "at the lighthouse", "in the park", "on the beach",
        "at the factory", "behind the church", "in the post office", "at the hotel", "near the river", "in the attic",
        "at the stadium", "in the workshop", "on the square", "at the zoo", "in the cave", "near the windmill",
    )
)  # fmt: skip
TIMES: Final = tuple(
    Phrase(*words.split(" ", 1))
    for words in (
        "on Monday", "on Tuesday", "on Wednesday", "on Thursday", "on Friday", "on Saturday", "on Sunday",
        "on Monday morning", "on Friday evening", "on Sunday afternoon", "in January", "in March", "in April",
        "in June", "in August", "in October", "in December", "in the spring", "in the autumn", "in 1987", "in 1994",
        "in 2003", "in 2011", "in 2016", "at noon", "at midnight", "at dawn", "before the storm", "after the concert",
        "during the fair",
    )
)  # fmt: skip
NUMBERS: Final = _words(
    "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty fifty 17 24 38 46 75 120"
)
DEEDS: Final = tuple(
    Deed(*words.split())
    for words in (
        "find found found", "buy bought bought", "sell sold sold", "hide hid hidden", "repair repaired repaired",
        "lose lost lost", "count counted counted", "paint painted painted", "borrow borrowed borrowed",
        "collect collected collected", "clean cleaned cleaned", "deliver delivered delivered",
    )
)  # fmt: skip

# {who} {they} {did} {done} {number} {things} {place} {time}: each is replaced once, and its position is remembered.
TOLD: Final = (
    "{time}, {who} {did} {number} {things} {place}.",
    "{who} {did} {number} {things} {place} {time}.",
    "{place}, {who} {did} {number} {things} {time}.",
    "{who} was {place} {time} and {did} {number} {things}.",
    "It was {who} who {did} {number} {things} {place} {time}.",
    "{number} {things} were {done} by {who} {place} {time}.",
    "{time}, {number} {things} were {done} {place} by {who}.",
    "{who} came home {time} after a visit {place}, where {they} {did} {number} {things}.",
    "According to {who}, {number} {things} were {done} {place} {time}, all by {who} alone.",
    "{time} it rained, and {who} stayed {place}. There {they} {did} {number} {things}.",
)
FILLERS: Final = (
    "Nobody was surprised.", "It was a quiet week.", "The weather was fine.", "Nothing else happened.",
    "The neighbours talked about it for days.", "A photograph was taken.", "The police were not called.",
    "Everyone was tired afterwards.", "The mayor sent a short note.", "It made the front page.",
    "Some people said that it was luck.", "Others were busy elsewhere.",
)  # fmt: skip
ASKED: Final = {  # by what is asked for; {who} {did} {do} {things} {place} {time} are the event's, with prepositions
    "who": ("Who {did} {things} {place}?", "Who {did} {things}?", "By whom were {things} {done} {place}?"),
    "what": ("What did {who} {do} {place}?", "What did {who} {do}?", "What was {done} by {who}?"),
    "place": ("Where did {who} {do} {things}?", "Where were {things} {done} by {who}?"),
    "time": ("When did {who} {do} {things}?", "When were {things} {done} by {who}?"),
    "number": ("How many {things} did {who} {do}?", "How many {things} were {done} by {who}?"),
}


# --- the corpus -------------------------------------------------------------------------------------------------------


_HELD_OUT_ONE_IN: Final = 12  # pairs
_VALID_ONE_IN: Final = 10  # reports, of those without a held-out pair
_QUESTIONS: Final = 3  # about each report

Row = tuple[str, str, tuple[str, ...], int | None]  # question, text, answers, and where the first one starts


@dataclass(frozen=True)
class Event:
    """Who did what to how many things, where and when."""

    first: str
    surname: str
    deed: Deed
    number: str
    thing: str
    place: Phrase
    time: Phrase

    @property
    def who(self) -> str:
        """First name and surname."""
        return f"{self.first} {self.surname}"

    def words(self) -> Mapping[str, str]:
        """Return the parts of the event by the names that they have in sentences and questions."""
        return {
            "who": self.who,
            "they": "she" if self.first in WOMEN else "he",
            "did": self.deed.past,
            "do": self.deed.base,
            "done": self.deed.participle,
            "number": self.number,
            "things": self.thing,
            "place": self.place.whole,
            "time": self.time.whole,
        }


def report_questions(part: str, count: int, unanswerable: float = 0.0, seed: int = 0) -> Iterator[Row]:
    """Yield `count` questions of one part: the same for the same arguments, everywhere.

    A longer draw begins with the shorter one. A share of `unanswerable` questions combine parts of different events, so
    that the report has no answer to them.
    """
    check_part("reports", part)
    return islice(_rows(part, unanswerable, seed), count)


def _rows(part: str, unanswerable: float, seed: int) -> Iterator[Row]:
    draw = _Draw(f"reports {part} {seed}")
    while True:
        events = draw.events(part == "test")
        text, places = _tell(events, draw)
        if part != "test" and (crc32(text.encode()) % _VALID_ONE_IN == 0) != (part == "valid"):
            continue
        kinds = draw.several([*ASKED], _QUESTIONS)
        for kind in kinds:
            number = draw.below(len(events))
            if unanswerable and draw.share() < unanswerable:
                other = events[(number + 1) % len(events)]
                yield _ask_in_vain(events[number], other, kind, draw), text, (), None
            else:
                start, end = places[number][kind]
                yield draw.one(ASKED[kind]).format_map(events[number].words()), text, (text[start:end],), start


@cache
def is_held_out(one: str, other: str) -> bool:
    """Decide, by a hash that no platform or process changes, whether a pair of words belongs to the test part."""
    return hash_of(f"reports {one} {other}") % _HELD_OUT_ONE_IN == 0


def holds_held_out(event: Event) -> bool:
    """Whether an event has a held-out pair of its name, its thing and its place."""
    name, thing, place = event.first, event.thing, event.place.core
    return is_held_out(name, thing) or is_held_out(name, place) or is_held_out(thing, place)


# --- drawing ----------------------------------------------------------------------------------------------------------


class _Draw(Choices):
    """Draws events and questions of reports."""

    def events(self, held_out: bool) -> list[Event]:
        """Draw the events of a report, all with a held-out pair or all without."""
        count = 2 + self.below(3)
        deeds, places, times = self.several(DEEDS, 2), self.several(PLACES, count), self.several(TIMES, count)
        events: list[Event] = []
        while len(events) < count:
            shared = bool(events) and self.below(4) == 0
            event = Event(
                self.one(NAMES),
                self.one(SURNAMES),
                self.one(deeds),
                self.one(NUMBERS),
                self.one(THINGS),
                events[0].place if shared else self.one(places if not held_out else PLACES),
                self.one(times),
            )
            taken = any(event.first == other.first or event.thing == other.thing for other in events)
            if not taken and holds_held_out(event) == held_out:
                events.append(event)
        return events


# --- telling and asking -----------------------------------------------------------------------------------------------


def _tell(events: Sequence[Event], draw: _Draw) -> tuple[str, list[Mapping[str, tuple[int, int]]]]:
    """Return the text of a report, and for each event where it answers each kind of question."""
    text = ""
    places: list[Mapping[str, tuple[int, int]]] = []
    for event in events:
        if draw.below(3) == 0:
            text += f"{draw.one(FILLERS)} "
        sentence, spans = _fill(draw.one(TOLD), event)
        places.append({kind: (len(text) + start, len(text) + end) for kind, (start, end) in spans.items()})
        text += f"{sentence} "
    return text.rstrip(), places


def _fill(pattern: str, event: Event) -> tuple[str, dict[str, tuple[int, int]]]:
    """Put an event into a pattern; remember where the answers are."""
    sentence, spans, words = "", dict[str, tuple[int, int]](), event.words()
    for piece in pattern.replace("}", "{").split("{"):
        kind = {"things": "what"}.get(piece, piece)
        if piece not in words:
            sentence += piece
            continue
        core = {"place": event.place.core, "time": event.time.core}.get(piece, words[piece])
        end = len(sentence) + len(words[piece])
        spans.setdefault(kind, (end - len(core), end))
        sentence += words[piece]
    return sentence[0].upper() + sentence[1:], spans


def _ask_in_vain(event: Event, other: Event, kind: str, draw: _Draw) -> str:
    """Ask about something that did not happen: one event's person with another's thing, or a thing in no event."""
    words = {**event.words(), **{key: other.words()[key] for key in ("things", "place")}}
    if kind in ("who", "what"):  # these may not name the thing, or the person: both change
        words |= {"who": "Agnes Stone", "things": "golden rings"}
    return draw.one(ASKED[kind]).format_map(words)
