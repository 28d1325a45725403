"""`heedful embed MODEL [FILE|TEXT...]`: one vector per line, as JSON or as an array in a file."""

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from heedful.base.errors import UserError
from heedful.base.files import write_bytes
from heedful.cli import messages
from heedful.cli.input import open_inputs
from heedful.cli.options import (
    DeviceOption,
    InputsArgument,
    ModelArgument,
    OutputOption,
    PrecisionOption,
    TextOption,
)
from heedful.cli.output import check_output, line_progress, line_writer

if TYPE_CHECKING:
    from heedful.tasks.shared.embeddings import Vectors

_LINES: Final = ("", ".json", ".jsonl")  # suffixes of files that have one object per line


def command(
    model: ModelArgument,
    inputs: InputsArgument = None,
    text: TextOption = None,
    pool: Annotated[
        Literal["mean", "first", "max", "last"],
        typer.Option("--pool", help="How the vectors of tokens become one: mean, maximum, that of <s>, or the last."),
    ] = "mean",
    layer: Annotated[
        int, typer.Option("--layer", help="Layer of a Transformer: 0 is the embedding; -1, the last.")
    ] = -1,
    markers: Annotated[bool, typer.Option("--markers", help="Count <s> and </s> as tokens.")] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Write each text as a vector: what a classifier or a language model makes of it.

    Writes one JSON object per line, with `text` and `vector`. A file of --output that ends in .npy, .npz or
    .safetensors holds an array of all vectors instead, texts x width, called `vectors` where it has a name.
    """
    check_output(output)
    suffix = "" if output is None else output.suffix.lower()
    if suffix not in (*_LINES, *_ARRAYS):
        raise UserError(f"{output}: vectors are written as {', '.join((*_LINES[1:], *_ARRAYS))}, not as {suffix}.")
    entries = open_inputs(inputs, text)
    with messages.busy(f"loading {model}"):
        from heedful.data.text_form import TextForm
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds
        from heedful.tasks.shared.embeddings import Embeds
        from heedful.tasks.shared.streaming import answer_stream

        loaded = load(model, device, precision)
    if not isinstance(loaded, Embeds):
        raise UserError(
            f"{model} is a model that {loaded.recipe.rules.does}: vectors of texts come from classifiers and "
            "language models."
        )

    kept: list[Vectors] = []
    form = TextForm.of(loaded.recipe.data)
    with (
        line_writer(None if suffix in _ARRAYS else output) as write,
        line_progress("embedding", entries, output) as progress,
    ):
        for entry in entries:

            def embedded(texts: Sequence[str], first: int, name: str = entry.name) -> "list[Vectors]":
                form.check(texts, name, first)
                return list(loaded.embed(texts, pool=pool, layer=layer, markers=markers))

            lines, again = tee(entry.lines())
            for vector, line in zip(answer_stream(lines, embedded, ready=entry.ready), again, strict=True):
                progress(1)
                if suffix in _ARRAYS:
                    kept.append(vector)
                else:
                    write(_object(line, vector))
    if output is not None and suffix in _ARRAYS:
        _write_array(output, kept, loaded.embed([]))


def _object(text: str, vector: "Vectors") -> str:
    numbers = [float(f"{number:.6g}") for number in vector.tolist()]
    return json.dumps({"text": text, "vector": numbers}, ensure_ascii=False)


# --- arrays -----------------------------------------------------------------------------------------------------------


def _write_array(output: Path, rows: "list[Vectors]", none: "Vectors") -> None:
    """Write vectors as an array; `none` is one without rows, whose width is known."""
    import numpy as np

    write_bytes(output, _ARRAYS[output.suffix.lower()](np.stack(rows) if rows else none))


def _npy(vectors: "Vectors") -> bytes:
    import numpy as np

    file = BytesIO()
    np.save(file, vectors, allow_pickle=False)
    return file.getvalue()


def _npz(vectors: "Vectors") -> bytes:
    import numpy as np

    file = BytesIO()
    np.savez(file, vectors=vectors)
    return file.getvalue()


def _safetensors(vectors: "Vectors") -> bytes:
    from safetensors.numpy import save

    return save({"vectors": vectors})


_ARRAYS: Final[Mapping[str, Callable[["Vectors"], bytes]]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
}
