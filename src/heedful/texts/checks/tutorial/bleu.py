"""What the tutorial says of BLEU, against what Heedful reports, which is from 0 to 100."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from heedful.metrics.translation import bleu
from heedful.texts.checks.computed import Computed

Words = Sequence[str]
_OUTPUTS = ("the small cat sat on the red mat today", "a man walks his dog in a park", "there is a green house")
_REFERENCES = (
    ("the small cat sat on a mat today", "a little cat sat on the red mat this day"),
    ("a man is walking his dog in the park", "the man walks his dog in a park"),
    ("there is a house that is green", "a green house is there"),
)


def _grams(words: Words, size: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + size]) for start in range(len(words) - size + 1))


def _matches(output: Words, references: Iterable[Words], size: int) -> int:
    """Return the n-grams of an output that references have, each at most as often as the reference with most of it."""
    most: Counter[tuple[str, ...]] = Counter()
    for reference in references:
        most |= _grams(reference, size)
    return (_grams(output, size) & most).total()


def _written(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return the geometric mean of the modified precisions over all outputs, times the brevity penalty, from 0 to 1."""
    matches, counts, length, wanted = [0] * 4, [0] * 4, 0, 0
    for output, several in zip(outputs, references, strict=True):
        words, others = output.split(), [reference.split() for reference in several]
        length += len(words)
        wanted += min((abs(len(other) - len(words)), len(other)) for other in others)[1]
        for size in range(1, 5):
            matches[size - 1] += _matches(words, others, size)
            counts[size - 1] += max(0, len(words) - size + 1)
    if 0 in matches:
        return 0.0
    logs = [math.log(found / of) for found, of in zip(matches, counts, strict=True)]
    return math.exp(sum(logs) / 4) * (1.0 if length >= wanted else math.exp(1 - wanted / length))


def _ours(outputs: Sequence[str], references: Sequence[tuple[str, ...]]) -> float:
    return bleu(outputs, references, tokenize="none").score / 100


def modified_precision() -> Computed:
    """Modified precisions of n-grams against two references each, over the corpus"""
    return Computed([_written(_OUTPUTS, _REFERENCES)], [_ours(_OUTPUTS, _REFERENCES)])


def mean_over_sentences() -> Computed:
    """The mean of the scores of sentences in the text; the counts of all sentences are summed first"""
    each = [_written([output], [several]) for output, several in zip(_OUTPUTS, _REFERENCES, strict=True)]
    return Computed([sum(each) / len(each)], [_ours(_OUTPUTS, _REFERENCES)], [_written(_OUTPUTS, _REFERENCES)])


def range_of_bleu() -> Computed:
    """1 for an output that is one of its references, 0 for one that shares no word with them; over 100"""
    references = [("a b c d e f", "b c d e f g")]
    return Computed([1.0, 0.0], [_ours(["a b c d e f"], references), _ours(["u v w x y z"], references)])


def order_without_grammar() -> Computed:
    """An output and one without a grammatical order that has the same n-grams have the same score"""
    reference = [("the old man gave his young dog a big bone today",)]
    fluent = "the old man gave his hungry dog a big bone today"
    broken = "dog a big bone today hungry the old man gave his"
    one, other = _ours([fluent], reference), _ours([broken], reference)
    return Computed([0.0], [abs(one - other)])


def more_references() -> Computed:
    """The sign of what a second reference adds: 1 in the text; -1 where it is closer in length, and longer"""
    output, first = ["the cat sat on the mat"], "the cat sat on"
    gains = [_ours(output, [(first, second)]) - _ours(output, [(first,)]) for second in (output[0], "u v w x y z a")]
    return Computed([1.0, 1.0], [math.copysign(1.0, gain) for gain in gains])
