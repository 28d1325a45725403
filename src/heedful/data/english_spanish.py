"""A built-in corpus: English sentences with their Spanish translations, drawn from a small grammar.

One English sentence has exactly one translation, so exact match is a fair score. That takes some decisions where
Spanish leaves a choice: "you" is tú; I, you and we are left to the verb while he, she and they are written; the past
of an event is the preterite and of a state the imperfect (durmió, tenía); people who are not named are masculine.

The parts are split by combination. About one noun-adjective and one subject-verb pair in twenty is held out: it never
occurs in "train" or "valid", and every "test" sentence contains at least one. A model that memorises pairs of words
fails on "test"; one that learned the grammar does not notice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from random import Random
from typing import Final, TypeVar

from heedful.data.english_spanish_lexicon import (
    ADJECTIVES,
    BE_ESTAR,
    BE_SER,
    IN_DIGITS,
    IN_WORDS,
    MASS_KINDS,
    NOUNS,
    THERE_BE,
    VERBS,
    Adjective,
    ByGender,
    ByNumber,
    Noun,
    Numeral,
    Tense,
    Verb,
    kinds,
)
from heedful.errors import UserError

PARTS: Final = ("train", "valid", "test")
EXAMPLES: Final[tuple[str, ...]] = ()
MAX_WORDS: Final = 18
_HELD_OUT_ONE_IN: Final = 20
_VALID_ONE_IN: Final = 20

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Words:
    """A word or phrase that never changes its form, in both languages."""

    english: str
    spanish: str


@dataclass(frozen=True, slots=True)
class Preposition:
    """A preposition; `before_el` is what it makes with a following "el" (al, del)."""

    english: str
    spanish: str
    before_el: str = ""


@dataclass(frozen=True, slots=True)
class Determiner:
    """An article, possessive, demonstrative or "many"."""

    english: ByNumber
    spanish: ByGender


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A subject pronoun; `person` indexes a verb's forms."""

    english: str
    spanish: str
    person: int


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """my two red cars; with a `possessor` the determiner is THE, unspoken in English: the girl's two red cars."""

    determiner: Determiner
    noun: Noun
    plural: bool = False
    numeral: Numeral | None = None
    adjective: Adjective | None = None
    possessor: "NounPhrase | None" = None


@dataclass(frozen=True, slots=True)
class Clause:
    """A subject with its verb and all that belongs to it; a question has an `ask`."""

    subject: Pronoun | tuple[NounPhrase, ...]
    verb: Verb
    tense: Tense
    objects: tuple[NounPhrase, ...] = ()
    recipient: NounPhrase | None = None
    predicate: Adjective | None = None
    degree: Words | None = None
    place: tuple[Preposition, NounPhrase] | None = None
    time: Words | None = None
    time_first: bool = False
    adverb: Words | None = None
    negated: bool = False
    contracted: bool = False
    ask: Words | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """One clause, or two joined by a conjunction."""

    first: Clause
    conjunction: Words | None = None
    second: Clause | None = None


def _possessive(english: str, spanish: str) -> Determiner:
    forms = (spanish, spanish + "s")
    return Determiner((english, english), (forms, forms))


THE: Final = Determiner(("the", "the"), (("el", "los"), ("la", "las")))
A: Final = Determiner(("a", ""), (("un", ""), ("una", "")))
BARE: Final = Determiner(("", ""), (("", ""), ("", "")))
MANY: Final = Determiner(("", "many"), (("", "muchos"), ("", "muchas")))
THIS: Final = Determiner(("this", "these"), (("este", "estos"), ("esta", "estas")))
THAT: Final = Determiner(("that", "those"), (("ese", "esos"), ("esa", "esas")))
MY: Final = _possessive("my", "mi")
YOUR: Final = _possessive("your", "tu")
HIS: Final = _possessive("his", "su")
HER: Final = _possessive("her", "su")
THEIR: Final = _possessive("their", "su")
OUR: Final = Determiner(("our", "our"), (("nuestro", "nuestros"), ("nuestra", "nuestras")))
_POSSESSIVES: Final = (MY, YOUR, HIS, HER, OUR, THEIR)

