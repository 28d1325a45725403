"""Alignment error rate of a translator's attention, against the gold alignments of the built-in English-Spanish corpus.

    heedful demo
    python -m benchmarks.translation.alignment --model runs/demo [--count 2000]

The sentences are the first of the test part that the model translates exactly as its reference, as gold links are those
of the reference. Each word of the translation is linked to the source word of greatest weight, as the explorer shows
it: weights are those of the search, averaged over the heads of the second-to-last decoder layer.

Records alignment.json: `aer`, the share of sentences that were translated exactly (`exact`), and their number.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

import numpy as np
from benchmarks.shared.alignment_error import LinkCounts, add_up, count_links
from benchmarks.shared.gold_alignments import gold_alignments

from heedful.base.errors import HeedfulError, UserError
from heedful.data.builtin.english_spanish import sentence_pairs
from heedful.explain.explanation import Explanation
from heedful.explain.pages.images import by_words
from heedful.metrics.recorded_results import RESULTS, record
from heedful.tasks.translate.model import Translator

NAME: Final = "alignment"
_END: Final = "</s>"


def hard_links(found: Explanation) -> list[tuple[int, int]]:
    """Return the source word of greatest weight for each word of the translation; `</s>` is not a word."""
    assert found.alignment is not None, "a translator without attention has no alignment"
    output, source = found.sequences["output"], found.sequences["source"]
    weights = by_words(found.alignment, output, source)
    words = [index for index, text in enumerate(output.texts) if text != _END]
    columns = np.array([text != _END for text in source.texts])
    return [(int(weights[index, columns].argmax()), index) for index in words]


def measure(model: Translator, count: int) -> tuple[LinkCounts, int]:
    """Return the counted links of the sentences that are translated exactly, and the number of these."""
    pairs, gold = list(sentence_pairs("test", count)), list(gold_alignments("test", count))
    translated = model.translate_detailed([source for source, _ in pairs])
    counts = []
    for (source, reference), links, (best, *_) in zip(pairs, gold, translated, strict=True):
        if best.text == reference:
            counts.append(count_links(hard_links(model.explain_found(source, best, top=0)), links.sure, links.possible))
    return add_up(counts), len(counts)


def main() -> int:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("runs/demo"))
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    try:
        counts, exact = measure(Translator.load(options.model, device="cpu", precision="float32"), options.count)
        if not exact:
            raise UserError(f"{options.model} translates no sentence exactly: train it longer.")
        command = f"python -m benchmarks.translation.alignment --model {options.model} --count {options.count}"
        figures = {"aer": round(counts.error_rate, 4), "exact": round(exact / options.count, 4), "sentences": exact}
        path = record(NAME, figures, command=command, folder=options.results)
    except HeedfulError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"alignment error rate {counts.error_rate:.4f} over {exact:,} sentences: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
