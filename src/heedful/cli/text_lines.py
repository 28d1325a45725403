"""A line as a text to classify, or as a pair of texts."""

from heedful.data.corpora.texts import Text
from heedful.errors import UserError, counted


def text_of(line: str, paired: bool, where: str) -> Text:
    """One text, or two with a tab between; a blank line is a blank text. `where` names the line in messages."""
    if not (paired and line.strip()):
        return Text(line)
    columns = line.split("\t")
    if len(columns) != 2:
        raise UserError(
            f"{where} has {counted(len(columns), 'column')}, but this model reads pairs: two texts with a tab between."
        )
    return Text(columns[0], columns[1])
