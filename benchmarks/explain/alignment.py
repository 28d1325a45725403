"""What explains a translation: alignment error rates of attention and of attributions, against gold alignments.

    heedful demo
    python -m benchmarks.explain.alignment --model runs/demo [--count 2000] [--compared 200]

The sentences are the first of the built-in English-Spanish test part that the model translates exactly as its
reference, as gold links are those of the reference. Each word of the translation is linked to the source word of the
greatest value: pieces of a source word add up, and those of a translated word are averaged. The ways:

    attention        the explorer's alignment: weights of the second-to-last decoder layer, mean over heads
    attention_mean   weights over the source, mean over all layers and heads
    best_head        weights of one head: the one with the least error on sentences of the validation part
    rollout          weights over the source of the last layer times the encoder's rollout (Abnar and Zuidema 2020)
    integrated, gradient, erasure    see `heedful explain --attribute`; `integrated_size` and others are their sizes,
                     without regard to what speaks for a token or against it

Records alignment.json: `aer`, the rate of `attention` over all sentences that were translated exactly, the share of
these (`exact`), and their number; the rate of each way, such as `aer_erasure`, over the first `compared_sentences` of
them; and layer and head of `best_head`, counted from 1.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from benchmarks.shared.alignment_error import LinkCounts, add_up, count_links
from benchmarks.shared.gold_alignments import GoldAlignment, gold_alignments

from heedful.base.errors import HeedfulError, UserError
from heedful.data.builtin.english_spanish import sentence_pairs
from heedful.explain.attribution import KINDS
from heedful.explain.explanation import Array, Explanation
from heedful.explain.pages.images import by_words
from heedful.metrics.recorded_results import RESULTS, record
from heedful.tasks.translate.model import Translator

NAME: Final = "alignment"
TOLERANCE: Final = 0.5  # of log P: what integrals may miss, of the 5 to 20 of a token
_CHOOSING: Final = 100  # sentences that the best head is chosen by
_END: Final = "</s>"
Links = list[tuple[int, int]]


def hard_links(found: Explanation, values: Array) -> Links:
    """Return the source word of the greatest value for each word of the translation; `</s>` is not a word."""
    output, source = found.sequences["output"], found.sequences["source"]
    weights = by_words(values, output, source)
    words = [index for index, text in enumerate(output.texts) if text != _END]
    columns = np.array([text != _END for text in source.texts])
    return [(int(np.where(columns, weights[index], -np.inf).argmax()), index) for index in words]


def explained(model: Translator, part: str, count: int) -> Iterator[tuple[Explanation, GoldAlignment]]:
    """Yield the explanations of sentences that are translated exactly, with their gold alignments."""
    pairs, gold = list(sentence_pairs(part, count)), list(gold_alignments(part, count))
    translated = model.translate_detailed([source for source, _ in pairs])
    for (source, reference), links, (best, *_) in zip(pairs, gold, translated, strict=True):
        if best.text == reference:
            yield model.explain_found(source, best, top=0), links


def errors_of(found: Explanation, gold: GoldAlignment, values: Array) -> LinkCounts:
    """Count the links of the greatest values."""
    return count_links(hard_links(found, values), gold.sure, gold.possible)


def best_head(model: Translator) -> tuple[int, int]:
    """Return the layer and head with the least error on sentences of the validation part."""
    counts: dict[tuple[int, int], list[LinkCounts]] = {}
    for found, gold in explained(model, "valid", _CHOOSING):
        weights = found.attention("cross").weights
        for place in np.ndindex(*weights.shape[:2]):
            counts.setdefault((place[0], place[1]), []).append(errors_of(found, gold, weights[place]))
    return min(counts, key=lambda place: add_up(counts[place]).error_rate)


def values_by_way(model: Translator, found: Explanation, head: tuple[int, int]) -> Mapping[str, Array]:
    """Return a value of each source token for each output token, in each way."""
    cross = found.attention("cross")
    assert found.alignment is not None, "a translator without attention has no alignment"
    attributed: dict[str, Array] = {
        kind: model.attribute(found.text, found.output, kind=kind, tolerance=TOLERANCE).values["source"]
        for kind in KINDS
    }
    return {
        "attention": found.alignment,
        "attention_mean": cross.weights.mean(axis=(0, 1)),
        "best_head": cross.weights[head],
        "rollout": cross.head_means()[-1] @ found.attention("encoder").rollout()[-1],
        **attributed,
        **{f"{kind}_size": np.abs(values) for kind, values in attributed.items()},
    }


def main() -> int:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("runs/demo"))
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--compared", type=int, default=200)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    try:
        model = Translator.load(options.model, device="cpu", precision="float32")
        sentences = list(explained(model, "test", options.count))
        if not sentences:
            raise UserError(f"{options.model} translates no sentence exactly: train it longer.")
        head, ways = best_head(model), dict[str, list[LinkCounts]]()
        for found, gold in islice(sentences, options.compared):
            for way, values in values_by_way(model, found, head).items():
                ways.setdefault(way, []).append(errors_of(found, gold, values))
        whole = [errors_of(found, gold, found.alignment) for found, gold in sentences if found.alignment is not None]
        compared = {way: round(add_up(counts).error_rate, 4) for way, counts in ways.items()}
        figures = {
            "aer": round(add_up(whole).error_rate, 4),
            "exact": round(len(sentences) / options.count, 4),
            "sentences": len(sentences),
            **{f"aer_{way}": rate for way, rate in compared.items()},
            "compared_sentences": min(options.compared, len(sentences)),
            "best_layer": head[0] + 1,
            "best_head": head[1] + 1,
        }
        command = (
            f"python -m benchmarks.explain.alignment --model {options.model} --count {options.count} "
            f"--compared {options.compared}"
        )
        path = record(NAME, figures, command=command, folder=options.results)
    except HeedfulError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for way, rate in compared.items():
        print(f"{way:16} {rate:.4f}")
    print(f"alignment error rate {figures['aer']} over {len(sentences):,} sentences: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