I: Final = Pronoun("I", "", 0)  # noqa: E741 - the word itself
YOU: Final = Pronoun("you", "", 1)
HE: Final = Pronoun("he", "él", 2)
SHE: Final = Pronoun("she", "ella", 2)
WE: Final = Pronoun("we", "", 3)
THEY: Final = Pronoun("they", "ellos", 4)
WHO: Final = Pronoun("who", "quién", 2)
THERE: Final = (Pronoun("there", "", 2), Pronoun("there", "", 4))
_PRONOUNS: Final = (I, I, YOU, YOU, HE, SHE, WE, THEY)

IN: Final = Preposition("in", "en")
NEAR: Final = Preposition("near", "cerca de", "cerca del")
BEHIND: Final = Preposition("behind", "detrás de", "detrás del")
IN_FRONT_OF: Final = Preposition("in front of", "delante de", "delante del")
ON: Final = Preposition("on", "sobre")
UNDER: Final = Preposition("under", "debajo de", "debajo del")
TO: Final = Preposition("to", "a", "al")
FROM: Final = Preposition("from", "de", "del")
WITH: Final = Preposition("with", "con")
_OF: Final = Preposition("", "de", "del")

VERY: Final = Words("very", "muy")
TOO: Final = Words("too", "demasiado")
ALWAYS: Final = Words("always", "siempre")
NEVER: Final = Words("never", "nunca")
ALSO: Final = Words("also", "también")
AND: Final = Words("and", "y")
_CONJUNCTIONS: Final = (AND, AND, Words("but", "pero"), Words("because", "porque"))

WHETHER: Final = Words("", "")
WHAT: Final = Words("what", "qué")
WHY: Final = Words("why", "por qué")
WHERE: Final = Words("where", "dónde")
WHEN: Final = Words("when", "cuándo")

_NOW: Final = (Words("now", "ahora"), Words("today", "hoy"))
TIMES: Final[dict[Tense, tuple[Words, ...]]] = {
    "present": (
        Words("every day", "todos los días"),
        Words("every week", "todas las semanas"),
        Words("in the morning", "por la mañana"),
        Words("at night", "por la noche"),
        Words("in summer", "en verano"),
        Words("on Sundays", "los domingos"),
    ),
    "past": (
        Words("yesterday", "ayer"),
        Words("last night", "anoche"),
        Words("last week", "la semana pasada"),
        Words("last year", "el año pasado"),
        Words("on Monday", "el lunes"),
        Words("a month ago", "hace un mes"),
    ),
    "future": (
        Words("tomorrow", "mañana"),
        Words("tonight", "esta noche"),
        Words("next week", "la próxima semana"),
        Words("next year", "el próximo año"),
        Words("on Friday", "el viernes"),
        Words("soon", "pronto"),
    ),
    "can": _NOW,
    "progressive": _NOW,
    "want": _NOW,
    "wanted": (Words("yesterday", "ayer"), Words("last night", "anoche")),
}

_CONTRACTED: Final = {
    "do": "don't",
    "does": "doesn't",
    "did": "didn't",
    "will": "won't",
    "can": "can't",
    "are": "aren't",
    "is": "isn't",
    "was": "wasn't",
    "were": "weren't",
}


# English ------------------------------------------------------------------------------------------------------------


def english_phrase(phrase: NounPhrase) -> str:
    """Write a noun phrase in English: an old house, the boys' two dogs."""
    text = phrase.noun.english[phrase.plural]
    if phrase.adjective:
        text = f"{phrase.adjective.lemma} {text}"
    if phrase.numeral:
        text = f"{phrase.numeral.english} {text}"
    if phrase.possessor:
        owner = english_phrase(phrase.possessor)
        return f"{owner}' {text}" if phrase.possessor.plural and owner.endswith("s") else f"{owner}'s {text}"
    determiner = phrase.determiner.english[phrase.plural]
    if determiner == "a" and text.lower().startswith(("a", "e", "i", "o", "u", "hon")):
        return f"a {text}" if text.startswith(("uni", "use")) else f"an {text}"
    return f"{determiner} {text}" if determiner else text


