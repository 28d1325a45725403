"""Draws the sentences of the built-in English-Spanish corpus: which words and forms go together, and how often."""

from functools import cache
from typing import Final, TypeAlias

from heedful.data.builtin import english_spanish_grammar as grammar
from heedful.data.builtin.choices import Choices
from heedful.data.builtin.english_spanish_grammar import Clause, Mood, NounPhrase, Sentence, Subject, Words
from heedful.data.builtin.english_spanish_lexicon import (
    ADJECTIVES,
    BE_ESTAR,
    BE_SER,
    IN_DIGITS,
    IN_WORDS,
    MASS_KINDS,
    NOUNS,
    THERE_BE,
    VERBS,
    Noun,
    Tense,
    Verb,
    kinds,
)


@cache
def nouns_of(some: frozenset[str]) -> tuple[Noun, ...]:
    """List the nouns of some kinds, in the lexicon's order."""
    return tuple(noun for noun in NOUNS if noun.kind in some)


# What a draw chooses from, each as often as it stands here.

_ADJECTIVES_OF: Final = {noun.kind: tuple(word for word in ADJECTIVES if noun.kind in word.kinds) for noun in NOUNS}
_QUALITIES_OF: Final = {kind: tuple(word for word in some if word.copula) for kind, some in _ADJECTIVES_OF.items()}
_TRANSITIVE: Final = tuple(verb for verb in VERBS if verb.objects and verb.lemma != "give")  # one gives to somebody
_INTRANSITIVE: Final = tuple(verb for verb in VERBS if not verb.objects)
_GIVING: Final = tuple(verb for verb in VERBS if "gives" in verb.notes)
_MUST_SAY_WHERE: Final = tuple(verb for verb in VERBS if verb.lemma in ("live", "go"))
_PRONOUNS: Final = (*(grammar.ME, grammar.YOU) * 2, grammar.HE, grammar.SHE, grammar.WE, grammar.THEY)
_LIVING: Final = grammar.PEOPLE | grammar.ANIMALS
_DESCRIBED: Final = kinds("living objects places edible drink")
_LOCATED: Final = kinds("living thing paper clothes food")
_EXISTING: Final = kinds("person animals thing paper clothes food")
_OWNED: Final = kinds("family animals objects edible drink building room")

Shape: TypeAlias = tuple[grammar.Determiner, bool, bool]  # plural, with a numeral
_OWNERS: Final = (grammar.MY, grammar.YOUR, grammar.HIS, grammar.HER, grammar.OUR, grammar.THEIR)
_POINTING: Final = (*_OWNERS, grammar.THIS, grammar.THAT)
_MASS: Final[tuple[Shape, ...]] = (*((grammar.THE, False, False),) * 8, *((word, False, False) for word in _POINTING))
_MASS_OBJECT: Final[tuple[Shape, ...]] = (*_MASS, *((grammar.BARE, False, False),) * 8)
_SINGULAR: Final[tuple[Shape, ...]] = (*_MASS, *((grammar.A, False, False),) * 4)
_INDEFINITE: Final[tuple[Shape, ...]] = (
    *((grammar.A, False, False),) * 4,
    *((grammar.BARE, True, True),) * 3,
    (grammar.MANY, True, False),
)
_SPECIFIC: Final[tuple[Shape, ...]] = (
    *_MASS,
    *((grammar.THE, True, False),) * 6,
    *((grammar.THE, True, True),) * 3,
    *((word, True, False) for word in _POINTING),
    *((word, True, True) for word in (grammar.MY, grammar.HER, grammar.THIS, grammar.THAT)),
)
_ANY: Final[tuple[Shape, ...]] = (*_SPECIFIC, *_INDEFINITE * 2)
_SIMPLE: Final[tuple[Shape, ...]] = (*_SINGULAR, *((word, True, False) for word in (*(grammar.THE,) * 4, *_OWNERS)))
_FEW: Final = (*IN_WORDS[:11] * 2, *IN_DIGITS[:11])
_NUMERALS: Final = (*_FEW * 6, *IN_WORDS, *IN_DIGITS)
_SELDOM_MANY: Final = kinds("family places")

