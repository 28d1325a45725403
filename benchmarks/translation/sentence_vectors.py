"""What the sentence vectors of translators say about the order of words and about the voice of verbs.

    python -m benchmarks.translation.sentence_vectors --data FOLDER [--parts A,B] [--seeds 1,2,3] [--jobs 4]
    python -m benchmarks.translation.sentence_vectors --data FOLDER --tiny

--data is the folder of the files that recipes/multi30k-en-de-lc.toml names. Sutskever et al. 2014 say of the vectors of
their LSTM that they are sensitive to the order of words, and relatively invariant to the active and the passive voice.
Here two people or animals and a verb make four sentences:

active             a man is chasing a dog .
swapped            a dog is chasing a man .                the same words in another order
passive            a dog is being chased by a man .        the meaning of the first
swapped passive    a man is being chased by a dog .        the meaning of the second, in the order of the first

lstm         recipes/sutskever.toml: the last state of an LSTM that reads from the end
forward      the same LSTM, reading from the start
cho          recipes/cho.toml: the last state of a GRU
transformer  recipes/multi30k-en-de-lc.toml: the mean of the encoder's states

Records sentence_vectors.json, means over seeds of cosine distances, each as a share of that between the first sentences
of different nouns and verbs (`unrelated`, which is the distance itself):

order              from the active sentence to the swapped one: 0 where vectors do not see the order of words
voice              from the active sentence to its passive: 0 where vectors do not see the voice
swapped_voice      from the active sentence to the swapped passive
meaning            share of the sentences that are nearer to their passive than to the swapped passive; by chance 0.5
meaning_over_order share of the sentences that are nearer to their passive than to the swapped sentence

--tiny takes few steps on a CPU, to see that it works, and records nothing.
"""

from collections.abc import Mapping, Sequence
from itertools import permutations
from statistics import mean
from typing import Any, Final, NamedTuple

import numpy as np
from benchmarks.shared.cells import Cell, make_parser, mean_over_seeds
from benchmarks.translation.trained import PASSED, TRANSFORMER, run_parts, translator
from numpy.typing import NDArray

from heedful.metrics.recorded_results import machine

NAME: Final = "sentence_vectors"
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "lstm": ("sutskever",),
    "forward": ("sutskever", "model.reverse_source=false"),
    "cho": ("cho",),
    "transformer": (TRANSFORMER,),
}
NOUNS: Final = ("a man", "a woman", "a boy", "a girl", "a dog", "a child", "a soldier", "a police officer")
VERBS: Final[Mapping[str, str]] = {  # whose participles five sentences of the training corpus or more have
    "chasing": "chased",
    "watching": "watched",
    "pulling": "pulled",
    "pushing": "pushed",
    "holding": "held",
    "carrying": "carried",
    "following": "followed",
}
FIGURES: Final = ("unrelated", "order", "voice", "swapped_voice", "meaning", "meaning_over_order")
Vectors = NDArray[np.float32]


class Four(NamedTuple):
    """The sentences of two nouns and a verb, or their vectors."""

    active: Any
    swapped: Any
    passive: Any
    swapped_passive: Any


Words = tuple[str, str, str]  # a noun, a verb, another noun


def choices() -> list[Words]:
    """Return all ordered pairs of nouns with all verbs."""
    return [(one, verb, other) for verb in VERBS for one, other in permutations(NOUNS, 2)]


def quadruple(words: Words) -> Four:
    """Return the four sentences of two nouns and a verb."""
    one, verb, other = words
    return Four(
        f"{one} is {verb} {other} .",
        f"{other} is {verb} {one} .",
        f"{other} is being {VERBS[verb]} by {one} .",
        f"{one} is being {VERBS[verb]} by {other} .",
    )


def unrelated_to(number: int, among: Sequence[Words]) -> int:
    """Return the next choice, from the middle of those that follow on, that shares no noun and no verb with one."""
    middle = number + len(among) // 2
    following = ((middle + more) % len(among) for more in range(len(among)))
    return next(other for other in following if not set(among[other]) & set(among[number]))


def distances(one: Vectors, other: Vectors) -> NDArray[np.float64]:
    """Return the cosine distances of rows."""
    a, b = (rows.astype(np.float64) for rows in (one, other))
    return 1 - (a * b).sum(1) / np.maximum(np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1), 1e-12)


def figures_of_vectors(vectors: Four) -> dict[str, float]:
    """Return all figures from the vectors of quadruples, in the order of `choices`."""
    among = choices()
    others = vectors.active[[unrelated_to(number, among) for number in range(len(among))]]
    unrelated = float(distances(vectors.active, others).mean())
    order, voice, other = (
        distances(vectors.active, rows) for rows in (vectors.swapped, vectors.passive, vectors.swapped_passive)
    )
    return {
        "unrelated": unrelated,
        "order": float(order.mean()) / unrelated,
        "voice": float(voice.mean()) / unrelated,
        "swapped_voice": float(other.mean()) / unrelated,
        "meaning": float((voice < other).mean()),
        "meaning_over_order": float((voice < order).mean()),
    }


class Run(Cell):
    """The vectors of a model with a seed."""

    program = f"translation.{NAME}"
    passed = PASSED

    def measure(self) -> dict[str, Any]:
        """Train where it is not done yet, and compare vectors."""
        recipe, *settings = PARTS[self.part]
        model = translator(recipe, self.seed, self.options, *settings)
        vectors = Four(*(model.embed(list(texts)) for texts in zip(*map(quadruple, choices()), strict=True)))
        return {**figures_of_vectors(vectors), "sentences": len(vectors.active), "machine": machine()}


def summarised(part: str, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the means of a part over seeds."""
    figures: dict[str, float] = {}
    for figure in FIGURES:
        figures |= mean_over_seeds(f"{part}_{figure}", [one[figure] for one in found])
    return {**figures, "sentences": mean(one["sentences"] for one in found)}


def main() -> None:
    """Run the program."""
    parser = make_parser(__doc__, NAME, list(PARTS))
    run_parts(parser, NAME, list(PARTS), Run, summarised)


if __name__ == "__main__":
    main()
