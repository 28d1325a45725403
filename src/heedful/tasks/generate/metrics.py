"""Metrics of language models, one row each; units that do not depend on the tokenizer compare different models."""

import math
from dataclasses import replace
from typing import Any, Final

from heedful.metrics.rows import LOSS, PERPLEXITY, MetricRow

METRICS: Final[tuple[MetricRow[Any], ...]] = (
    replace(PERPLEXITY, note=lambda found: f"per token, of {found.likelihood.tokens:,}"),
    MetricRow(
        "word_perplexity",
        "word perplexity",
        lambda found: replace(found.likelihood, tokens=found.size.words).perplexity,
        "lower",
        "number",
        lambda found: f"per word or line break, of {found.size.words:,}",
        validated=False,
    ),
    MetricRow(
        "bits_per_byte",
        "bits per byte",
        lambda found: found.likelihood.total / math.log(2) / max(1, found.size.bytes),
        "lower",
        "loss",
        validated=False,
    ),
    LOSS,
    MetricRow(
        "line_loss",
        "loss per line",
        lambda found: found.likelihood.total / max(1, found.size.lines),
        "lower",
        "number",
        lambda found: "nats",
        validated=False,
    ),
    MetricRow(
        "uniform_perplexity",
        "of a uniform guess",
        lambda found: float(found.vocabulary),
        "lower",
        "number",
        lambda found: "perplexity per token, the size of the vocabulary",
        validated=False,
    ),
)
