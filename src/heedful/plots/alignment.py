"""The alignment matrix of a translation: Bahdanau et al. 2015, figure 3."""

from heedful.base.errors import UserError
from heedful.explain.explanation import Explanation
from heedful.explain.pages.images import by_words
from heedful.pages.charts.heat_maps import heat_map


def draw_alignment(found: Explanation) -> str:
    """Draw how much each word of a translation attends to each word of the source; dots are the greatest weights."""
    if found.alignment is None:
        raise UserError("This model has no attention over a source, so no alignment: choose one that has it.")
    rows, columns = found.sequences["output"], found.sequences["source"]
    words = by_words(found.alignment, rows, columns)
    return heat_map(
        words,
        title="Alignment",
        row_names=rows.texts,
        column_names=columns.texts,
        dots=[(row, int(column)) for row, column in enumerate(words.argmax(axis=1))],
        description=f"Weights of the words of `{found.text}` in its translation `{found.output}`.",
    )