Spot: TypeAlias = tuple[grammar.Preposition, frozenset[str]]
_SPOTS: Final[dict[str, tuple[Spot, ...]]] = {
    "in": (
        *((grammar.IN, kinds("inside")),) * 4,
        (grammar.NEAR, kinds("places")),
        (grammar.BEHIND, kinds("building landmark")),
        (grammar.IN_FRONT_OF, kinds("building landmark")),
    ),
    "to": ((grammar.TO, kinds("places")),) * 4,
    "far": ((grammar.TO, kinds("place landmark shore")),) * 2,
    "from": ((grammar.FROM, kinds("places")),) * 4,
    "with": ((grammar.WITH, kinds("people")),) * 2,
    "thing": (
        *((word, kinds("furniture")) for word in (grammar.ON, grammar.UNDER, grammar.NEAR)),
        (grammar.IN, kinds("room")),
    ),
}
_SPOTS_OF: Final = {
    verb: tuple(spot for note, spots in _SPOTS.items() if note in verb.notes for spot in spots) for verb in VERBS
}

_TENSE_WEIGHTS: Final[dict[Tense, int]] = {
    "present": 8,
    "past": 8,
    "future": 4,
    "progressive": 3,
    "can": 2,
    "want": 2,
    "wanted": 1,
}
_TENSES: Final = {
    verb: tuple(tense for tense, weight in _TENSE_WEIGHTS.items() if tense in verb.forms for _ in range(weight))
    for verb in (*VERBS, BE_SER)
}


def _times(table: str) -> tuple[Words, ...]:
    return tuple(Words(*entry.split(" = ")) for entry in table.split(", "))


_NOW: Final = _times("now = ahora, today = hoy")
_TIMES: Final[dict[Tense, tuple[Words, ...]]] = {
    "present": _times(
        "every day = todos los días, every week = todas las semanas, in the morning = por la mañana, "
        "at night = por la noche, in summer = en verano, on Sundays = los domingos"
    ),
    "past": _times(
        "yesterday = ayer, last night = anoche, last week = la semana pasada, last year = el año pasado, "
        "on Monday = el lunes, a month ago = hace un mes"
    ),
    "future": _times(
        "tomorrow = mañana, tonight = esta noche, next week = la próxima semana, next year = el próximo año, "
        "on Friday = el viernes, soon = pronto"
    ),
    "can": _NOW,
    "progressive": _NOW,
    "want": _NOW,
    "wanted": _times("yesterday = ayer, last night = anoche"),
}


def _adverbs_of(verb: Verb) -> dict[Tense, tuple[Words, ...]]:
    if "state" in verb.notes:  # nunca vivía would say something else
        return {"present": (grammar.ALWAYS, grammar.NEVER, grammar.ALSO)}
    return {"present": (grammar.ALWAYS, grammar.NEVER, grammar.ALSO), "past": (grammar.NEVER, grammar.ALSO)}


def _asks_of(verb: Verb) -> tuple[Words, ...]:
    where = (grammar.WHERE,) * 2 if "in" in verb.notes else ()
    what = (grammar.WHAT,) * 3 if verb.objects - grammar.PEOPLE else ()
    return *(grammar.WHETHER,) * 8, *(grammar.WHY,) * 3, *(grammar.WHEN,) * 2, *where, *what


_ADVERBS: Final = {verb: _adverbs_of(verb) for verb in VERBS}
_ASKS: Final = {verb: _asks_of(verb) for verb in VERBS}
_GIFT_ASKS: Final = (*(grammar.WHETHER,) * 2, grammar.WHY, grammar.WHEN)
_QUALITY_ASKS: Final = (*(grammar.WHETHER,) * 3, grammar.WHY)
_LOCATION_ASKS: Final = (grammar.WHETHER, grammar.WHERE)
_EXISTENCE_ASKS: Final = (grammar.WHETHER,)


