"""The scores of models on test sets: as a person reads them, as a program does, and as figures to record."""

import json
import math
from collections.abc import Sequence
from statistics import mean

from heedful.cli.reports.scored import CorpusResult, ModelResult, deviation, figures_of, title_of
from heedful.tasks.translate.evaluation import Evaluation


def figures(judged: Sequence[ModelResult[Evaluation]]) -> dict[str, float]:
    """Figures by name, the corpus's name behind; of several models the mean, and the deviation of BLEU and chrF."""
    return figures_of(judged, _scores, lambda metric: metric in ("bleu", "chrf"))


def as_text(judged: Sequence[ModelResult[Evaluation]]) -> str:
    """One block a model and corpus, then the means."""
    blocks = [_block(one, result, len(judged) > 1) for one in judged for result in one.results]
    if len(judged) > 1:
        blocks += [_means(judged, place) for place in range(len(judged[0].results))]
    return "\n\n".join(blocks)


def as_object(judged: Sequence[ModelResult[Evaluation]]) -> str:
    """One JSON object: of a model alone, or of all with the figures over them."""
    models = [{"model": one.model, "corpora": [_corpus(result) for result in one.results]} for one in judged]
    over_all = {name: figure if math.isfinite(figure) else None for name, figure in figures(judged).items()}
    shown = models[0] if len(models) == 1 else {"models": models, "figures": over_all}
    return json.dumps(shown, ensure_ascii=False)


def _scores(evaluations: Sequence[Evaluation]) -> dict[str, list[float]]:
    return {
        "bleu": [one.bleu.score for one in evaluations],
        "chrf": [one.chrf.score for one in evaluations],
        "exact_match": [one.exact / one.sentences for one in evaluations],
        "perplexity": [one.perplexity for one in evaluations],
    }


def _block(one: ModelResult[Evaluation], scored: CorpusResult[Evaluation], of_several: bool) -> str:
    result = scored.evaluation
    title = "".join(f"{line}\n" for line in title_of(one, scored, of_several))
    cut = f", {result.cut:,} of them cut at the maximum length" if result.cut else ""
    return (
        f"{title}"
        f"BLEU        {result.bleu.score:7.2f}  {result.bleu.signature}\n"
        f"chrF        {result.chrf.score:7.2f}  {result.chrf.signature}\n"
        f"exact       {100 * result.exact / result.sentences:6.2f}%  {result.exact:,} of {result.sentences:,}\n"
        f"perplexity  {result.perplexity:7.2f}  over {result.likelihood.tokens:,} target tokens\n"
        f"{result.sentences:,} sentences in {result.seconds:.1f} s{cut}, "
        f"{result.tokens_per_second:,.0f} tokens/s"
    )


def _means(judged: Sequence[ModelResult[Evaluation]], place: int) -> str:
    results = [one.results[place] for one in judged]
    name = f", {results[0].name}" if len(judged[0].results) > 1 else ""
    scores = _scores([result.evaluation for result in results])
    lines = [
        f"{label:11} {mean(scores[metric]):7.2f}  ± {deviation(scores[metric]):.2f}"
        for label, metric in (("BLEU", "bleu"), ("chrF", "chrf"), ("perplexity", "perplexity"))
    ]
    return "\n".join([f"mean of {len(judged)} models{name}", *lines])


def _corpus(scored: CorpusResult[Evaluation]) -> dict[str, object]:
    result = scored.evaluation
    return {
        "name": scored.name,
        "sentences": result.sentences,
        "bleu": {"score": result.bleu.score, "signature": result.bleu.signature},
        "chrf": {"score": result.chrf.score, "signature": result.chrf.signature},
        "exact_match": result.exact / result.sentences,
        "perplexity": result.perplexity if math.isfinite(result.perplexity) else None,
        "target_tokens": result.likelihood.tokens,
        "cut": result.cut,
        "seconds": round(result.seconds, 3),
        "tokens_per_second": round(result.tokens_per_second, 1),
    }
