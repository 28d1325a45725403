"""A built-in corpus: English sentences with their Spanish translations, drawn from a small grammar without end.

The parts are split by combination. About one noun-adjective and one subject-verb pair in twenty is held out: it never
occurs in "train" or "valid", and every "test" sentence contains at least one. Every word is trained on in every form;
which words go together is not. So a model that memorises phrases fails on "test", and one that has learned the grammar
does not notice.
"""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Final
from zlib import crc32

from heedful.data.builtin import english_spanish_grammar as grammar
from heedful.data.builtin.choices import check_part, hash_of
from heedful.data.builtin.english_spanish_draw import Draw
from heedful.data.builtin.english_spanish_grammar import Pronoun, Sentence
from heedful.data.builtin.english_spanish_lexicon import BE_ESTAR

MAX_WORDS: Final = 18
EXAMPLES: Final[tuple[str, ...]] = (
    "The two small cats did not see the red house.",
    "Twenty-one old pirates are looking for a map.",
    "Why can't the tired baby sleep?",
    "Our hardworking teachers gave many new books to the children.",
    "Yesterday the queen's black horse ran to the river.",
)

_HELD_OUT_ONE_IN: Final = 20
_SALT: Final = 20938  # holds out something of each example, and nothing of water: that it is el agua fría must be seen
_VALID_ONE_IN: Final = 10  # of what is not held out


def sentence_pairs(part: str, count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield `count` (English, Spanish) pairs of one part: the same for the same arguments, everywhere.

    A longer draw begins with the shorter one. No sentence comes twice in "valid" or "test"; in "train" one may.
    """
    check_part("english-spanish", part)
    return ((text, grammar.spanish(sentence)) for text, sentence in islice(sentences(part, seed), count))


def sentences(part: str, seed: int = 0) -> Iterator[tuple[str, Sentence]]:
    """Yield the sentences of a part, each with its English text."""
    draw = Draw(f"english-spanish {part} {seed}")
    seen: set[str] = set()
    while True:
        sentence = draw.sentence()
        if any(map(is_held_out, combinations(sentence))) != (part == "test"):
            continue
        text = grammar.english(sentence)
        is_valid = crc32(text.encode()) % _VALID_ONE_IN == 0  # as stable, and quick: all training sentences pass
        if text.count(" ") >= MAX_WORDS or (part != "test" and is_valid != (part == "valid")):
            continue
        if part != "train":
            if text in seen:
                continue
            seen.add(text)
        yield text, sentence


def combinations(sentence: Sentence) -> list[tuple[str, str]]:
    """List a sentence's subject-verb and noun-adjective pairs, as English lemmas; pronouns make no pairs.

    "be" makes a pair with what is said by it, not by itself: only "Luis is tired" tells that Luis is masculine.
    """
    pairs = []
    for clause in (sentence.first, sentence.second):
        if clause is None:
            continue
        phrases = () if isinstance(clause.subject, Pronoun) else clause.subject
        for phrase in phrases:
            if clause.predicate:
                pairs.append((phrase.noun.lemma, clause.predicate.lemma))
            elif clause.verb is not BE_ESTAR:
                pairs.append((phrase.noun.lemma, clause.verb.lemma))
                if clause.mood.tense in ("want", "wanted"):
                    pairs.append((phrase.noun.lemma, "want"))
        phrases += clause.objects
        if clause.recipient:
            phrases += (clause.recipient,)
        if clause.place:
            phrases += (clause.place[1],)
        pairs += [(phrase.noun.lemma, phrase.adjective.lemma) for phrase in phrases if phrase.adjective]
    return pairs


@cache
def is_held_out(pair: tuple[str, str]) -> bool:
    """Decide, by a hash that no platform or process changes, whether a pair of lemmas belongs to the test part."""
    return hash_of(f"{_SALT} {pair[0]} {pair[1]}") % _HELD_OUT_ONE_IN == 0