def _english_clause(clause: Clause) -> str:
    person = _person(clause.subject)
    forms = clause.verb.forms[clause.tense]
    subject = _english_subject(clause.subject)
    auxiliary = forms.auxiliary[person]
    contracted = _CONTRACTED.get(auxiliary) if clause.contracted else None
    if clause.ask and clause.subject is not WHO:
        words = [clause.ask.english, contracted or auxiliary, subject]
        words += ["not" if clause.negated and not contracted else "", forms.after]
    elif clause.negated:
        negated = contracted or ("cannot" if auxiliary == "can" else f"{auxiliary} not")
        words = [subject, negated, forms.after]
    else:
        words = [subject, clause.adverb.english if clause.adverb else "", forms.plain[person]]
    if clause.predicate:
        words += [clause.degree.english if clause.degree else "", clause.predicate.lemma]
    if clause.objects:
        words.append(" and ".join(english_phrase(phrase) for phrase in clause.objects))
    if clause.recipient:
        words += ["to", english_phrase(clause.recipient)]
    if clause.place:
        words += [clause.place[0].english, english_phrase(clause.place[1])]
    if clause.time:
        words.insert(0 if clause.time_first else len(words), clause.time.english)
    return " ".join(filter(None, words))


def _english_subject(subject: Pronoun | tuple[NounPhrase, ...]) -> str:
    if isinstance(subject, Pronoun):
        return subject.english
    return " and ".join(english_phrase(phrase) for phrase in subject)


def english(sentence: Sentence) -> str:
    """Write a sentence in English."""
    text = _english_clause(sentence.first)
    if sentence.conjunction and sentence.second:
        text = f"{text} {sentence.conjunction.english} {_english_clause(sentence.second)}"
    return text[0].upper() + text[1:] + ("?" if sentence.first.ask else ".")


# Spanish ------------------------------------------------------------------------------------------------------------


def spanish_phrase(phrase: NounPhrase) -> str:
    """Write a noun phrase in Spanish: una casa vieja, los dos perros de los chicos."""
    noun, plural, adjective = phrase.noun, phrase.plural, phrase.adjective
    determiner = phrase.determiner.spanish[noun.feminine][plural]
    text = noun.spanish[plural]
    if adjective and adjective.before:
        text = f"{adjective.before[noun.feminine][plural]} {text}"
    elif noun.stressed_a and determiner in ("la", "una"):  # only straight before the noun: el agua, la buena agua
        determiner = "el" if determiner == "la" else "un"
    if adjective and not adjective.before:
        text = f"{text} {adjective.spanish[noun.feminine][plural]}"
    if phrase.numeral:
        text = f"{phrase.numeral.feminine if noun.feminine else phrase.numeral.masculine} {text}"
    if determiner:
        text = f"{determiner} {text}"
    return f"{text} {_governed(_OF, phrase.possessor)}" if phrase.possessor else text


def _governed(preposition: Preposition, phrase: NounPhrase) -> str:
    text = spanish_phrase(phrase)
    if preposition.before_el and text.startswith("el "):
        return preposition.before_el + text[2:]
    return f"{preposition.spanish} {text}"


def _spanish_object(verb: Verb, phrase: NounPhrase) -> str:
    kind = phrase.noun.kind
    personal = kind in _PEOPLE and "no_a" not in verb.notes or kind in _ANIMALS and "a" in verb.notes
    return _governed(TO, phrase) if personal else spanish_phrase(phrase)


def _spanish_and(first: str, second: str) -> str:
    return f"{first} {'e' if second.lower().startswith(('i', 'hi')) else 'y'} {second}"


