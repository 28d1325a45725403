"""Edit distance, and the error rates of sequences that come from it.

edits(a, b)     the least number of insertions, deletions and substitutions that turn a into b      Levenshtein 1966
exact match     outputs that equal a reference / outputs
edit distance   edits of characters / outputs
PER             edits of symbols / symbols of the references; symbols, such as phonemes, are separated by spaces
WER             edits of words / words of the references; wrong outputs / outputs where an output is one word's phonemes

An output may have several references, variants of which each is right. It is compared with the one that takes the
fewest edits, and with the first of them if there are several such.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Reference = str | tuple[str, ...]  # a reference, or several variants of which each is right
Split = Callable[[str], Sequence[str]]  # a text into what edits change

LONGEST: Final = 1 << 15  # items: the edits of longer sequences are bounded, not counted
_PART: Final = 1 << 13  # items of a part of a longer one
WORDS: Final[Split] = str.split
CHARACTERS: Final[Split] = list


def variants_of(reference: Reference) -> tuple[str, ...]:
    """Return the variants of a reference."""
    return (reference,) if isinstance(reference, str) else reference


def first_variant(reference: Reference) -> str:
    """Return the variant that represents a reference where one alone can be shown."""
    return variants_of(reference)[0]


def uniform(references: Sequence[Reference]) -> tuple[Reference, ...]:
    """Return all references as texts if each is one, or all as tuples of variants."""
    if all(isinstance(reference, str) for reference in references):
        return tuple(references)
    return tuple(map(variants_of, references))


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the least number of insertions, deletions and substitutions that turn one sequence into the other.

    Two neighbouring cells of the table of distances differ by 1 at most. A column of it is therefore two sets of bits,
    one for each row where the distance rises and one where it falls, and a column follows from the one before in a few
    operations on whole numbers of any size.      Myers 1999, Hyyrö 2003

    Time and memory grow with the product of the lengths. What equal ends leave of sequences of more than LONGEST items
    is compared part by part, in equally many parts: that may count more edits than there are, never fewer.
    """
    if max(len(one), len(other)) > LONGEST:
        start = _equal(one, other)
        one, other = one[start:], other[start:]
        end = _equal(one[::-1], other[::-1])
        one, other = one[: len(one) - end], other[: len(other) - end]
    longest = max(len(one), len(other))
    if longest <= LONGEST:
        return _edit_distance(one, other)
    parts = math.ceil(longest / _PART)
    cuts = [[number * len(side) // parts for number in range(parts + 1)] for side in (one, other)]
    return sum(_edit_distance(one[a:b], other[c:d]) for (a, b), (c, d) in zip(*map(pairwise, cuts), strict=True))


def _equal(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return how many items two sequences begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    if not one or not other:
        return len(one) + len(other)
    occurs: dict[Hashable, int] = {}  # bit i: the item is at index i of `one`
    for index, item in enumerate(one):
        occurs[item] = occurs.get(item, 0) | 1 << index
    rows, last, distance = (1 << len(one)) - 1, 1 << len(one) - 1, len(one)
    rises, falls = rows, 0  # down the column
    for item in other:
        same = occurs.get(item, 0)
        diagonal = (((same & rises) + rises) ^ rises) | same | falls
        to_right, from_right = falls | ~(diagonal | rises), rises & diagonal  # rises and falls along the row
        distance += bool(to_right & last) - bool(from_right & last)
        to_right = to_right << 1 | 1
        rises = (from_right << 1 | ~(diagonal | to_right)) & rows
        falls = to_right & diagonal & rows
    return distance


def nearest(output: str, reference: Reference, split: Split) -> tuple[int, int]:
    """Return the edits from an output to its nearest variant, and the length of that variant."""
    said = split(output)
    found = [(edit_distance(said, true), len(true)) for true in map(split, variants_of(reference))]
    return min(found, key=lambda one: one[0])


def count_edits(outputs: Sequence[str], references: Sequence[Reference], split: Split) -> Floats:
    """Return the edits of each output, and the length of the variant that it was compared with [outputs, 2]."""
    return np.array(list(map(nearest, outputs, references, [split] * len(outputs))), dtype=np.float64)


def count_right(outputs: Sequence[str], references: Sequence[Reference], split: Split | None = None) -> Floats:
    """Return 1 and 1 for each output that equals a variant of its reference, 0 and 1 for others [outputs, 2].

    With a function that splits texts, parts are compared, so that the space between them does not count.
    """

    def is_right(output: str, reference: Reference) -> bool:
        variants = variants_of(reference)
        return output in variants if split is None else split(output) in [split(variant) for variant in variants]

    return np.array([(is_right(*pair), 1) for pair in zip(outputs, references, strict=True)], dtype=np.float64)


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Divide, with 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def rate_of_sums(sums: Floats) -> Floats:
    """Return edits / length, in percent; these are the two counts.

    Without any length, the rate is 0 without edits and 100 otherwise.
    """
    edits, length = sums[..., 0], sums[..., 1]
    return 100 * np.where(length > 0, ratio(edits, length), (edits > 0).astype(np.float64))


def mean_of_sums(sums: Floats) -> Floats:
    """Return the first count divided by the second, the number of outputs."""
    return ratio(sums[..., 0], sums[..., 1])
