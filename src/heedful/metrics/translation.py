"""BLEU and chrF as computed by sacreBLEU, each with a signature: equal signatures make scores comparable.

Papineni et al. 2002, Popović 2015, Post 2018.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from heedful.errors import UserError


@dataclass(frozen=True)
class SignedScore:
    """A score, and the settings it was computed with."""

    name: str
    score: float
    signature: str


def bleu(
    outputs: Sequence[str], references: Sequence[str], tokenize: str = "13a", lowercase: bool = False
) -> SignedScore:
    """Compute corpus BLEU with `bleu_metric`."""
    return _score("BLEU", bleu_metric(tokenize, lowercase), outputs, references)


def bleu_metric(tokenize: str = "13a", lowercase: bool = False, references: Sequence[str] | None = None) -> BLEU:
    """Build sacreBLEU's BLEU; `tokenize` is one of its tokenizers, "none" for text that is already tokenized.

    `lowercase` ignores case, which the signature shows. The n-grams of given references are counted only once.
    """
    known = None if references is None else [references]
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none", references=known)
    except RuntimeError as error:  # the tokenizer's own dependencies are missing
        raise UserError(
            f"BLEU's tokenizer `{tokenize}` (`evaluate.bleu_tokenize`) needs a dictionary: "
            f"`pip install sacrebleu[{tokenize[:2]}]`."
        ) from error


def chrf(outputs: Sequence[str], references: Sequence[str], lowercase: bool = False) -> SignedScore:
    """Compute corpus chrF2 over characters, without word n-grams; `lowercase` ignores case."""
    return _score("chrF", CHRF(lowercase=lowercase), outputs, references)


def _score(name: str, metric: Metric, outputs: Sequence[str], references: Sequence[str]) -> SignedScore:
    if len(outputs) != len(references) or not outputs:
        raise ValueError(f"{len(outputs)} outputs cannot be scored against {len(references)} references")
    score = metric.corpus_score(outputs, [references]).score
    return SignedScore(name, score, metric.get_signature().format())
