"""Size of the explorer's pages, and how soon Chromium shows them.

    python -m benchmarks.cpu.pages

Two pages of random weights, which compress worse than those of trained models, and of random states: a translation of
40 words by a Transformer of 6 layers and 8 heads, and a text of 512 tokens read by BERT-small (4 layers, 8 heads),
which are too many for its states to be drawn. Chromium opens each from disk, `--rounds` times; `ready` is the time from
navigation until the page can be used, `switch` the time to show another head, medians.

Records pages.json: `kb_translation`, `ready_ms`, `kb_bert`, `ready_bert_ms`, `switch_bert_ms`.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
from playwright.sync_api import sync_playwright

from heedful.explain.explanation import (
    Array,
    AttentionKind,
    AttentionWeights,
    Explanation,
    TokenPrediction,
    TokenSequence,
)
from heedful.explain.pages.page import explorer_page
from heedful.explain.recorded_states import LayerStates
from heedful.metrics.recorded_results import RESULTS, record

NAME: Final = "pages"
SWITCH: Final = """async () => {
  const began = performance.now();
  await explorer.view.choose({ head: 1 });
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""


def random_weights(layers: int, heads: int, queries: int, keys: int, causal: bool = False) -> Array:
    """Return the softmax of random scores."""
    scores = 2 * np.random.default_rng(layers + keys).standard_normal((layers, heads, queries, keys))
    if causal:
        scores[..., np.triu(np.ones((queries, keys), bool), 1)] = -np.inf
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


def attention(kind: AttentionKind, layers: int, queries: str, keys: str, sizes: tuple[int, int]) -> AttentionWeights:
    """Return random weights of 8 heads."""
    return AttentionWeights(kind, random_weights(layers, 8, *sizes, kind == "decoder"), queries, keys)


def states(part: str, layers: int, tokens: str, count: int, width: int = 512) -> LayerStates:
    """Return random states, to each of which the next layer adds something."""
    values = np.random.default_rng(count).standard_normal((layers + 1, count, width)).cumsum(axis=0, dtype=np.float32)
    return LayerStates(part, tokens, values, values[-1])


def translation(words: int = 40, layers: int = 6) -> Explanation:
    """Return an explanation of a translation of as many words."""
    names = TokenSequence.named([f"word{number}" for number in range(words)])
    runners_up = tuple((f"other{number}", 0.01) for number in range(5))
    return Explanation(
        "translate",
        "transformer",
        " ".join(names.texts),
        " ".join(names.texts),
        {"source": names, "target": names, "output": names},
        (
            attention("encoder", layers, "source", "source", (words, words)),
            attention("decoder", layers, "target", "target", (words, words)),
            attention("cross", layers, "output", "source", (words, words)),
        ),
        "output",
        tuple(TokenPrediction(index, piece, 0.9, runners_up) for index, piece in enumerate(names.pieces)),
        alignment=random_weights(1, 1, words, words)[0, 0],
        states=(states("encoder", layers, "source", words), states("decoder", layers, "target", words)),
    )


def reading(tokens: int = 512, layers: int = 4) -> Explanation:
    """Return an explanation of a text of as many tokens, read by an encoder."""
    names = TokenSequence.named([f"word{number}" for number in range(tokens)])
    read = attention("encoder", layers, "text", "text", (tokens, tokens))
    hidden = (states("encoder", layers, "text", tokens),)
    return Explanation("fill", "bert", " ".join(names.texts), "", {"text": names}, (read,), "text", states=hidden)


def main() -> int:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        print("needs Chromium: install it with `apt-get install chromium`", file=sys.stderr)
        return 2
    figures: dict[str, float] = {}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for key, ready_key, found in (("translation", "ready_ms", translation()), ("bert", "ready_bert_ms", reading())):
            path = Path(folder) / f"{key}.html"
            path.write_text(explorer_page([found], key), encoding="utf-8")
            figures[f"kb_{key}"] = round(path.stat().st_size / 1000)
            ready, switched = [], []
            for _ in range(options.rounds):
                page = opened.new_page()
                page.goto(path.as_uri())
                page.wait_for_selector("html[data-ready-ms]")
                ready.append(float(page.evaluate("document.documentElement.dataset.readyMs")))
                switched.append(float(page.evaluate(SWITCH)))
                page.close()
            figures[ready_key] = round(median(ready))
            if key == "bert":
                figures["switch_bert_ms"] = round(median(switched))
        opened.close()
    path = record(NAME, figures, command="python -m benchmarks.cpu.pages", folder=options.results)
    print(figures, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
