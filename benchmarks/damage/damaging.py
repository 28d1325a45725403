"""Which mutators fit a file, by the end of its name, and how a file is damaged."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.damage.model_mutators import change_sentencepiece, change_tensors, change_tokenizer
from benchmarks.damage.mutators import (
    BYTES,
    TEXT,
    Mutator,
    change_brackets,
    change_cells,
    change_json,
    change_json_line,
    change_toml,
    change_xml,
    flip_bytes,
)
from benchmarks.damage.packed_mutators import (
    change_gzip,
    change_idx,
    change_image,
    change_jpeg,
    change_npy,
    change_png,
    change_xz,
    change_zip,
)

_TOKENIZER: Final = (change_tokenizer, change_tokenizer, change_json)
OWN: Final[Mapping[str, tuple[Mutator, ...]]] = {  # by the end of a file's name; the more specific first
    "tokenizer.json": _TOKENIZER,
    "tokenizer.source.json": _TOKENIZER,
    "tokenizer.target.json": _TOKENIZER,
    "-idx.gz": (change_gzip, change_gzip),
    "-idx": (change_idx,),
    ".json": (change_json,),
    ".jsonl": (change_json_line,),
    ".toml": (change_toml,),
    ".safetensors": (change_tensors,),
    ".spm": (change_sentencepiece,),
    ".csv": (change_cells,),
    ".tsv": (change_cells,),
    ".conll": (change_cells,),
    ".conllu": (change_cells,),
    ".nbest": (change_cells,),
    ".trees": (change_brackets, change_brackets, change_cells),
    ".tmx": (change_xml,),
    ".xlf": (change_xml,),
    ".gz": (change_gzip,),
    ".xz": (change_xz,),
    ".zip": (change_zip,),
    ".npz": (change_zip,),
    ".npy": (change_npy,),
    ".png": (change_png,),
    ".jpg": (change_jpeg, change_image),
    ".webp": (change_image,),
    ".gif": (change_image,),
}
_BINARY: Final = (".safetensors", ".spm", ".gz", ".xz", ".zip", ".npz", ".npy", ".png", ".jpg", ".webp", ".gif", "-idx")
OUTSIDE: Final = Path(tempfile.gettempdir()) / "heedful-outside.txt"
_DEVICES: Final = ("/dev/zero", "/dev/null", "/dev/urandom", "/proc/self/mem")


def mutate(chance: Random, path: Path) -> None:
    """Damage one file, in a way that fits its name as often as not."""
    if path.is_symlink() or not path.is_file() or chance.random() < 0.06:
        replace_file(chance, path)
        return
    own = next((mutators for end, mutators in OWN.items() if path.name.endswith(end)), TEXT)
    any_file = BYTES if path.name.endswith(_BINARY) else TEXT
    mutator = chance.choice(own if chance.random() < 0.65 else (*any_file, *own))
    data = path.read_bytes()
    try:
        changed = mutator(chance, data)
    except (ValueError, RecursionError, OverflowError):  # damaged before: nested too deep, or a number of 6,000 digits
        changed = flip_bytes(chance, data)
    path.write_bytes(changed)


def replace_file(chance: Random, path: Path) -> None:
    """Put something at a path that is not the file that was there."""
    if path.is_dir() and not path.is_symlink():
        return
    path.unlink(missing_ok=True)
    match chance.randrange(8):
        case 0:
            pass
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to(path.name)
        case 3:
            path.symlink_to(chance.choice(_DEVICES))
        case 4:
            os.mkfifo(path)
        case 5:
            path.symlink_to("x" * 200)
        case 6:  # somebody else's file: writing to it is an escape
            OUTSIDE.write_text("{}\n")
            path.symlink_to(OUTSIDE)
        case _:
            others = sorted(other for other in path.parent.iterdir() if other.is_file() and not other.is_symlink())
            if others:
                path.write_bytes(chance.choice(others).read_bytes())