def _spanish_clause(clause: Clause) -> str:
    forms = clause.verb.forms[clause.tense]
    subject = _spanish_subject(clause.subject)
    finite, rest = forms.finite[_person(clause.subject)], forms.rest
    if clause.recipient:  # the recipient is announced by a pronoun: le da el libro al chico
        pronoun = "les" if clause.recipient.plural else "le"
        if rest:
            rest = rest.replace("ando", "ándo").replace("iendo", "iéndo").replace("yendo", "yéndo") + pronoun
        else:
            finite = f"{pronoun} {finite}"
    if clause.negated:
        finite = f"no {finite}"
    predicate = _spanish_predicate(clause) if clause.predicate else ""
    if not clause.ask or clause.subject is WHO:
        words = [subject, clause.adverb.spanish if clause.adverb else "", finite, rest, predicate]
    elif clause.objects:
        words = [clause.ask.spanish, finite, subject, rest]
    else:  # with nothing to follow, the whole verb comes before the subject: ¿Está cansado el gato?
        words = [clause.ask.spanish, finite, rest, predicate, subject]
    if clause.objects:
        objects = [_spanish_object(clause.verb, phrase) for phrase in clause.objects]
        words.append(objects[0] if len(objects) == 1 else _spanish_and(objects[0], objects[1]))
    if clause.recipient:
        words.append(_governed(TO, clause.recipient))
    if clause.place:
        words.append(_governed(*clause.place))
    if clause.time:
        words.insert(0 if clause.time_first else len(words), clause.time.spanish)
    return " ".join(filter(None, words))


def _spanish_subject(subject: Pronoun | tuple[NounPhrase, ...]) -> str:
    if isinstance(subject, Pronoun):
        return subject.spanish
    if len(subject) == 1:
        return spanish_phrase(subject[0])
    return _spanish_and(spanish_phrase(subject[0]), spanish_phrase(subject[1]))


def _spanish_predicate(clause: Clause) -> str:
    assert clause.predicate is not None
    subject = clause.subject
    if isinstance(subject, Pronoun):
        feminine = subject is SHE
    else:
        feminine = all(phrase.noun.feminine for phrase in subject)
    adjective = clause.predicate.spanish[feminine][_person(subject) > 2]
    return f"{clause.degree.spanish} {adjective}" if clause.degree else adjective


def spanish(sentence: Sentence) -> str:
    """Write a sentence in Spanish."""
    text = _spanish_clause(sentence.first)
    if sentence.conjunction and sentence.second:
        second = _spanish_clause(sentence.second)
        joined = sentence.conjunction is AND
        text = _spanish_and(text, second) if joined else f"{text} {sentence.conjunction.spanish} {second}"
    text = text[0].upper() + text[1:]
    return f"¿{text}?" if sentence.first.ask else f"{text}."


def _person(subject: Pronoun | tuple[NounPhrase, ...]) -> int:
    if isinstance(subject, Pronoun):
        return subject.person
    return 4 if len(subject) > 1 or subject[0].plural else 2


# Parts --------------------------------------------------------------------------------------------------------------


@cache
def is_held_out(first: str, second: str) -> bool:
    """Decide, by a hash that no platform or process changes, whether a pair of lemmas belongs to the test part."""
    return _stable_hash(f"{first} {second}") % _HELD_OUT_ONE_IN == 0


