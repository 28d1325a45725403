"""The items of the five texts by verdict, and 40 of them recomputed in NumPy.

    python -m benchmarks.texts.texts

The 40 are drawn among all items that compute numbers (`check` in src/heedful/texts/lists), by a hash of their names:
the draw is the same on every machine, and nobody chooses. Code in tests/numerics/texts, from the texts' formulas and
without torch and without Heedful, computes their values anew from the random inputs that `heedful texts ID --json`
shows: what the text's formula gives, what Heedful computes, and the corrected formula where there is one. Where
Heedful's side is a statistic of random draws, the text's side alone is compared.

Records texts.json: `items`, `same`, `corrected`, `otherwise` (measured otherwise), `not_run`, `recomputed`, and
`difference`, the largest one of all recomputed values; in `details` that of each drawn item. It takes seconds.
"""

import argparse
from hashlib import sha256
from pathlib import Path
from typing import Final

from benchmarks.shared.detailed_results import Detailed, save
from tests.numerics.texts.by_numpy import difference

from heedful.metrics.recorded_results import RESULTS
from heedful.texts.listing import Item, count_verdicts, read_texts

NAME: Final = "texts"
DRAWN: Final = 40


def draw_items(count: int = DRAWN) -> list[Item]:
    """Return items that compute numbers, chosen by a hash of their names."""
    computing = [item for text in read_texts() for item in text.items if item.check is not None]
    return sorted(computing, key=lambda item: sha256(item.id.encode()).hexdigest())[:count]


def measure() -> Detailed:
    """Return the numbers of items by verdict, and the differences of those that are drawn."""
    counts = count_verdicts(read_texts())
    found = {item.id: {"check": item.check, "difference": difference(item.check or "")} for item in draw_items()}
    figures: dict[str, float] = {
        "items": sum(counts.values()),
        "same": counts["same"],
        "corrected": counts["corrected"],
        "otherwise": counts["measured otherwise"],
        "not_run": counts["not run"],
        "recomputed": len(found),
        "difference": max(float(str(row["difference"])) for row in found.values()),
    }
    return Detailed(figures, {"drawn": found})


def main() -> None:
    """Count, recompute, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    folder = parser.parse_args().results
    found = measure()
    for item, row in found.details["drawn"].items():
        print(f"{item:40} {row['check']:40} {row['difference']:.3g}")
    print(*(f"{name} {figure:g}" for name, figure in found.figures.items()), sep="  ")
    save(NAME, found, folder)


if __name__ == "__main__":
    main()
