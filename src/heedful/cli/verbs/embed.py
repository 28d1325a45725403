"""`heedful embed MODEL [FILE|TEXT...]`: one vector per line, as JSON or as an array in a file."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from heedful.base.errors import UserError
from heedful.base.files import write_bytes
from heedful.cli.answering import AnsweringTexts, refuse_failed
from heedful.cli.answers import Answers
from heedful.cli.options import json_option, option, with_option_groups

if TYPE_CHECKING:
    from heedful.tasks.shared.embeddings import Vectors as Vector

_LINES: Final = ("", ".json", ".jsonl")  # suffixes of files that have one object per line
_TABLES: Final = (".csv", ".tsv")  # as well, of the rows of --data
_IMAGES: Final = 256  # that are in memory at once
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
    as_json: Annotated[bool, json_option("one object per line, as without it, unless --data is a table")] = False,
) -> None:
    """Write each text, or each image, as a vector: what a classifier, a regressor or a language model makes of it.

    Writes one JSON object per line, with `text` or `image`, and `vector`. A file of --output that ends in .npy, .npz or
    .safetensors holds an array of all vectors instead, texts x width, called `vectors` where it has a name.
    """
    output = asked.output
    suffix = "" if output is None else output.suffix.lower()
    lines = (*_LINES, *_TABLES) if asked.data else _LINES
    if suffix not in (*lines, *_ARRAYS):
        raise UserError(f"{output}: vectors are written as {', '.join((*lines[1:], *_ARRAYS))}, not as {suffix}.")
    if as_json and suffix in _ARRAYS:
        raise UserError(f"{output} holds an array, and --json writes one object per line: leave out one of them.")
    rules = asked.recipe.rules
    images = rules.inputs == ("image",)
    if rules.searches or (rules.images and not images):
        raise UserError(
            f"{asked.model} is a model that {rules.does}: vectors of texts come from classifiers and language models."
        )
    if images and (pool != "mean" or layer != -1 or markers):
        raise UserError("--pool, --layer and --markers apply to the tokens of texts, not to images: leave them out.")
    sources = asked.sources(False, roles=("image",) if images else ("text",))
    with asked.loading() as place:
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds

        loaded: Any = load(*place)
    answers = answers_of(loaded, **({} if images else {"pool": pool, "layer": layer, "markers": markers}))
    if output is None or suffix in lines:
        asked.write("embedding", sources, answers, as_json=as_json or asked.data is None)
        return
    import numpy as np

    vectors, failed = list[Any](), list[str]()
    nothing = loaded.embed([])
    for _, outcome in asked.each("embedding", sources, answers, failed):
        vectors.append(outcome.found if outcome.answered else np.zeros(nothing.shape[1], np.float32))
    write_bytes(output, _array(np.stack(vectors) if vectors else nothing, suffix))
    refuse_failed(failed)


def answers_of(model: Any, **options: Any) -> "Answers[Vector]":
    """Return how a model writes texts or images as vectors; `options` are those of `embed`."""
    from heedful.data.text_form import TextForm
    from heedful.tasks.shared.streaming import answer_stream, empty_answer

    images = model.recipe.rules.images
    form = TextForm.of(model.recipe.data)

    def stream(
        given: Iterable[Any],
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
        refused: Callable[[UserError], None] | None = None,
    ) -> "Iterator[Vector]":
        def embedded(part: Sequence[Any], first: int) -> "list[Vector]":
            if not images:
                form.check(part, name, first)
            return list(model.embed(part, **options))

        tell = None if refused is None else empty_answer(refused, model.embed([]))
        return answer_stream(given, embedded, ready=ready, refused=tell, **({"chunk": _IMAGES} if images else {}))

    def fields(vector: "Vector") -> dict[str, Any]:
        return {"vector": [float(f"{number:.6g}") for number in vector.tolist()]}

    return Answers(
        ("image",) if images else ("text",),
        (lambda values, where: getattr(values["image"], "source", values["image"])) if images else _text,
        stream,
        fields,
        ("vector",),
        lambda vector, given: " ".join(map(str, fields(vector)["vector"])),
        takes=("refused",) if images else ("ready", "name"),
    )


def _text(values: Mapping[str, Any], where: str) -> str:
    text = values["text"]
    return text if isinstance(text, str) else " ".join(text)


def _array(array: Any, suffix: str) -> bytes:
    """Return an array as the content of a file."""
    import numpy as np
    from safetensors.numpy import save

    file = BytesIO()
    match suffix:
        case ".npy":
            np.save(file, array, allow_pickle=False)
        case ".npz":
            np.savez(file, vectors=array)
        case _:
            file.write(save({"vectors": array}))
    return file.getvalue()
