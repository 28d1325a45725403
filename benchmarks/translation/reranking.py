"""Reranking of 1,000 hypotheses of one translator by another, and by both.

    python -m benchmarks.translation.reranking --data FOLDER [--parts A,B] [--seeds 1,2,3] [--jobs 3]
    python -m benchmarks.translation.reranking --data FOLDER --tiny

--data is the folder of the files that recipes/multi30k-en-de-lc.toml names. Sutskever et al. 2014 rerank the 1,000 best
hypotheses of a phrase-based system with their LSTM: 33.3 BLEU become 36.5, more than either has alone (34.8). There is
no phrase-based system here: the hypotheses of test 2016 are the 1,000 best of a beam search of that size by the GRU of
recipes/cho.toml. Nothing is tuned: `both` is the sum of both models' scores, each log P / length penalty.

lstm         reranked by recipes/sutskever.toml
transformer  reranked by recipes/multi30k-en-de-lc.toml
gru          reranked by recipes/cho.toml with another seed

Records reranking.json, BLEU (tokenized, lowercased), means over seeds:

PART_list      the first hypothesis of each list
PART_own       the reranking model's own translations, by its recipe's search
PART_reranked  the hypothesis that the reranking model alone prefers
PART_both      the hypothesis that both prefer
PART_best      the hypothesis of each list that is closest to its reference by character trigrams: a bound of any choice
hypotheses     of a sentence, the mean; `sentences` their number

--tiny takes few steps and sentences on a CPU, to see that it works, and records nothing.
"""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, Final

from benchmarks.shared.cells import Cell, make_parser, mean_over_seeds
from benchmarks.translation.trained import PASSED, TRANSFORMER, run_parts, sentences, translator

from heedful.metrics.recorded_results import machine
from heedful.metrics.translation import bleu
from heedful.tasks.translate.model import Translator

NAME: Final = "reranking"
LISTS: Final = "cho"
PARTS: Final[Mapping[str, str]] = {"lstm": "sutskever", "transformer": TRANSFORMER, "gru": "cho"}
OTHER_SEED: Final = 10  # added to the seed, where a recipe reranks its own lists
BEAM: Final = 1000
CHUNK: Final = 100  # sentences whose lists are in memory at once
TOKENS: Final = 256  # of sources that are searched together
TINY_BEAM, TINY_SENTENCES = 20, 12
FIGURES: Final = ("list", "own", "reranked", "both", "best")


def trigrams(text: str) -> set[str]:
    """Return the character trigrams of a text."""
    padded = f" {text} "
    return {padded[at : at + 3] for at in range(len(padded) - 2)}


def closest(texts: Sequence[str], reference: str) -> str:
    """Return the text whose character trigrams have the greatest F1."""
    true = trigrams(reference)
    return max(texts, key=lambda text: 2 * len(true & (own := trigrams(text))) / (len(true) + len(own)))


def rerank(
    lists: Translator, by: Translator, sources: Sequence[str], references: Sequence[str], beam: int
) -> tuple[dict[str, list[str]], list[int]]:
    """Return the texts that each way of choosing chooses, and the number of hypotheses of each sentence."""
    chosen: dict[str, list[str]] = {figure: [] for figure in FIGURES}
    counts: list[int] = []
    for start in range(0, len(sources), CHUNK):
        part, true = sources[start : start + CHUNK], references[start : start + CHUNK]
        found = lists.translate_detailed(part, nbest=beam, beam=beam, batch_tokens=beam * TOKENS)
        chosen["own"] += by.translate(part)
        for source, reference, hypotheses in zip(part, true, found, strict=True):
            texts = [one.text for one in hypotheses]
            both = by.rerank(source, texts, [one.score for one in hypotheses], weight=1.0)
            counts.append(len(texts))
            chosen["list"].append(texts[0])
            chosen["both"].append(both[0].text)
            chosen["reranked"].append(max(both, key=lambda one: one.model_score).text)
            chosen["best"].append(closest(texts, reference))
    return chosen, counts


class Run(Cell):
    """The lists of a seed, reranked by a model."""

    program = f"translation.{NAME}"
    passed = (*PASSED, "sentences")

    def measure(self) -> dict[str, Any]:
        """Train where it is not done yet, search, rerank and score."""
        recipe = PARTS[self.part]
        lists = translator(LISTS, self.seed, self.options)
        by = translator(recipe, self.seed + (OTHER_SEED if recipe == LISTS else 0), self.options)
        tiny = self.options.tiny
        pairs = sentences("test_2016_flickr", self.options.data)[: TINY_SENTENCES if tiny else self.options.sentences]
        sources, references = [source for source, _ in pairs], [target for _, target in pairs]
        chosen, counts = rerank(lists, by, sources, references, TINY_BEAM if tiny else BEAM)
        scores = {name: bleu(texts, references, "none", lowercase=True).score for name, texts in chosen.items()}
        return {**scores, "hypotheses": mean(counts), "sentences": len(pairs), "machine": machine()}


def summarised(part: str, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the means of a part over seeds."""
    figures: dict[str, float] = {}
    for figure in FIGURES:
        figures |= mean_over_seeds(f"{part}_{figure}", [one[figure] for one in found], digits=2)
    return {**figures, **{name: mean(one[name] for one in found) for name in ("hypotheses", "sentences")}}


def main() -> None:
    """Run the program."""
    parser = make_parser(__doc__, NAME, list(PARTS))
    parser.add_argument("--sentences", type=int, metavar="N", help="the first N of the test set (default: all)")
    run_parts(parser, NAME, list(PARTS), Run, summarised)


if __name__ == "__main__":
    main()
