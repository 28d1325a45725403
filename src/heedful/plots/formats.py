"""Images as files: SVG, a page of HTML, or PNG, by the ending of the file's name."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from heedful.base.errors import UserError
from heedful.base.files import write_bytes
from heedful.pages.html import static_page, themed

ENDINGS: Final = (".svg", ".png", ".html")
_CONVERTER: Final = "rsvg-convert"


def check_ending(output: Path) -> None:
    """Refuse, before anything is drawn, a file that cannot be written."""
    ending = output.suffix.lower()
    if ending not in ENDINGS:
        raise UserError(f"{output}: an image is a file that ends in {', '.join(ENDINGS)}: choose another name.")
    if ending == ".png" and shutil.which(_CONVERTER) is None:
        raise UserError(
            f"{output}: PNG needs the program {_CONVERTER}: install it (Debian: `apt-get install librsvg2-bin`, macOS: "
            f"`brew install librsvg`), or write {output.with_suffix('.svg')}."
        )


def write_image(svg: str, output: Path, title: str, lead: str) -> None:
    """Write an image in the form that the name of the file asks for; a page has its title and a sentence about it."""
    match output.suffix.lower():
        case ".html":
            made = static_page(title, lead, f"<section><figure class='figure'>{svg}</figure></section>").encode()
        case ".png":
            # A PNG with two pixels for each of the image's.
            done = subprocess.run(
                [_CONVERTER, "--zoom", "2", "--unlimited"], input=svg.encode(), capture_output=True, check=False
            )
            if done.returncode:
                said = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
                raise UserError(
                    f"{output}: {_CONVERTER} could not draw the image ({said}): write {output.with_suffix('.svg')}."
                )
            made = done.stdout
        case _:
            made = themed(svg).encode()
    write_bytes(output, made)
