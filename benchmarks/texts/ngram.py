"""Perplexity of an n-gram model on WikiText-2, as a baseline of language models: Kneser-Ney counts of words.

    python benchmarks/texts/ngram.py FOLDER [--order 5]

FOLDER holds the publisher's files wiki.(train, valid, test).tokens.gz. The words are those of the recipe
`wikitext2-lstm`, line breaks included, so that its word perplexity compares. Writes results/wikitext2_ngram.json.
"""

import argparse
import json
import math
import time
from pathlib import Path

from heedful.config.reading.load import load_recipe
from heedful.data.corpora.files import content_key
from heedful.data.prepare.stores import build_store
from heedful.data.prepare.texts import TextKind, prepare_texts, text_rows
from heedful.metrics.language.kneser_ney import KneserNey
from heedful.metrics.language.perplexity import Likelihood


def main() -> None:
    """Count, score and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder")
    options.add_argument("--order", type=int, default=5)
    options.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "wikitext2_ngram.json")
    given = options.parse_args()
    recipe = load_recipe("wikitext2-lstm", [f"data.folder={given.folder}"])
    prepared = prepare_texts(recipe, print, running=True)
    tokenizer = prepared.vocabularies["text"]
    test = recipe.data.test[0]
    rows = text_rows(test, recipe.data, tokenizer, TextKind(running=True))
    parts = {"valid": prepared.valid[0], "test": build_store(test, rows, content_key(test, given.folder), print)}
    began = time.perf_counter()
    model = KneserNey.of([prepared.train[0].streams["text"].values], given.order, tokenizer.size)
    found = {}
    for name, store in parts.items():
        text = store.streams["text"].values
        likelihood = Likelihood(-float(model.log_probabilities(text)[1:].sum()), len(text) - 1)
        found[name] = round(likelihood.perplexity, 2)
        print(f"{name}: word perplexity {likelihood.perplexity:.2f} of {likelihood.tokens:,} words")
    assert all(math.isfinite(value) for value in found.values())
    record = {
        "order": given.order,
        "vocabulary": tokenizer.size,
        "perplexity_valid": found["valid"],
        "perplexity_test": found["test"],
        "seconds": round(time.perf_counter() - began, 1),
    }
    given.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
