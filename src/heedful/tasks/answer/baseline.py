"""The line that a reader has to beat: a span of the sentence with the greatest overlap with the question.

    overlap(sentence, question) = sum of the rarity of the distinct words that both have
    rarity(word) = log((1 + sentences) / (1 + sentences with the word))

The answer is taken from a run of words of that sentence that are not in the question: from the longest run, the last
one, or that next to the rarest word of both; from its beginning or its end; and so many words. Which of these is best
on training questions is learned, and so is the overlap below which a question is left without an answer, where training
has such questions. It is learned once per run, in seconds.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from statistics import median
from typing import Final, Literal, NamedTuple, assert_never

from heedful.data.corpora.questions import Question
from heedful.tasks.answer.metrics import token_f1

MOST_QUESTIONS: Final = 2_000  # of training: more of them are sampled at equal distances
_TRIED: Final = 500  # questions that rules are tried on
_KEPT_TEXTS: Final = 256  # whose sentences are remembered
# Words, and single characters of scripts that do not separate words; a sentence ends with a mark or a line.
_WORD: Final = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]+")
_END: Final = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s*(?=\s|[\u3040-\u9fff])|\n")


class Word(NamedTuple):
    """A word of a text, lowercased, and its place in characters."""

    word: str
    start: int
    end: int


Sentence = Sequence[Word]
RunName = Literal["near", "longest", "last"]


@dataclass(frozen=True)
class Rule:
    """Which words of a sentence are the answer."""

    run: RunName = "longest"
    from_end: bool = False  # whether the last words of the run are taken, not the first ones
    words: int = 1  # at most
    threshold: float = 0.0  # share of the question's rarity that a sentence must have for an answer


class OverlapReader:
    """Answers questions by overlap of words."""

    def __init__(self, train: Sequence[Question], no_answer: bool) -> None:
        # Every rule is tried on the same questions, and questions about one text come together.
        self._sentences, self._best = lru_cache(_KEPT_TEXTS)(_sentences), lru_cache(_TRIED)(self._find_best)
        distinct = dict.fromkeys(question.text for question in train)
        of_words = [{one.word for one in sentence} for text in distinct for sentence in self._sentences(text)]
        self._count, self._having = len(of_words), Counter(word for words in of_words for word in words)
        self.rule = self._learned(train[:: -(-len(train) // _TRIED)], no_answer) if train else Rule()

    def answer(self, question: Question, rule: Rule | None = None) -> str:
        """Return the answer, as the text has it; an empty text where there is none."""
        rule = rule or self.rule
        asked, best, overlap = self._best(question)
        if not best or overlap < rule.threshold:
            return ""
        start, end = _span(best, asked, rule, self._rarity)
        return question.text[start:end]

    def _find_best(self, question: Question) -> tuple[set[str], Sentence, float]:
        """Return the words of a question, the sentence of greatest overlap, and its share of the question's rarity."""
        asked = {one.word for one in _words(question.question)}
        sentences = self._sentences(question.text)
        if not sentences:
            return asked, (), 0.0
        overlaps = [sum(map(self._rarity, sorted(asked & {one.word for one in each}))) for each in sentences]
        best = max(range(len(sentences)), key=lambda number: (overlaps[number], -number))
        return asked, sentences[best], overlaps[best] / max(sum(map(self._rarity, sorted(asked))), 1e-9)

    def _rarity(self, word: str) -> float:
        return math.log((1 + self._count) / (1 + self._having[word]))

    def _learned(self, train: Sequence[Question], no_answer: bool) -> Rule:
        """Return the rule with the greatest F1 on training questions; of equal ones, the first."""
        answered = [question for question in train if question.answers]
        lengths = sorted(len(_words(question.answers[0])) for question in answered) or [1]
        common = (median(lengths), lengths[0], lengths[9 * len(lengths) // 10])
        sizes = dict.fromkeys(max(1, int(size)) for size in common)
        runs: tuple[RunName, ...] = ("near", "longest", "last")
        rules = [Rule(run, from_end, words) for words, run, from_end in product(sizes, runs, (False, True))]
        best = max(rules, key=lambda rule: self._score(answered, rule))  # `max` returns the first of equal ones
        if not no_answer or len(answered) == len(train):
            return best
        overlaps = sorted(self._best(question)[2] for question in train)
        thresholds = [0.0, *overlaps[:: -(-len(overlaps) // 20)], math.inf]
        return max((replace(best, threshold=each) for each in thresholds), key=lambda rule: self._score(train, rule))

    def _score(self, questions: Iterable[Question], rule: Rule) -> float:
        return sum(token_f1(self.answer(question, rule), question.answers) for question in questions)


def _words(text: str, start: int = 0) -> list[Word]:
    return [Word(found[0].lower(), start + found.start(), start + found.end()) for found in _WORD.finditer(text)]


def _sentences(text: str) -> list[Sentence]:
    """Return the words of each sentence of a text; none without words."""
    ends = [found.end() for found in _END.finditer(text)]
    parts = [_words(text[start:end], start) for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return [part for part in parts if part]


def _span(sentence: Sentence, asked: set[str], rule: Rule, rarity: Callable[[str], float]) -> tuple[int, int]:
    """Return the characters of a sentence that answer a question of these words."""
    runs: list[list[int]] = [[]]
    for place, one in enumerate(sentence):
        if one.word in asked:
            runs.append([])
        else:
            runs[-1].append(place)
    found = [run for run in runs if run] or [[*range(len(sentence))]]  # all its words are in the question
    match rule.run:
        case "near":
            shared = [place for place, one in enumerate(sentence) if one.word in asked] or [0]
            rarest = max(shared, key=lambda place: (rarity(sentence[place].word), -place))
            run = min(found, key=lambda one: min(abs(one[0] - rarest), abs(one[-1] - rarest)))
        case "longest":
            run = max(found, key=len)
        case "last":
            run = found[-1]
        case _:
            assert_never(rule.run)
    taken = run[-rule.words :] if rule.from_end else run[: rule.words]
    return sentence[taken[0]].start, sentence[taken[-1]].end
