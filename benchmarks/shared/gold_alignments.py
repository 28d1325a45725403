"""The gold alignment of the english-spanish generator: which words of its sentences say the same.

A sentence is written once more, by the rules of `english_spanish_grammar`, as words that know which units of the
sentence they say: a noun, the verb, a preposition. Words that share a unit are aligned. A link is sure where one word
of each language says a unit, and possible where several do (did see - vieron), or where one language has a word that
the other leaves to its neighbours (I see - veo; the personal a).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from heedful.data.builtin import english_spanish_grammar as grammar
from heedful.data.builtin.english_spanish import sentences
from heedful.data.builtin.english_spanish_grammar import Clause, NounPhrase, Preposition, Pronoun, Sentence, Subject

Link = tuple[int, int]  # index of the English word, index of the Spanish word


class GoldAlignment(NamedTuple):
    """The words of a sentence in both languages, separated by spaces, and the links between them."""

    english: tuple[str, ...]
    spanish: tuple[str, ...]
    sure: frozenset[Link]
    possible: frozenset[Link]  # sure ones included


@dataclass(frozen=True)
class _Word:
    """A written word, the units that it says, and those that it helps to say."""

    text: str
    units: frozenset[str]
    loose: frozenset[str] = frozenset()

    def with_text(self, text: str, *units: str) -> "_Word":
        return replace(self, text=text, units=self.units | set(units))


_Words = list[_Word]


def gold_alignments(part: str, count: int, seed: int = 0) -> Iterator[GoldAlignment]:
    """Yield the gold alignments of the pairs that `english_spanish.sentence_pairs` yields."""
    return (align(sentence) for _, sentence in islice(sentences(part, seed), count))


def align(sentence: Sentence) -> GoldAlignment:
    """Return the words of a sentence in both languages and their links."""
    english, spanish = english_words(sentence), spanish_words(sentence)
    sure, possible = set(), set()
    for left, one in enumerate(english):
        for right, other in enumerate(spanish):
            if (one.units | one.loose) & (other.units | other.loose):
                possible.add((left, right))
            for unit in one.units & other.units:
                if _says_alone(english, unit) and _says_alone(spanish, unit):
                    sure.add((left, right))
    texts = [tuple(word.text for word in words) for words in (english, spanish)]
    return GoldAlignment(texts[0], texts[1], frozenset(sure), frozenset(possible))


def _says_alone(words: Sequence[_Word], unit: str) -> bool:
    return sum(unit in word.units for word in words) == 1


def _say(text: str, *units: str, loose: Sequence[str] = ()) -> _Words:
    return [_Word(word, frozenset(units), frozenset(loose)) for word in text.split()]


def _text(words: Sequence[_Word]) -> str:
    return " ".join(word.text for word in words)


# --- English ----------------------------------------------------------------------------------------------------------


def english_words(sentence: Sentence) -> _Words:
    """Return the words of `grammar.english(sentence)`."""
    words = _english_clause(sentence.first, "first")
    if sentence.conjunction and sentence.second:
        words = _joined(words, sentence.conjunction.english) + _english_clause(sentence.second, "second")
    return _punctuated(words, "?" if sentence.first.mood.ask else ".")


def _joined(words: _Words, conjunction: str) -> _Words:
    """Add a conjunction, with its comma if it has one."""
    if conjunction.startswith(","):
        words = [*words[:-1], words[-1].with_text(words[-1].text + ",")]
    return words + _say(conjunction.lstrip(","), "conjunction")


def _punctuated(words: _Words, end: str, begin: str = "") -> _Words:
    first = words[0].text
    words = [words[0].with_text(begin + first[0].upper() + first[1:]), *words[1:]]
    return [*words[:-1], words[-1].with_text(words[-1].text + end)]


def _english_clause(clause: Clause, at: str) -> _Words:
    mood, subject, person = clause.mood, _english_subject(clause.subject, at), grammar._person(clause.subject)
    forms, verb, denial = clause.verb.forms[mood.tense], f"{at} verb", f"{at} not"
    auxiliary = forms.auxiliary[person]
    contracted = grammar._CONTRACTED.get(auxiliary, f"{auxiliary}n't") if mood.contracted else ""
    carried = _say(contracted, verb, denial) or _say(auxiliary, verb)
    if mood.ask and clause.subject is not grammar.WHO:
        words = _say(mood.ask.english, f"{at} ask") + carried + subject
        words += (_say("not", denial) if mood.negated and not contracted else []) + _say(forms.after, verb)
    elif mood.negated:
        if not contracted:
            together = auxiliary == "can"
            carried = _say("cannot", verb, denial) if together else _say(auxiliary, verb) + _say("not", denial)
        words = subject + carried + _say(forms.after, verb)
    else:
        adverb = _say(mood.adverb.english, f"{at} adverb") if mood.adverb else []
        words = subject + adverb + _say(forms.plain[person], verb)
    if clause.predicate:
        words += _say(clause.degree.english, f"{at} degree") if clause.degree else []
        words += _say(clause.predicate.lemma, f"{at} predicate")
    for number, phrase in enumerate(clause.objects):
        words += (_say("and", f"{at} objects") if number else []) + _english_phrase(phrase, f"{at} object {number}")
    if clause.recipient:
        words += _say("to", f"{at} to") + _english_phrase(clause.recipient, f"{at} recipient")
    if clause.place:
        words += _say(clause.place[0].english, f"{at} where") + _english_phrase(clause.place[1], f"{at} place")
    return _with_time(words, _say(mood.time.english, f"{at} time") if mood.time else [], mood.time_first)


def _with_time(words: _Words, time: _Words, first: bool) -> _Words:
    return time + words if first else words + time


def _english_subject(subject: Subject, at: str) -> _Words:
    if isinstance(subject, Pronoun):
        return _say(subject.english, f"{at} subject", loose=() if subject.spanish else (f"{at} verb",))
    words: _Words = []
    for number, phrase in enumerate(subject):
        words += (_say("and", f"{at} subjects") if number else []) + _english_phrase(phrase, f"{at} subject {number}")
    return words


def _english_phrase(phrase: NounPhrase, at: str) -> _Words:
    determiner, noun, plural, numeral, adjective, possessor = phrase
    words = _say(noun.english[plural], f"{at} noun")
    if adjective:
        words = _say(adjective.lemma, f"{at} adjective") + words
    if numeral:
        words = _say(numeral.english, f"{at} numeral") + words
    if possessor:
        owner = _english_phrase(possessor, f"{at} of")
        mark = "'" if possessor.plural and _text(owner).endswith("s") else "'s"
        return [*owner[:-1], owner[-1].with_text(owner[-1].text + mark, f"{at} possession"), *words]
    article, text = determiner.english[plural], _text(words)
    if determiner is grammar.A and text.startswith(grammar._AN) and not text.startswith(grammar._A):
        article = "an"
    return _say(article, f"{at} determiner") + words


# --- Spanish ----------------------------------------------------------------------------------------------------------


def spanish_words(sentence: Sentence) -> _Words:
    """Return the words of `grammar.spanish(sentence)`."""
    words, asks = _spanish_clause(sentence.first, "first"), bool(sentence.first.mood.ask)
    if sentence.conjunction and sentence.second:
        second = _spanish_clause(sentence.second, "second")
        if sentence.conjunction is grammar.AND:
            words = _and(words, second, "conjunction")
        else:
            words = _joined(words, sentence.conjunction.spanish) + second
    return _punctuated(words, "?" if asks else ".", "¿" if asks else "")


def _spanish_clause(clause: Clause, at: str) -> _Words:
    mood, subject = clause.mood, _spanish_subject(clause.subject, at)
    forms, verb = clause.verb.forms[mood.tense], f"{at} verb"
    finite, rest = _say(forms.finite[grammar._person(clause.subject)], verb), _say(forms.rest, verb)
    if mood.negated:
        finite = _say("no", f"{at} not") + finite
    predicate = _predicate(clause, at)
    ask = _say(mood.ask.spanish, f"{at} ask") if mood.ask else []
    if not mood.ask or clause.subject is grammar.WHO:
        adverb = _say(mood.adverb.spanish, f"{at} adverb") if mood.adverb else []
        words = subject + adverb + finite + rest + predicate
    elif clause.objects:
        words = ask + finite + subject + rest
    elif isinstance(clause.subject, Pronoun):
        words = ask + finite + rest + subject + predicate
    else:
        words = ask + finite + rest + predicate + subject
    objects = [_object(clause, number, f"{at} object {number}") for number in range(len(clause.objects))]
    if objects:
        words += objects[0] if len(objects) == 1 else _and(objects[0], objects[1], f"{at} objects")
    if clause.recipient:
        words += _governed(grammar.TO, clause.recipient, f"{at} recipient", f"{at} to")
    if clause.place:
        words += _governed(*clause.place, f"{at} place", f"{at} where")
    return _with_time(words, _say(mood.time.spanish, f"{at} time") if mood.time else [], mood.time_first)


def _predicate(clause: Clause, at: str) -> _Words:
    if not clause.predicate:
        return []
    text = grammar._spanish_predicate(clause.subject, clause.predicate, None)
    degree = _say(clause.degree.spanish, f"{at} degree") if clause.degree else []
    return degree + _say(text, f"{at} predicate")


def _spanish_subject(subject: Subject, at: str) -> _Words:
    if isinstance(subject, Pronoun):
        return _say(subject.spanish, f"{at} subject")
    phrases = [_spanish_phrase(phrase, f"{at} subject {number}") for number, phrase in enumerate(subject)]
    return phrases[0] if len(phrases) == 1 else _and(phrases[0], phrases[1], f"{at} subjects")


def _object(clause: Clause, number: int, at: str) -> _Words:
    phrase = clause.objects[number]
    written = grammar._spanish_object(clause.verb, phrase)
    if written == grammar.spanish_phrase(phrase):
        return _spanish_phrase(phrase, at)
    return _governed(grammar.TO, phrase, at, loose=(f"{at} determiner", f"{at} noun"))


def _and(first: _Words, second: _Words, unit: str) -> _Words:
    return first + _say("e" if _text(second).startswith(("i", "I", "hi")) else "y", unit) + second


def _governed(
    preposition: Preposition, phrase: NounPhrase, at: str, unit: str | None = None, loose: Sequence[str] = ()
) -> _Words:
    """Write a phrase after a preposition; without a `unit` the preposition has no counterpart of its own."""
    words, units = _spanish_phrase(phrase, at), () if unit is None else (unit,)
    if preposition.before_el and words[0].text == "el" and len(words) > 1:
        *before, last = _say(preposition.before_el, *units, loose=loose)
        return [
            *before,
            replace(last, units=last.units | words[0].units, loose=last.loose | words[0].loose),
            *words[1:],
        ]
    return _say(preposition.spanish, *units, loose=loose) + words


def _spanish_phrase(phrase: NounPhrase, at: str) -> _Words:
    determiner, noun, plural, numeral, adjective, possessor = phrase
    article = determiner.spanish[noun.feminine][plural]
    words = _say(noun.spanish[plural], f"{at} noun")
    if adjective and adjective.before:
        words = _say(adjective.before[noun.feminine][plural], f"{at} adjective") + words
    elif noun.stressed_a:
        article = grammar._BEFORE_STRESSED_A.get(article, article)
    if adjective and not adjective.before:
        words += _say(adjective.spanish[noun.feminine][plural], f"{at} adjective")
    if numeral:
        words = _say(numeral.feminine if noun.feminine else numeral.masculine, f"{at} numeral") + words
    unspoken = determiner.english[plural] == "" or possessor is not None  # English has no article here
    loose = (f"{at} noun", f"{at} possession") if unspoken else ()
    words = _say(article, *(() if unspoken else (f"{at} determiner",)), loose=loose) + words
    return words + _governed(grammar.OF, possessor, f"{at} of", f"{at} possession") if possessor else words
