"""Writes docs/texts.md from the lists of `src/heedful/texts`: `make texts`.

python scripts/write_texts.py            # write the page
python scripts/write_texts.py --check    # exit code 1 where it is not current
"""

import argparse
import sys
from pathlib import Path

from heedful.texts.listing import MEANINGS, Item, Text, count_verdicts, read_texts

PAGE = Path(__file__).resolve().parents[1] / "docs/texts.md"
_NOTE = "<!-- Written by scripts/write_texts.py: change src/heedful/texts/lists, then run `make texts`. -->"
_HEAD = """# Five texts, as commands

Heedful began with five texts about attention: a thesis, notes on a paper, a tutorial and two sets of slides. Here is
every equation, figure and table of theirs that says something about models, with the command that recomputes it.
Equations and worked examples are computed twice, as the text writes them and by the code that models run:
`heedful texts thesis-2.9` prints both, and tests compare the outcome with the verdict below. `heedful texts` lists all
items, and `heedful texts ID` runs the command of one."""
_FOOT = """`MODEL` is the folder of a trained translator, by default that of `heedful demo`; another is named by
`heedful texts ID --model FOLDER`. Items that train on data of their own, studies and recipes, need its folder:
`heedful texts ID --set data.folder=FOLDER`. The first lines of their files say what FOLDER holds."""


def texts_page() -> str:
    """Return the page."""
    counts = count_verdicts(read_texts())
    rows = [f"| {verdict} | {count} | {MEANINGS[verdict]} |" for verdict, count in counts.items()]
    total = f"| all | {sum(counts.values())} | |"
    parts = [_NOTE, "", _HEAD, "", "| verdict | items | meaning |", "|---|---|---|", *rows, total, "", _FOOT]
    for text in read_texts():
        parts += ["", *_section(text)]
    return "\n".join(parts) + "\n"


def _section(text: Text) -> list[str]:
    head = [
        f"## {text.author}: {text.title}",
        "",
        "| section | item | what | command | verdict |",
        "|---|---|---|---|---|",
    ]
    return [*head, *(_row(item) for item in text.items)]


def _row(item: Item) -> str:
    command = f"`{item.command}`" if item.command else f"none: {item.reason}"
    told = [("the text", item.says), ("Heedful", item.found)]
    reasons = [f"{name}: {value}" for name, value in told if value] + ([item.why] if item.why else [])
    verdict = f"{item.verdict}: {'; '.join(reasons)}" if reasons else item.verdict
    return f"| {item.section} | {item.id} | {item.what} | {command} | {verdict} |"


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description="Write docs/texts.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the page is not current")
    check, text = parser.parse_args().check, texts_page()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if check:
        print("docs/texts.md is not current: run `make texts`.")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    print("wrote docs/texts.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
