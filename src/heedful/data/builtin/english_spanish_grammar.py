"""The sentences of the english-spanish generator, and how each language writes them.

A Sentence holds what is said in neither language; `english` and `spanish` write it down. Where Spanish leaves a choice
there is one decision, so that a sentence has one translation: "you" is tú; I, you and we are left to the verb while he,
she and they are written; people of unknown gender are masculine; a recipient is not announced by "le"; the personal a
goes before people, and before animals only after the verbs that treat them as somebody.
"""

from typing import Final, NamedTuple, TypeAlias

from heedful.data.builtin.english_spanish_lexicon import (
    Adjective,
    ByGender,
    ByNumber,
    Noun,
    Numeral,
    Tense,
    Verb,
    kinds,
)


class Words(NamedTuple):
    """A word or phrase that never changes its form."""

    english: str
    spanish: str


class Preposition(NamedTuple):
    """A preposition; `before_el` is what it makes with a following "el" (al, del)."""

    english: str
    spanish: str
    before_el: str = ""


class Determiner(NamedTuple):
    """An article, possessive, demonstrative or "many"."""

    english: ByNumber
    spanish: ByGender


class Pronoun(NamedTuple):
    """A subject pronoun; `person` indexes a verb's forms."""

    english: str
    spanish: str
    person: int


class NounPhrase(NamedTuple):
    """my two red cars; with a `possessor` the determiner is THE, unspoken in English: the girl's two red cars."""

    determiner: Determiner
    noun: Noun
    plural: bool = False
    numeral: Numeral | None = None
    adjective: Adjective | None = None
    possessor: "NounPhrase | None" = None


Subject: TypeAlias = Pronoun | tuple[NounPhrase, ...]


class Mood(NamedTuple):
    """How a clause is said: its tense, whether it denies or asks, and when it happens."""

    tense: Tense = "present"
    negated: bool = False
    contracted: bool = False
    ask: Words | None = None
    adverb: Words | None = None
    time: Words | None = None
    time_first: bool = False


class Clause(NamedTuple):
    """A subject with its verb and all that belongs to it."""

    subject: Subject
    verb: Verb
    mood: Mood
    objects: tuple[NounPhrase, ...] = ()
    recipient: NounPhrase | None = None
    predicate: Adjective | None = None
    degree: Words | None = None
    place: tuple[Preposition, NounPhrase] | None = None


class Sentence(NamedTuple):
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

ME: Final = Pronoun("I", "", 0)
YOU: Final = Pronoun("you", "", 1)
HE: Final = Pronoun("he", "él", 2)
SHE: Final = Pronoun("she", "ella", 2)
WE: Final = Pronoun("we", "", 3)
THEY: Final = Pronoun("they", "ellos", 4)
WHO: Final = Pronoun("who", "quién", 2)
THERE: Final = (Pronoun("there", "", 2), Pronoun("there", "", 4))  # is, are

IN: Final = Preposition("in", "en")
NEAR: Final = Preposition("near", "cerca de", "cerca del")
BEHIND: Final = Preposition("behind", "detrás de", "detrás del")
IN_FRONT_OF: Final = Preposition("in front of", "delante de", "delante del")
ON: Final = Preposition("on", "sobre")
UNDER: Final = Preposition("under", "debajo de", "debajo del")
TO: Final = Preposition("to", "a", "al")
FROM: Final = Preposition("from", "de", "del")
WITH: Final = Preposition("with", "con")
OF: Final = Preposition("of", "de", "del")

VERY: Final = Words("very", "muy")
TOO: Final = Words("too", "demasiado")
ALWAYS: Final = Words("always", "siempre")
NEVER: Final = Words("never", "nunca")
ALSO: Final = Words("also", "también")
AND: Final = Words(" and", " y")
BUT: Final = Words(", but", ", pero")
BECAUSE: Final = Words(" because", " porque")

