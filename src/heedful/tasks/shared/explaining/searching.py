"""The life of a beam with names: what a search considered on its way to the output."""

from collections.abc import Sequence

from heedful.data.tokenize.tokenizer import END
from heedful.decode.query import Query
from heedful.decode.recording import BeamNode, record_beam
from heedful.decode.scorer import Scorer
from heedful.decode.settings import SearchSettings
from heedful.tasks.shared.explaining.explanation import SearchNode, ShowsPieces


def explain_search(
    scorer: Scorer, query: Query, settings: SearchSettings, tokenizer: ShowsPieces, found: Sequence[int]
) -> tuple[SearchNode, ...]:
    """Search again with a record, and mark the path to what was found; none but a beam search is recorded."""
    nodes = record_beam(scorer, query, settings)
    path, before = set[int](), None
    for token in [*found, END]:
        here = [
            index
            for index, node in enumerate(nodes)
            if node.parent == before and node.token == token and index not in path
        ]
        kept = [index for index in here if nodes[index].fate != "dropped"]
        if not kept:
            break
        before = kept[0]
        path.add(before)
    names = tokenizer.pieces([node.token for node in nodes])
    return tuple(_named(node, name, index in path) for index, (node, name) in enumerate(zip(nodes, names, strict=True)))


def _named(node: BeamNode, piece: str, best: bool) -> SearchNode:
    return SearchNode(node.parent, piece, node.step, node.log_probability, node.score, node.fate, best)
