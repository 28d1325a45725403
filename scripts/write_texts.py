"""Writes docs/texts.md from the lists of `src/heedful/texts`: `make texts`.

python scripts/write_texts.py            # write the page
python scripts/write_texts.py --check    # exit code 1 where it is not current
"""

import argparse
import sys
from pathlib import Path

from heedful.texts.page import texts_page

PAGE = Path(__file__).resolve().parents[1] / "docs/texts.md"


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
