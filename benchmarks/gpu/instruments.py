"""What instruments cost: the time of training with `train.instruments = { every = 100 }` over that without.

    python -m benchmarks.gpu.instruments [--rounds 2] [--tiny]

The work is that of `benchmarks.gpu.train_gpu`: Transformer-base on sentences of lengths like WMT's, by the trainer that
`heedful train` uses. Runs with and without instruments take turns; each has 300 steps, of which the first 100 compile,
capture and warm up. A rate counts the target tokens of 100 steps, one of which is measured: all layers and kinds of
weights, histograms of updates, and the attention entropy of a probe batch. `cost_share` is the ratio of the medians,
less 1. On a GPU it takes less than a minute.
"""

import argparse
from pathlib import Path
from statistics import median

from benchmarks.gpu.train_gpu import Way, ours
from benchmarks.gpu.train_gpu_work import FULL, TINY, like_wmt
from benchmarks.shared.gpu_work import Results

from heedful.base.devices import choose_device
from heedful.config.train.table import Instruments
from heedful.metrics.recorded_results import RESULTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="runs of either kind")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the program out; records nothing")
    options = parser.parse_args()
    scale, every = (TINY, 10) if options.tiny else (FULL, 100)
    work, device = like_wmt(scale, scale.shape), choose_device("auto")
    results = Results("instruments", None if options.tiny else options.results, merge=False)
    ways = {"without": Way(), "with": Way(instruments=Instruments(every=every))}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    with results.part("cost"):
        for number in range(options.rounds):
            for name, way in ways.items():
                readings = ours(work, device, 3 * every, every, way)[1:]
                rates[name] += [reading.tokens_per_second for reading in readings]
                results.say(f"round {number + 1}, {name} instruments: {rates[name][-1]:,.0f} target tokens per second")
        without, measured = (median(rates[name]) for name in ("without", "with"))
        results.details["rates"] = dict(rates)
        results.add(
            target_tokens_per_second_without=without,
            target_tokens_per_second_with=measured,
            cost_share=without / measured - 1,
        )
    results.exit()


if __name__ == "__main__":
    main()
