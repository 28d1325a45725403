"""Counts lines of code: no blank line, no comment, no docstring, nor any other string that is a statement.

python scripts/code_lines.py                  # src
python scripts/code_lines.py src tests        # both together
python scripts/code_lines.py --rooms          # each room of src/heedful, the largest first, and the total
"""

import argparse
import ast
import tokenize
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def code_lines(text: str) -> int:
    """Return the number of lines of a file's text on which something is computed."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def count(folders: Sequence[Path]) -> Counter[str]:
    """Return the code lines of folders by room: the folder, or file, of their packages that the lines are in."""
    rooms: Counter[str] = Counter()
    for folder in folders:
        for path in folder.rglob("*.py"):
            within = path.relative_to(folder).parts
            rooms["/".join([folder.name, *within[:2]])] += code_lines(path.read_text(encoding="utf-8"))
    return rooms


def main() -> None:
    """Print the count of the folders that are given on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("src")], metavar="FOLDER")
    parser.add_argument("--rooms", action="store_true", help="print each room too, the largest first")
    arguments = parser.parse_args()
    rooms = count(arguments.folders)
    if arguments.rooms:
        for room, lines in rooms.most_common():
            print(f"{lines:7,} {room}")
    print(f"{rooms.total():,}")


if __name__ == "__main__":
    main()
