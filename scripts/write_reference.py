"""Writes what is derived: docs/reference, from the schema of recipes, the command line and the package, and the
keywords of [decode] in the source: `make reference`.

python scripts/write_reference.py            # write the pages
python scripts/write_reference.py --check    # exit code 1 where a page is not current
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.reference.commands_page import commands_page  # noqa: E402
from scripts.reference.decode_options import decode_options  # noqa: E402
from scripts.reference.python_page import python_page  # noqa: E402
from scripts.reference.recipe_page import recipe_page  # noqa: E402

PAGES: Mapping[str, Callable[[], str]] = {
    "src/heedful/config/decode.py": decode_options,
    "docs/reference/recipe.md": recipe_page,
    "docs/reference/commands.md": commands_page,
    "docs/reference/python.md": python_page,
}
NOTE = "<!-- Written by scripts/write_reference.py: change the source, then run `make reference`. -->\n"


def current(page: str) -> str:
    """Return what a page should hold."""
    return NOTE + PAGES[page]() if page.endswith(".md") else PAGES[page]()


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description="Write the reference pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a page is not current")
    check = parser.parse_args().check
    old = []
    for page in PAGES:
        path, text = ROOT / page, current(page)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            old.append(page)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    for page in old:
        print(f"{page} is not current: run `make reference`." if check else f"wrote {page}")
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main())
