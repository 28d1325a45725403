"""The fenced blocks of the pages, in order."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "docs",
    "docs/tutorials",
    "docs/how-to",
    "docs/tasks",
    "docs/guide",
    "docs/measured",
)  # docs/reference is generated, and has tests of its own
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md"] + [
    str(path.relative_to(ROOT)) for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.md"))
]


@dataclass(frozen=True)
class Block:
    """One fenced block: its language (none: commands and their output; `text`: output alone), and where it starts."""

    page: str
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        """The page and the line, as an editor jumps to them."""
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The command lines: those after a prompt, or all of them where there is no prompt."""
        lines = [line for line in self.text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        prompted = [line[2:] for line in lines if line.startswith("$ ")]
        return prompted or lines


def blocks_of(page: str) -> list[Block]:
    """All fenced blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [Block(page, text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in found]


def blocks_in(language: str) -> list[Block]:
    """All blocks of all pages in one language."""
    return [block for page in PAGES for block in blocks_of(page) if block.language == language]


def statements_in(text: str) -> str:
    """The statements of a Python block, also where it shows a session with its output."""
    if not text.startswith(">>> "):
        return text
    return "\n".join(line[4:] for line in text.splitlines() if line.startswith((">>> ", "... ")))