def _stable_hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def combinations(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """Yield a sentence's noun-adjective and subject-verb pairs, as lemmas; pronouns make no pairs."""
    for clause in (sentence.first, sentence.second):
        if clause is None:
            continue
        subjects = () if isinstance(clause.subject, Pronoun) else clause.subject
        for phrase in subjects:
            yield phrase.noun.lemma, clause.verb.lemma
            if clause.predicate:
                yield phrase.noun.lemma, clause.predicate.lemma
        others = (clause.recipient, clause.place[1] if clause.place else None)
        for phrase in (*subjects, *clause.objects, *filter(None, others)):
            if phrase.adjective:
                yield phrase.noun.lemma, phrase.adjective.lemma


def part_of(sentence: Sentence) -> str:
    """Say which part a sentence belongs to."""
    if _holds_held_out(sentence):
        return "test"
    return "valid" if _is_valid(english(sentence)) else "train"


def _holds_held_out(sentence: Sentence) -> bool:
    return any(is_held_out(first, second) for first, second in combinations(sentence))


def _is_valid(text: str) -> bool:
    return _stable_hash(text) % _VALID_ONE_IN == 0


# Drawing ------------------------------------------------------------------------------------------------------------


@cache
def nouns_of(some: frozenset[str]) -> tuple[Noun, ...]:
    """List the nouns of some kinds, in the lexicon's order."""
    return tuple(noun for noun in NOUNS if noun.kind in some)


_PEOPLE: Final = kinds("people")
_ANIMALS: Final = kinds("animals")
_ADJECTIVES_OF: Final = {kind: tuple(a for a in ADJECTIVES if kind in a.kinds) for kind in {n.kind for n in NOUNS}}
_TRANSITIVE: Final = tuple(verb for verb in VERBS if verb.objects)
_INTRANSITIVE: Final = tuple(verb for verb in VERBS if not verb.objects)
_GIVING: Final = tuple(verb for verb in VERBS if "gives" in verb.notes)

# determiner, plural, with a numeral; as often as it stands here
Shape = tuple[Determiner, bool, bool]
_ANY_OF: Final[tuple[Shape, ...]] = (
    *((THE, False, False),) * 9,
    *((A, False, False),) * 8,
    *((THE, True, False),) * 6,
    *((THE, True, True),) * 3,
    *((BARE, True, True),) * 6,
    *((MANY, True, False),) * 2,
    *((owner, plural, False) for owner in (*_POSSESSIVES, THIS, THAT) for plural in (False, True)),
    *((owner, True, True) for owner in (MY, HER, THIS, THAT)),
)
_INDEFINITE: Final[tuple[Shape, ...]] = (
    *((A, False, False),) * 4,
    *((BARE, True, True),) * 3,
    (MANY, True, False),
)
_SINGULAR: Final[tuple[Shape, ...]] = (
    *((THE, False, False),) * 8,
    *((A, False, False),) * 3,
    *((owner, False, False) for owner in (*_POSSESSIVES, THIS, THAT)),
)
_MASS: Final[tuple[Shape, ...]] = tuple(shape for shape in _SINGULAR if shape[0] is not A)
_MASS_OBJECT: Final[tuple[Shape, ...]] = (*_MASS, *((BARE, False, False),) * 8)
_NAME: Final[tuple[Shape, ...]] = ((BARE, False, False),)
# Small numbers are common, and every number occurs in words and in digits.
_NUMERALS: Final = (*IN_WORDS[:11] * 9, *IN_WORDS, *IN_DIGITS)

_PREPOSITIONS: Final = {
    "in": (
        *((IN, kinds("inside")),) * 4,
        (NEAR, kinds("places")),
        (BEHIND, kinds("building landmark")),
        (IN_FRONT_OF, kinds("building landmark")),
        (WITH, kinds("people")),
        (WITH, kinds("people")),
    ),
    "to": ((TO, kinds("places")),),
    "far": ((TO, kinds("place landmark")),),
    "from": ((FROM, kinds("places")),),
    "thing": ((ON, kinds("furniture")), (UNDER, kinds("furniture")), (NEAR, kinds("furniture")), (IN, kinds("room"))),
}
_TENSE_WEIGHTS: Final[tuple[tuple[Tense, int], ...]] = (
    ("present", 8),
    ("past", 8),
    ("future", 4),
    ("progressive", 3),
    ("can", 2),
    ("want", 2),
    ("wanted", 1),
)
_TENSES: Final = {
    verb: tuple(tense for tense, weight in _TENSE_WEIGHTS if tense in verb.forms for _ in range(weight))
    for verb in (*VERBS, BE_SER, BE_ESTAR, THERE_BE)
}


class _Draw:
    """Draws sentences. Only Random.random is used: it alone is promised to stay the same in every Python."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def pick(self, items: tuple[Item, ...]) -> Item:
        return items[int(self._random() * len(items))]

    def chance(self, probability: float) -> bool:
        return self._random() < probability