WHETHER: Final = Words("", "")  # a question to be answered by yes or no
WHAT: Final = Words("what", "qué")
WHY: Final = Words("why", "por qué")
WHERE: Final = Words("where", "dónde")
WHEN: Final = Words("when", "cuándo")

PEOPLE: Final = kinds("people")
ANIMALS: Final = kinds("animals")


def english(sentence: Sentence) -> str:
    """Write a sentence in English."""
    text = _english_clause(sentence.first)
    if sentence.conjunction and sentence.second:
        text = f"{text}{sentence.conjunction.english} {_english_clause(sentence.second)}"
    return text[0].upper() + text[1:] + ("?" if sentence.first.mood.ask else ".")


def _english_clause(clause: Clause) -> str:
    mood, subject, person = clause.mood, _english_subject(clause.subject), _person(clause.subject)
    forms = clause.verb.forms[mood.tense]
    auxiliary = forms.auxiliary[person]
    contracted = _CONTRACTED.get(auxiliary, f"{auxiliary}n't") if mood.contracted else ""
    if mood.ask and clause.subject is not WHO:
        words = [mood.ask.english, contracted or auxiliary, subject]
        words += ["not" if mood.negated and not contracted else "", forms.after]
    elif mood.negated:
        words = [subject, contracted or ("cannot" if auxiliary == "can" else f"{auxiliary} not"), forms.after]
    else:
        words = [subject, mood.adverb.english if mood.adverb else "", forms.plain[person]]
    if clause.predicate:
        words += [clause.degree.english if clause.degree else "", clause.predicate.lemma]
    if clause.objects:
        words.append(" and ".join([english_phrase(phrase) for phrase in clause.objects]))
    if clause.recipient:
        words += ["to", english_phrase(clause.recipient)]
    if clause.place:
        words += [clause.place[0].english, english_phrase(clause.place[1])]
    if mood.time:
        words.insert(0 if mood.time_first else len(words), mood.time.english)
    return " ".join([word for word in words if word])


_CONTRACTED: Final = {"am": "", "will": "won't", "can": "can't"}  # am has no short form; the others just add n't


def _english_subject(subject: Subject) -> str:
    if isinstance(subject, Pronoun):
        return subject.english
    return " and ".join([english_phrase(phrase) for phrase in subject])


def english_phrase(phrase: NounPhrase) -> str:
    """Write a noun phrase in English: an old house, the boys' two dogs."""
    determiner, noun, plural, numeral, adjective, possessor = phrase
    text = noun.english[plural]
    if adjective:
        text = f"{adjective.lemma} {text}"
    if numeral:
        text = f"{numeral.english} {text}"
    if possessor:
        owner = english_phrase(possessor)
        return f"{owner}' {text}" if possessor.plural and owner.endswith("s") else f"{owner}'s {text}"
    article = determiner.english[plural]
    if determiner is A and text.startswith(_AN) and not text.startswith(_A):
        article = "an"
    return f"{article} {text}" if article else text


_AN: Final = ("a", "e", "i", "o", "u", "E", "hon")  # a sound, not a letter: an honest man, an English letter
_A: Final = ("uni", "use")  # a university, a useful map


def spanish(sentence: Sentence) -> str:
    """Write a sentence in Spanish."""
    text = _spanish_clause(sentence.first)
    if sentence.conjunction and sentence.second:
        second = _spanish_clause(sentence.second)
        joined_by_and = sentence.conjunction is AND
        text = _spanish_and(text, second) if joined_by_and else f"{text}{sentence.conjunction.spanish} {second}"
    text = text[0].upper() + text[1:]
    return f"¿{text}?" if sentence.first.mood.ask else f"{text}."


