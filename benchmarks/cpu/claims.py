"""Claims of the texts about cost that no study is about, on a CPU, and the vocabulary of a listing.

    python -m benchmarks.cpu.claims [--imdb FOLDER] [--wikitext FOLDER] [--tiny]

through_time   back-propagation through 1,000 characters: milliseconds of a forward and a backward pass of one sequence,
               and MiB that the forward pass keeps; width 256
one_product    queries, keys and values by one matrix: time of three products over that of one, 4,096 tokens, width 512
context        one layer over 8 texts of 512 tokens, width 256, forward and backward: a causal convolution over 4
               tokens, an LSTM, a GRU, causal self-attention; milliseconds
forced         a forward and a backward pass of an LSTM over 100 tokens of 32 texts: at once, as teacher forcing allows,
               and step by step, as a network that is fed its own outputs must; milliseconds
vocabulary     ranks of words in IMDB's training reviews, as the tutorial's listing counts them: lowercase, split at
               spaces, the first 50,000 by frequency after <unk> and <pad>; how many of the first twenty words of the
               review that it prints have its ranks. FOLDER holds train.tsv.gz and test.tsv.gz
word_order     perplexity of Kneser-Ney counts of words of WikiText-2, per line, on the test text and on the same lines
               with their words in a random order; orders 2 and 3. FOLDER holds wiki.(train, test).tokens.gz

Times are CPU times, medians of several runs on one thread. Records claims.json.
"""

import argparse
import gzip
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.metrics.language.kneser_ney import KneserNey
from heedful.metrics.recorded_results import record
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.layers.convolutions.causal import CausalConvolution
from heedful.nn.recurrent.stack import CellKind, RecurrentStack

Figures = dict[str, float]
PRINTED = (219, 30744, 7, 32, 944, 6, 90, 3, 1059, 9228, 174, 9177, 576, 5, 76, 17, 32, 7545, 4, 3)  # of the tutorial


def milliseconds(work: Callable[[], object], runs: int) -> float:
    """Return the median CPU time of some runs, after one that is not counted."""
    work()
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times)


