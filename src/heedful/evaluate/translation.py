"""BLEU and chrF as sacreBLEU computes them, each with the signature that makes two figures comparable.

Papineni et al. 2002, Popović 2015, Post 2018.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from heedful.errors import UserError


@dataclass(frozen=True)
class Score:
    """A figure and how it was computed."""

    name: str
    score: float
    signature: str


def bleu(outputs: Sequence[str], references: Sequence[str], tokenize: str = "13a", lowercase: bool = False) -> Score:
    """Corpus BLEU; `tokenize` is one of sacreBLEU's tokenizers, "none" for text that is already tokenized.

    `lowercase` compares without case, and the signature says so.
    """
    try:
        metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    except RuntimeError as error:  # a tokenizer whose own dependencies are missing
        raise UserError(
            f"`evaluate.bleu_tokenize` is `{tokenize}`, which needs `pip install sacrebleu[{tokenize[:2]}]`."
        ) from error
    return _score("BLEU", metric, outputs, references)


def chrf(outputs: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Score:
    """Corpus chrF2 over characters, without word n-grams; `lowercase` compares without case."""
    return _score("chrF", CHRF(lowercase=lowercase), outputs, references)


def _score(name: str, metric: Metric, outputs: Sequence[str], references: Sequence[str]) -> Score:
    if len(outputs) != len(references) or not outputs:
        raise ValueError(f"{len(outputs)} outputs cannot be scored against {len(references)} references")
    score = metric.corpus_score(outputs, [references]).score
    return Score(name, score, metric.get_signature().format())
