"""Search for many queries at once: what one call asks of an engine, with results in the order of the queries."""

from collections.abc import Callable, Sequence

from heedful.decode.engine import engine_of
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.scorer import Scorer, SingleModel
from heedful.decode.settings import SearchSettings
from heedful.models.protocols import Generator

ProgressCallback = Callable[[int], None]  # called with the number of sentences just finished


def search(
    model: Generator | Scorer,
    queries: Sequence[Query],
    settings: SearchSettings,
    batch_tokens: int,
    progress: ProgressCallback = lambda ready: None,
) -> list[list[Hypothesis]]:
    """Find the N best targets of each query, with one model or an ensemble.

    `batch_tokens` is the budget of a batch: source tokens times the rows of a sentence (beams or samples); where a
    target continues its source, its longest length counts too. A longer sentence is a batch of its own. A GPU decodes
    in slots, as many as its memory holds.

    Sampling returns `samples` targets per query in the order in which they are drawn, not by score. Searches of several
    threads with one scorer run together.
    """
    engine = engine_of(SingleModel(model) if isinstance(model, Generator) else model)
    return engine.run(queries, settings, batch_tokens, progress)