def both_passes(run: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    """Return a forward and a backward pass."""

    def work() -> None:
        run(x.detach().requires_grad_(True)).sum().backward()

    return work


def _kept(run: Callable[[], object]) -> float:
    """Return the MiB that a forward pass keeps for the backward pass; a tensor that is kept twice counts once."""
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = run()
    del result
    return sum(sizes.values()) / 2**20


def through_time(steps: int, runs: int) -> Figures:
    """Time a sequence of this length."""
    return {**_through_time("rnn_tanh", steps, runs), **_through_time("lstm", steps, runs)}


def _through_time(kind: CellKind, steps: int, runs: int) -> Figures:
    stack, x, layout = RecurrentStack(kind, 256, 256), torch.randn(steps, 256), Layout.of([steps])

    def run(y: Tensor) -> Tensor:
        states: Tensor = stack(y, layout)[0]
        return states

    return {
        f"through_time_ms_{kind}": milliseconds(both_passes(run, x), runs),
        f"through_time_mib_{kind}": _kept(lambda: run(x.requires_grad_(True))),
    }


def one_product(tokens: int, runs: int) -> Figures:
    """Time one product of all three matrices, and three products."""
    width = 512
    tall, apart = nn.Linear(width, 3 * width, bias=False), [nn.Linear(width, width, bias=False) for _ in range(3)]
    x = torch.randn(tokens, width)
    with torch.no_grad():
        one = milliseconds(lambda: tall(x), runs)
        three = milliseconds(lambda: [each(x) for each in apart], runs)
    return {"one_product_ms": one, "three_products_ms": three, "one_product_ratio": three / one}


def context(length: int, runs: int) -> Figures:
    """Time layers over texts of this length."""
    layout, x = Layout.of([length] * 8), torch.randn(8 * length, 256)
    convolution = CausalConvolution(256, 256, kernel=4)
    attention = SelfAttention(256, 4, causal=True)
    lstm, gru = RecurrentStack("lstm", 256, 256), RecurrentStack("gru", 256, 256)
    layers: dict[str, Callable[[Tensor], Tensor]] = {
        "convolution": lambda y: convolution(y, layout),
        "lstm": lambda y: lstm(y, layout)[0],
        "gru": lambda y: gru(y, layout)[0],
        "attention": lambda y: attention(y, layout),
    }
    return {f"context_ms_{name}": milliseconds(both_passes(run, x), runs) for name, run in layers.items()}


def forced(length: int, runs: int) -> Figures:
    """Time an LSTM over all tokens at once, and step by step with its own outputs."""
    texts, width = 32, 256
    stack, x = RecurrentStack("lstm", width, width), torch.randn(texts * length, width)
    layout = Layout.of([length] * texts)

    def steps(y: Tensor) -> Tensor:
        state, fed, outputs = stack.start(texts, y), y[:texts], []
        for _ in range(length):
            fed, state = stack.step(fed, state)
            outputs.append(fed)
        return torch.stack(outputs)

    at_once = milliseconds(both_passes(lambda y: stack(y, layout)[0], x), runs)
    in_turn = milliseconds(both_passes(steps, x), runs)
    return {"forced_ms": at_once, "fed_back_ms": in_turn, "forced_ratio": in_turn / at_once}


def vocabulary(folder: Path) -> Figures:
    """Count words as the listing does."""
    counts: Counter[str] = Counter()
    reviews: dict[str, list[str]] = {}
    for name in ("train", "test"):
        with gzip.open(folder / f"{name}.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
            reviews[name] = [line.rstrip("\n").split("\t")[-1] for line in file]
    kept = [review for place, review in enumerate(reviews["train"]) if place % 10]
    for review in kept:
        counts.update(review.lower().split())
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[:50_000]
    places = {word: place for place, word in enumerate(["<unk>", "<pad>", *ranked])}
    first = [places.get(word, 0) for review in reviews["train"] for word in _sample(review)]
    return {
        "sample_equal": sum(found == printed for found, printed in zip(first, PRINTED, strict=True)),
        "reviews_train": len(reviews["train"]),
        "reviews_kept": len(kept),
        "reviews_test": len(reviews["test"]),
        "words": len(places),
        "place_of_what": places["what"],
        "place_of_he": places["he"],
    }


def _sample(review: str) -> list[str]:
    """Return the first words of the review that the listing prints."""
    words = review.lower().split()
    return words[: len(PRINTED)] if words[:2] == ['"the', 'bubble"'] else []


def word_order(folder: Path) -> Figures:
    """Count words, and score lines as they are and shuffled."""
    places: dict[str, int] = {}
    lines: dict[str, list[list[int]]] = {}
    for name in ("train", "test"):
        with gzip.open(folder / f"wiki.{name}.tokens.gz", "rt", encoding="utf-8") as file:
            lines[name] = [[places.setdefault(word, len(places)) for word in line.split()] for line in file]
    test = [line for line in lines["test"] if line]
    draw = random.Random(1)
    texts = {"": test, "_shuffled": [draw.sample(line, len(line)) for line in test]}
    starts = np.cumsum([0, *map(len, test)])[:-1]
    found: Figures = {}
    for order in (2, 3):
        model = KneserNey.of([line for line in lines["train"] if line], order, len(places))
        for name, some in texts.items():
            logs = model.log_probabilities(np.concatenate([np.array(line) for line in some]), starts)
            found[f"perplexity_{order}{name}"] = math.exp(-float(logs.mean()))
    return found


def main() -> None:
    """Measure, and record."""
    parser = argparse.ArgumentParser(description="Claims of the texts about cost, on a CPU.")
    parser.add_argument("--imdb", type=Path, help="folder of IMDB's reviews; without it their words are not counted")
    parser.add_argument("--wikitext", type=Path, help="folder of WikiText-2; without it their order is not measured")
    parser.add_argument("--tiny", action="store_true", help="try the program out, and record nothing")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    runs = 1 if given.tiny else 9
    found = {
        **through_time(20 if given.tiny else 1000, runs),
        **one_product(8 if given.tiny else 4096, runs),
        **context(8 if given.tiny else 512, runs),
        **forced(4 if given.tiny else 100, runs),
    }
    if given.imdb:
        found |= vocabulary(given.imdb)
    if given.wikitext:
        found |= word_order(given.wikitext)
    for name, figure in found.items():
        print(f"{name:28} {figure:12.4g}")
    if not given.tiny:
        print(
            record(
                "claims",
                found,
                command="python -m benchmarks.cpu.claims --imdb FOLDER --wikitext FOLDER",
                seeds=[1],
                merge=True,
            )
        )


if __name__ == "__main__":
    main()
