"""How parsers answer: trees, as JSON, as columns, as lines and as drawings."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from heedful.base.trees import UNTAGGED, Leaf, Tree
from heedful.tasks.shared.answering.answers import Answers, Given

if TYPE_CHECKING:
    from heedful.tasks.parse.model import Parse, Parser


def answers_of(
    parser: "Parser", *, pretty: bool = False, n_best: int | None = None, **options: Any
) -> "Answers[Sequence[Parse]]":
    """Return how a parser answers; `options` are those of its search."""

    def fields(parses: "Sequence[Parse]") -> dict[str, Any]:
        found: list[dict[str, object]] = [
            {
                "tree": None if parse.tree is None else str(parse.tree),
                "log_probability": parse.log_probability,
                "score": parse.score,
            }
            for parse in parses
        ]
        return {"words": parses[0].words, **found[0], **({"nbest": found} if n_best else {})}

    def line(parses: "Sequence[Parse]", given: Given) -> str:
        shown = (f"{draw(tree)}\n" if pretty and tree else str(tree or "") for tree in (one.tree for one in parses))
        if not n_best:
            return "\n".join(shown)
        between = "\n" if pretty else "\t"
        return "\n".join(
            f"{given.number}\t{one.score:.4f}{between}{tree}" for one, tree in zip(parses, shown, strict=True)
        )

    return Answers(
        ("text",),
        lambda values, where: values["text"] if isinstance(values["text"], str) else " ".join(values["text"]),
        partial(parser.stream_detailed, **options),
        fields,
        ("tree",),
        line,
        takes=("ready", "name", "progress"),
    )


def draw(tree: Tree) -> str:
    """Return the drawing of a tree: one line per constituent and word."""
    return "\n".join(_lines(tree, "", ""))


def _lines(node: Tree | Leaf, first: str, rest: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield f"{first}{node.word}" if node.tag == UNTAGGED else f"{first}{node.tag} {node.word}"
        return
    yield f"{first}{node.label}"
    for child in node.children[:-1]:
        yield from _lines(child, f"{rest}├─ ", f"{rest}│  ")
    yield from _lines(node.children[-1], f"{rest}└─ ", f"{rest}   ")