class Draw(Choices):
    """Draws sentences."""

    def sentence(self) -> Sentence:
        """Draw the next sentence, of whichever part."""
        share = self.share()
        if share < 0.52:
            return Sentence(self._action(self.one(_TRANSITIVE)))
        if share < 0.68:
            return Sentence(self._action(self.one(_INTRANSITIVE)))
        if share < 0.74:
            return Sentence(self._gift(self.one(_GIVING)))
        tense = self.one(_TENSES[BE_SER])
        if share < 0.85:
            return Sentence(self._quality(tense, _QUALITY_ASKS))
        if share < 0.89:
            return Sentence(self._location(tense))
        if share < 0.92:
            return Sentence(self._existence(tense))
        conjunction = self.one((grammar.AND, grammar.BUT, grammar.BECAUSE))
        return Sentence(self._short(tense), conjunction, self._short(tense))

    def _action(self, verb: Verb) -> Clause:
        """Draw what somebody does, perhaps to something or somewhere."""
        mood = self._mood(verb, self.one(_TENSES[verb]), _ASKS[verb])
        whether = mood.ask is grammar.WHETHER
        subject = grammar.WHO if whether and self.share() < 0.2 else self._subject(verb)
        objects = self._objects(verb, mood) if verb.objects and mood.ask is not grammar.WHAT else ()
        place, spots = None, _SPOTS_OF[verb]
        if verb in _MUST_SAY_WHERE:
            place = self._place(spots) if mood.ask is not grammar.WHERE else None
        elif spots and (whether or not mood.ask) and self.share() < (0.2 if objects else 0.6):
            place = self._place(spots)
        return Clause(subject, verb, mood, objects, place=place)

    def _gift(self, verb: Verb) -> Clause:
        """Draw what somebody gives, shows or sends to somebody."""
        mood = self._mood(verb, self.one(_TENSES[verb]), _GIFT_ASKS)
        recipient = self._phrase(self.one(nouns_of(grammar.PEOPLE)))
        return Clause(self._subject(verb, alone=True), verb, mood, self._objects(verb, mood), recipient)

    def _quality(self, tense: Tense, asks: tuple[Words, ...]) -> Clause:
        """Draw what somebody or something is like."""
        subject: Subject
        if self.share() < 0.25:
            subject, predicate = self.one(_PRONOUNS), self.one(_QUALITIES_OF["person"])
        else:
            phrase = self._phrase(self.one(nouns_of(_DESCRIBED)), _SPECIFIC)
            subject, predicate = (phrase,), self.one(_QUALITIES_OF[phrase.noun.kind])
            while predicate is phrase.adjective:  # the red car is red
                predicate = self.one(_QUALITIES_OF[phrase.noun.kind])
        degree = None
        if predicate.gradable and self.share() < 0.35:
            degree = grammar.VERY if self.share() < 0.7 else grammar.TOO
        verb = BE_ESTAR if predicate.copula == "estar" else BE_SER
        return Clause(subject, verb, self._mood(verb, tense, asks), predicate=predicate, degree=degree)

    def _location(self, tense: Tense) -> Clause:
        """Draw where somebody or something is."""
        noun = self.one(nouns_of(_LOCATED))
        mood = self._mood(BE_ESTAR, tense, _LOCATION_ASKS)
        place = None if mood.ask is grammar.WHERE else self._place(_SPOTS["in" if noun.kind in _LIVING else "thing"])
        return Clause((self._phrase(noun, _SPECIFIC),), BE_ESTAR, mood, place=place)

    def _existence(self, tense: Tense) -> Clause:
        """Draw that there is something somewhere."""
        noun = self.one(nouns_of(_EXISTING))
        phrase = self._phrase(noun, _INDEFINITE)
        place = self._place(_SPOTS["in" if noun.kind in _LIVING else "thing"])
        mood = self._mood(THERE_BE, tense, _EXISTENCE_ASKS)
        return Clause(grammar.THERE[phrase.plural], THERE_BE, mood, (phrase,), place=place)

    def _short(self, tense: Tense) -> Clause:
        """Draw a statement short enough to be joined to another."""
        if self.share() < 0.4:
            return self._quality(tense, ())
        verb = self.one(_INTRANSITIVE)
        place = self._place(_SPOTS_OF[verb]) if verb in _MUST_SAY_WHERE else None
        return Clause(self._subject(verb, alone=True), verb, self._mood(verb, tense, ()), place=place)

    def _mood(self, verb: Verb, tense: Tense, asks: tuple[Words, ...]) -> Mood:
        """Draw how a clause is said. One that has nothing to ask is to be joined, and names no time either."""
        ask = self.one(asks) if asks and self.share() < 0.22 else None
        open_ended = ask is None or ask is grammar.WHETHER
        negated = (open_ended or ask is grammar.WHY) and self.share() < 0.2
        if tense == "past" and verb.forms[tense].plain[0] == verb.lemma and not ask and not negated:
            return Mood()  # "they read" could be either tense
        contracted = negated and self.share() < 0.5
        adverb = None
        if not ask and not negated and verb in _ADVERBS and tense in _ADVERBS[verb] and self.share() < 0.1:
            adverb = self.one(_ADVERBS[verb][tense])
        lasting = verb is BE_SER or ("state" in verb.notes and tense == "past")
        if not asks or not open_ended or lasting or self.share() > 0.2:
            return Mood(tense, negated, contracted, ask, adverb)
        time = self.one(_NOW if tense == "present" and verb not in _ASKS else _TIMES[tense])
        return Mood(tense, negated, contracted, ask, adverb, time, not ask and self.share() < 0.35)

    def _subject(self, verb: Verb, alone: bool = False) -> Subject:
        share = self.share()
        if share < 0.25 and "person" in verb.subjects:
            return self.one(_PRONOUNS)
        noun = self.one(nouns_of(verb.subjects))
        return (self._phrase(noun), self._fellow(noun)) if share > 0.95 and not alone else (self._phrase(noun),)

    def _objects(self, verb: Verb, mood: Mood) -> tuple[NounPhrase, ...]:
        noun = self.one(nouns_of(verb.objects))
        if noun.kind in MASS_KINDS and not mood.ask:  # a bare noun after the subject is hard to read: ¿Bebe Ana té?
            return (self._phrase(noun, _MASS_OBJECT),)
        if noun.kind in grammar.PEOPLE and "no_a" in verb.notes:  # one has a brother, two or many
            return (self._phrase(noun, _INDEFINITE),)
        return (self._phrase(noun),)

    def _fellow(self, noun: Noun) -> NounPhrase:
        """Draw another noun of the same kind, to stand after "and"."""
        fellows = nouns_of(frozenset((noun.kind,)))
        fellow = self.one(fellows)
        return self._phrase(fellow if fellow is not noun else fellows[fellows.index(noun) - 1], _SIMPLE)

    def _place(self, spots: tuple[Spot, ...]) -> tuple[grammar.Preposition, NounPhrase]:
        preposition, some = self.one(spots)
        noun = self.one(nouns_of(some))
        return preposition, self._phrase(noun, _ANY if preposition is grammar.WITH else _SINGULAR)

    def _phrase(self, noun: Noun, shapes: tuple[Shape, ...] = _ANY) -> NounPhrase:
        if noun.kind == "name":
            return NounPhrase(grammar.BARE, noun)
        if noun.kind in MASS_KINDS and shapes is not _MASS_OBJECT:
            shapes = _MASS
        determiner, plural, counted = self.one(shapes)
        if shapes is _SIMPLE:
            return NounPhrase(determiner, noun, plural)
        adjective = self.one(_ADJECTIVES_OF[noun.kind]) if self.share() < 0.45 else None
        if counted:
            numeral = self.one(_FEW if noun.kind in _SELDOM_MANY else _NUMERALS)
            return NounPhrase(determiner, noun, plural, numeral, adjective)
        possessor = None
        if determiner is grammar.THE and noun.kind in _OWNED and self.share() < 0.2:
            possessor = self._phrase(self.one(nouns_of(grammar.PEOPLE)), _SIMPLE)
        return NounPhrase(determiner, noun, plural, None, adjective, possessor)