def _spanish_clause(clause: Clause) -> str:
    mood, subject = clause.mood, _spanish_subject(clause.subject)
    forms = clause.verb.forms[mood.tense]
    finite, rest = forms.finite[_person(clause.subject)], forms.rest
    if mood.negated:
        finite = f"no {finite}"
    predicate = _spanish_predicate(clause.subject, clause.predicate, clause.degree) if clause.predicate else ""
    if not mood.ask or clause.subject is WHO:
        words = [subject, mood.adverb.spanish if mood.adverb else "", finite, rest, predicate]
    elif clause.objects:
        words = [mood.ask.spanish, finite, subject, rest]
    elif isinstance(clause.subject, Pronoun):
        words = [mood.ask.spanish, finite, rest, subject, predicate]
    else:  # a noun waits for the whole verb and what it says: ¿Está cansado el gato? ¿Qué está comiendo el gato?
        words = [mood.ask.spanish, finite, rest, predicate, subject]
    if clause.objects:
        objects = [_spanish_object(clause.verb, phrase) for phrase in clause.objects]
        words.append(objects[0] if len(objects) == 1 else _spanish_and(objects[0], objects[1]))
    if clause.recipient:
        words.append(_governed(TO, clause.recipient))
    if clause.place:
        words.append(_governed(*clause.place))
    if mood.time:
        words.insert(0 if mood.time_first else len(words), mood.time.spanish)
    return " ".join([word for word in words if word])


def _spanish_subject(subject: Subject) -> str:
    if isinstance(subject, Pronoun):
        return subject.spanish
    if len(subject) == 1:
        return spanish_phrase(subject[0])
    return _spanish_and(spanish_phrase(subject[0]), spanish_phrase(subject[1]))


def _spanish_predicate(subject: Subject, adjective: Adjective, degree: Words | None) -> str:
    if isinstance(subject, Pronoun):
        feminine = subject is SHE
    else:
        feminine = all(phrase.noun.feminine for phrase in subject)
    text = adjective.spanish[feminine][_person(subject) in _PLURAL_PERSONS]
    return f"{degree.spanish} {text}" if degree else text


def _spanish_object(verb: Verb, phrase: NounPhrase) -> str:
    kind = phrase.noun.kind
    personal = "no_a" not in verb.notes if kind in PEOPLE else "a" in verb.notes and kind in ANIMALS
    return _governed(TO, phrase) if personal else spanish_phrase(phrase)


def _spanish_and(first: str, second: str) -> str:
    return f"{first} e {second}" if second.startswith(("i", "I", "hi")) else f"{first} y {second}"


def _governed(preposition: Preposition, phrase: NounPhrase) -> str:
    text = spanish_phrase(phrase)
    if preposition.before_el and text.startswith("el "):
        return preposition.before_el + text[2:]
    return f"{preposition.spanish} {text}"


def spanish_phrase(phrase: NounPhrase) -> str:
    """Write a noun phrase in Spanish: una casa vieja, los dos perros de los chicos."""
    determiner, noun, plural, numeral, adjective, possessor = phrase
    article = determiner.spanish[noun.feminine][plural]
    text = noun.spanish[plural]
    if adjective and adjective.before:
        text = f"{adjective.before[noun.feminine][plural]} {text}"
    elif noun.stressed_a and article in _BEFORE_STRESSED_A:  # only next to the noun: el agua, but la buena agua
        article = _BEFORE_STRESSED_A[article]
    if adjective and not adjective.before:
        text = f"{text} {adjective.spanish[noun.feminine][plural]}"
    if numeral:
        text = f"{numeral.feminine if noun.feminine else numeral.masculine} {text}"
    if article:
        text = f"{article} {text}"
    return f"{text} {_governed(OF, possessor)}" if possessor else text


_BEFORE_STRESSED_A: Final = {"la": "el", "una": "un"}


def _person(subject: Subject) -> int:
    if isinstance(subject, Pronoun):
        return subject.person
    return THEY.person if len(subject) > 1 or subject[0].plural else HE.person


_PLURAL_PERSONS: Final = (WE.person, THEY.person)
