"""Sentences written out for the tests of the english-spanish generator."""

from zlib import crc32

from heedful.data.builtin.english_spanish import combinations, is_held_out
from heedful.data.builtin.english_spanish_grammar import (
    BARE,
    MANY,
    OUR,
    THE,
    TO,
    WHY,
    A,
    Clause,
    Determiner,
    Mood,
    NounPhrase,
    Preposition,
    Sentence,
    Subject,
    Words,
    english,
)  # fmt: skip
from heedful.data.builtin.english_spanish_lexicon import (
    ADJECTIVES,
    BE_ESTAR,
    BE_SER,
    IN_DIGITS,
    IN_WORDS,
    NOUNS,
    THERE_BE,
    VERBS,
    Tense,
    Verb,
)

NOUN = {noun.lemma: noun for noun in NOUNS}
ADJECTIVE = {adjective.lemma: adjective for adjective in ADJECTIVES}
VERB = {verb.lemma: verb for verb in VERBS}
NUMERAL = {numeral.english: numeral for numeral in (*IN_WORDS, *IN_DIGITS)}


def one(determiner: Determiner, noun: str, adjective: str = "", of: NounPhrase | None = None) -> NounPhrase:
    return NounPhrase(determiner, NOUN[noun], False, None, ADJECTIVE.get(adjective), of)


def many(
    determiner: Determiner, noun: str, adjective: str = "", number: str = "", of: NounPhrase | None = None
) -> NounPhrase:
    return NounPhrase(determiner, NOUN[noun], True, NUMERAL.get(number), ADJECTIVE.get(adjective), of)


def name(noun: str) -> NounPhrase:
    return NounPhrase(BARE, NOUN[noun])


def says(
    subject: Subject | NounPhrase,
    verb: str,
    tense: Tense = "present",
    what: NounPhrase | None = None,
    *,
    to: NounPhrase | None = None,
    place: tuple[Preposition, NounPhrase] | None = None,
    ask: Words | None = None,
    negated: bool = False,
    contracted: bool = False,
    adverb: Words | None = None,
    time: Words | None = None,
    time_first: bool = False,
) -> Sentence:
    mood = Mood(tense, negated, contracted, ask, adverb, time, time_first)
    objects = () if what is None else (what,)
    return Sentence(Clause(_alone(subject), _verb(verb), mood, objects, to, place=place))


def is_so(
    subject: Subject | NounPhrase,
    adjective: str,
    tense: Tense = "present",
    *,
    degree: Words | None = None,
    ask: Words | None = None,
    negated: bool = False,
    contracted: bool = False,
) -> Sentence:
    predicate = ADJECTIVE[adjective]
    verb = BE_ESTAR if predicate.copula == "estar" else BE_SER
    mood = Mood(tense, negated, contracted, ask)
    return Sentence(Clause(_alone(subject), verb, mood, predicate=predicate, degree=degree))


def _alone(subject: Subject | NounPhrase) -> Subject:
    return (subject,) if isinstance(subject, NounPhrase) else subject


def _verb(lemma: str) -> Verb:
    return {"be": BE_ESTAR, "there be": THERE_BE}.get(lemma) or VERB[lemma]


THE_QUEEN = one(THE, "queen")


EXAMPLE_SENTENCES = (
    says(many(THE, "cat", "small", "two"), "see", "past", one(THE, "house", "red"), negated=True),
    says(many(BARE, "pirate", "old", "twenty-one"), "look for", "progressive", one(A, "map")),
    says(one(THE, "baby", "tired"), "sleep", "can", ask=WHY, negated=True, contracted=True),
    says(many(OUR, "teacher", "hardworking"), "give", "past", many(MANY, "book", "new"), to=many(THE, "child")),
    says(one(THE, "horse", "black", THE_QUEEN), "run", "past", place=(TO, one(THE, "river")),
         time=Words("yesterday", "ayer"), time_first=True),
)  # fmt: skip


def part_of(sentence: Sentence) -> str:
    """The part that a sentence belongs to: by its combinations, and otherwise by a hash of its text."""
    if any(map(is_held_out, combinations(sentence))):
        return "test"
    return "train" if crc32(english(sentence).encode()) % 10 else "valid"
