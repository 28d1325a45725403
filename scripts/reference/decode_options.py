"""The keywords of a call that a recipe's [decode] has too: the body of `DecodeOptions`, from the table `Decode`."""

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from heedful.config.decode import OF_LOADING, Decode

_SOURCE = Path(__file__).resolve().parents[2] / "src/heedful/config/decode.py"
_BODY = re.compile(r"(?<=    # Written from `Decode` by `make reference`\.\n).*?(?=\n\n)", re.DOTALL)


def decode_options() -> str:
    """Return config/decode.py with a keyword for every key of [decode] that a call has, of the same type."""
    lines = [
        f'    {key}: Annotated[{_written(field.annotation)} | None, _of_recipe("{key}")]'
        for key, field in Decode.model_fields.items()
        if key not in OF_LOADING
    ]
    return _BODY.sub(lambda match: "\n".join(lines), _SOURCE.read_text(encoding="utf-8"), count=1)


def _written(annotation: Any) -> str:
    """Return a type as source code."""
    if get_origin(annotation) is Literal:
        names = ", ".join(f'"{name}"' for name in get_args(annotation))
        return f"Literal[{names}]"
    return str(annotation.__name__)
