"""The page of all items, `docs/texts.md`."""

from heedful.texts.listing import MEANINGS, Item, Text, count_verdicts, read_texts

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
    counts = count_verdicts()
    rows = [f"| {verdict} | {count} | {MEANINGS[verdict]} |" for verdict, count in counts.items()]
    total = f"| all | {sum(counts.values())} | |"
    parts = [_NOTE, "", _HEAD, "", "| verdict | items | meaning |", "|---|---|---|", *rows, total, "", _FOOT]
    for text in read_texts():
        parts += ["", *_section(text)]
    return "\n".join(parts) + "\n"


def _section(text: Text) -> list[str]:
    head = [f"## {text.author}: {text.title}", "", "| item | what | command | verdict |", "|---|---|---|---|"]
    return [*head, *(_row(item) for item in text.items)]


def _row(item: Item) -> str:
    command = f"`{item.command}`" if item.command else f"none: {item.reason}"
    verdict = f"{item.verdict}: {item.why}" if item.why else item.verdict
    return f"| {item.id} | {item.what} | {command} | {verdict} |"
