"""BLEU and chrF as computed by sacreBLEU, each with a signature: equal signatures make scores comparable.

Papineni et al. 2002, Popović 2015, Post 2018.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from heedful.base.errors import UserError
from heedful.base.notes import note
from heedful.metrics.edits import Reference, variants_of

_LONGEST: Final = 100_000  # characters


@dataclass(frozen=True)
class SignedScore:
    """A score, and the settings it was computed with."""

    name: str
    score: float
    signature: str


def reference_streams(references: Sequence[Reference]) -> list[tuple[str, ...]]:
    """Return the first references of all outputs, then the second ones, and so on, as sacreBLEU reads them.

    Where an output has fewer references than another, None takes the place of those that it lacks.
    """
    return list(zip_longest(*(map(scored_part, variants_of(reference)) for reference in references)))


def scored_part(text: str) -> str:
    """Return the part of a text that is scored: all of it, unless it is far longer than anything one translates.

    The n-grams of characters of a line of megabytes would take gigabytes.
    """
    if len(text) > _LONGEST:
        note(f"Of texts with over {_LONGEST:,} characters only the first {_LONGEST:,} are scored.")
    return text[:_LONGEST]


def bleu(
    outputs: Sequence[str], references: Sequence[Reference], tokenize: str = "13a", lowercase: bool = False
) -> SignedScore:
    """Compute corpus BLEU with `bleu_metric`."""
    return _score("BLEU", bleu_metric(tokenize, lowercase), outputs, references)


def bleu_metric(tokenize: str = "13a", lowercase: bool = False, references: Sequence[Reference] | None = None) -> BLEU:
    """Build sacreBLEU's BLEU; `tokenize` is one of its tokenizers, "none" for text that is already tokenized.

    `lowercase` ignores case, which the signature shows. The n-grams of given references are counted only once.
    """
    known = None if references is None else reference_streams(references)
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none", references=known)
    except RuntimeError as error:  # the tokenizer's own dependencies are missing
        raise UserError(
            f"BLEU's tokenizer `{tokenize}` (`evaluate.bleu_tokenize`) needs a dictionary: "
            f"`pip install sacrebleu[{tokenize[:2]}]`."
        ) from error


def chrf(outputs: Sequence[str], references: Sequence[Reference], lowercase: bool = False) -> SignedScore:
    """Compute corpus chrF2 over characters, without word n-grams; `lowercase` ignores case."""
    return _score("chrF", CHRF(lowercase=lowercase), outputs, references)


def _score(name: str, metric: Metric, outputs: Sequence[str], references: Sequence[Reference]) -> SignedScore:
    if len(outputs) != len(references) or not outputs:
        raise ValueError(f"{len(outputs)} outputs cannot be scored against {len(references)} references")
    score = metric.corpus_score([*map(scored_part, outputs)], reference_streams(references)).score
    return SignedScore(name, score, metric.get_signature().format())
