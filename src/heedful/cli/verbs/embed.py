"""`heedful embed MODEL [FILE|TEXT...]`: one vector per line, as JSON or as an array in a file."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Final, Literal

from heedful.base.errors import UserError
from heedful.base.files import write_bytes
from heedful.cli.answering import AnsweringTexts
from heedful.cli.options import option, with_option_groups
from heedful.cli.output import Line, line_progress

if TYPE_CHECKING:
    from heedful.tasks.shared.embeddings import Vectors

_LINES: Final = ("", ".json", ".jsonl")  # suffixes of files that have one object per line
_ARRAYS: Final = (".npy", ".npz", ".safetensors")


@with_option_groups
def command(
    asked: AnsweringTexts,
    pool: Annotated[
        Literal["mean", "first", "max", "last"],
        option("How the vectors of tokens become one: mean, maximum, that of <s>, or the last."),
    ] = "mean",
    layer: Annotated[int, option("Layer, counted from 1; 0 is the embedding, -1 the last, of a Transformer.")] = -1,
    markers: Annotated[bool, option("Count <s> and </s> as tokens.", "--markers")] = False,
) -> None:
    """Write each text as a vector: what a classifier or a language model makes of it.

    Writes one JSON object per line, with `text` and `vector`. A file of --output that ends in .npy, .npz or
    .safetensors holds an array of all vectors instead, texts x width, called `vectors` where it has a name.
    """
    output = asked.output
    suffix = "" if output is None else output.suffix.lower()
    if suffix not in (*_LINES, *_ARRAYS):
        raise UserError(f"{output}: vectors are written as {', '.join((*_LINES[1:], *_ARRAYS))}, not as {suffix}.")
    entries = asked.open()
    with asked.loading() as place:
        from heedful.data.text_form import TextForm
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds
        from heedful.tasks.shared.embeddings import Embeds
        from heedful.tasks.shared.streaming import answer_stream

        loaded = load(*place)
    if not isinstance(loaded, Embeds):
        raise UserError(
            f"{asked.model} is a model that {loaded.recipe.rules.does}: vectors of texts come from classifiers and "
            "language models."
        )

    form = TextForm.of(loaded.recipe.data)

    def stream(lines: Iterable[str], *, ready: Callable[[], bool], name: str) -> "Iterator[tuple[str, Vectors]]":
        def embedded(texts: Sequence[str], first: int) -> "list[tuple[str, Vectors]]":
            form.check(texts, name, first)
            return list(zip(texts, loaded.embed(texts, pool=pool, layer=layer, markers=markers), strict=True))

        return answer_stream(lines, embedded, ready=ready)

    if output is None or suffix in _LINES:
        asked.write("embedding", entries, stream, _object)
        return
    import numpy as np
    from safetensors.numpy import save

    vectors = []
    with line_progress("embedding", entries, output) as progress:
        for entry in entries:
            for _, vector in stream(entry.lines(), ready=entry.ready, name=entry.name):
                vectors.append(vector)
                progress(1)
    array, file = np.stack(vectors) if vectors else loaded.embed([]), BytesIO()
    match suffix:
        case ".npy":
            np.save(file, array, allow_pickle=False)
        case ".npz":
            np.savez(file, vectors=array)
        case _:
            file.write(save({"vectors": array}))
    write_bytes(output, file.getvalue())


def _object(found: "tuple[str, Vectors]") -> Line:
    text, vector = found
    return {"text": text, "vector": [float(f"{number:.6g}") for number in vector.tolist()]}
