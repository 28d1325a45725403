"""The words of the built-in reports: people, things, places, times, deeds, and how an event is told and asked about."""

from typing import Final, NamedTuple


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
