"""`heedful cache`: list and clear the cache of prepared data."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final

import typer

from heedful.base.columns import align_columns
from heedful.base.errors import UserError, counted
from heedful.cli import messages
from heedful.cli.options import OutputOption, json_option, option
from heedful.cli.output import check_output, line_writer, write_result
from heedful.data.cache import CacheEntry, cache_entries, cache_folder, remove_entry, remove_leftovers

app = typer.Typer(help="List or clear the cache of prepared data.")

_DAY: Final = 24 * 60 * 60
_NAME: Final = 12  # letters of an entry's name that are shown

OlderOption = Annotated[
    float | None, option("Only entries that were not used for this long.", "--older", metavar="DAYS", min=0)
]


@app.command("list")
def list_entries(
    older: OlderOption = None,
    as_json: Annotated[bool, json_option("one object per entry")] = False,
    output: OutputOption = None,
) -> None:
    """List what is in the cache, the longest unused first: kind, size, days since its last use, content."""
    check_output(output)
    entries = _chosen(older)
    with line_writer(output) as write:
        if as_json:
            for entry in entries:
                write({**asdict(entry), "path": str(entry.path)})
            return
        rows = [
            [entry.path.name[:_NAME], entry.kind, entry.what, show_size(entry.size), _age(entry)] for entry in entries
        ]
        for line in align_columns([["name", "kind", "content", "size", "unused"], *rows], left=3) if rows else []:
            write(line)
        write(f"{_total(entries)} in {cache_folder()}")


@app.command()
def clear(
    older: OlderOption = None,
    yes: Annotated[bool, option("Do not ask.", "--yes", "-y")] = False,
    as_json: Annotated[bool, json_option("the folder, and how many entries and bytes were removed and kept")] = False,
) -> None:
    """Remove entries of the cache; the next training that needs them makes them again.

    An entry that a running process builds or uses is kept.
    """
    entries = _chosen(older)
    if not entries and not as_json:
        print(f"Nothing to remove in {cache_folder()}.")
        return
    if entries and not yes:
        if not sys.stdin.isatty():
            raise UserError("Nobody is there to ask whether to clear the cache: add --yes.")
        typer.confirm(f"Remove {_total(entries)} from {cache_folder()}?", abort=True, err=True)
    removed = [entry for entry in entries if remove_entry(entry.path)]
    remove_leftovers()
    if as_json:
        sizes = {"removed": len(removed), "bytes": sum(entry.size for entry in removed)}
        write_result({"folder": str(cache_folder()), **sizes, "kept": len(entries) - len(removed)})
    else:
        print(f"Removed {_total(removed)} from {cache_folder()}.")
    if len(removed) < len(entries):
        messages.warn(f"kept {_counted(len(entries) - len(removed))} that another process is using.")


def show_size(size: float) -> str:
    """Return a number of bytes as people read it: 940 B, 1.5 KiB, 12.0 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _chosen(older: float | None) -> list[CacheEntry]:
    now = time.time()
    return [entry for entry in cache_entries() if older is None or now - entry.used >= older * _DAY]


def _age(entry: CacheEntry) -> str:
    days = (time.time() - entry.used) / _DAY
    return "today" if days < 1 else counted(int(days), "day")


def _total(entries: Sequence[CacheEntry]) -> str:
    return f"{_counted(len(entries))}, {show_size(sum(entry.size for entry in entries))}"


def _counted(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"
