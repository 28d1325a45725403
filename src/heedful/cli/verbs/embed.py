"""`heedful embed MODEL [FILE|TEXT...]`: one vector per line, as JSON or as an array in a file."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from heedful.base.errors import UserError
from heedful.base.files import write_bytes
from heedful.cli.answering.asked import AnsweringTexts, refuse_failed
from heedful.cli.answering.cuts import Cuts
from heedful.cli.options import ToOption, json_option, option, with_option_groups
from heedful.tasks.shared.answering.answers import Answers

if TYPE_CHECKING:
    from heedful.config.recipe import Recipe
    from heedful.tasks.shared.embeddings import Vectors as Vector

_LINES: Final = ("", ".json", ".jsonl")  # suffixes of files that have one object per line
_TABLES: Final = (".csv", ".tsv")  # as well, of the rows of --data
_IMAGES: Final = 256  # that are in memory at once
_ARRAYS: Final = (".npy", ".npz", ".safetensors")


@with_option_groups
def command(
    asked: AnsweringTexts,
    pool: Annotated[
        Literal["mean", "first", "max", "last", "context"] | None,
        option(
            "How the vectors of tokens become one: mean, maximum, that of <s>, the last, or the context that a "
            "decoder without attention gets (default: mean, or the context where there is one)."
        ),
    ] = None,
    layer: Annotated[int, option("Layer, counted from 1; 0 is the embedding, -1 the last, of a Transformer.")] = -1,
    markers: Annotated[bool, option("Count <s> and </s> as tokens.", "--markers")] = False,
    to: ToOption = None,
    as_json: Annotated[bool, json_option("one object per line, as without it, unless --data is a table")] = False,
) -> None:
    """Write each text, or each image, as a vector: what a model that reads it makes of it.

    Translators and parsers give the vectors of sentences that they read.

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
    if asked.shard and suffix in _ARRAYS:
        raise UserError(f"{output} holds an array, which parts cannot be joined to: leave out --shard, or {suffix}.")
    rules = asked.recipe.rules
    images = rules.inputs == ("image",)
    if "image" in rules.inputs and (rules.searches or not images):
        raise UserError(
            f"{asked.model} is a model that {rules.does}: vectors of texts come from models of texts, and those of "
            "images from their classifiers and regressors."
        )
    if images and (pool or layer != -1 or markers):
        raise UserError("--pool, --layer and --markers apply to the tokens of texts, not to images: leave them out.")
    if to is not None and rules.inputs != ("source",):
        raise UserError(f"--to is for translators, which {asked.model} is not: leave it out.")
    sources = asked.sources(False, roles=_roles(asked.recipe))
    with asked.loading(sources) as place:
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds

        loaded: Any = load(*place, adapter=asked.adapter)
    cuts = Cuts()
    of_texts = {} if images else {"pool": pool, "layer": layer, "markers": markers, "to": to}
    answers = answers_of(loaded, cuts, **of_texts)
    if output is None or suffix in lines:
        asked.write("embedding", sources, answers, as_json=as_json or asked.data is None)
        cuts.tell(asked.recipe)
        return
    import numpy as np

    vectors, failed = list[Any](), list[str]()
    nothing = loaded.embed([])
    for _, outcome in asked.each("embedding", sources, answers, failed):
        vectors.append(outcome.found if outcome.answered else np.zeros(nothing.shape[1], np.float32))
    write_bytes(output, _array(np.stack(vectors) if vectors else nothing, suffix))
    cuts.tell(asked.recipe)
    refuse_failed(failed)


def answers_of(model: Any, cuts: Cuts, **options: Any) -> "Answers[Vector]":
    """Return how a model writes texts or images as vectors, and counts `cuts`; `options` are those of `embed`."""
    from heedful.tasks.shared.answering.streaming import answer_stream, empty_answer

    images = model.recipe.rules.images

    def stream(
        given: Iterable[Any],
        ready: Callable[[], bool] = lambda: True,
        name: str = "texts",
        refused: Callable[[UserError], None] | None = None,
    ) -> "Iterator[Vector]":
        def embedded(part: Sequence[Any], first: int) -> "list[Vector]":
            cuts.texts += len(part)
            place = {} if images else {"name": name, "first": first, "tell_cut": cuts.add}
            return list(model.embed(part, **place, **options))

        tell = None if refused is None else empty_answer(refused, model.embed([]))
        return answer_stream(given, embedded, ready=ready, refused=tell, **({"chunk": _IMAGES} if images else {}))

    def fields(vector: "Vector") -> dict[str, Any]:
        return {"vector": [float(f"{number:.6g}") for number in vector.tolist()]}

    roles = _roles(model.recipe)
    return Answers(
        roles,
        (lambda values, where: getattr(values["image"], "source", values["image"])) if images else _text(*roles),
        stream,
        fields,
        ("vector",),
        lambda vector, given: " ".join(map(str, fields(vector)["vector"])),
        takes=("refused",) if images else ("ready", "name"),
        called={"source": "text"},
    )


def _roles(recipe: "Recipe") -> tuple[str]:
    """Return the role of what is written as a vector."""
    return next((role,) for role in ("image", "source", "text") if role in recipe.rules.inputs)


def _text(role: str) -> Callable[[Mapping[str, Any], str], str]:
    def read(values: Mapping[str, Any], where: str) -> str:
        text = values[role]
        return text if isinstance(text, str) else " ".join(text)

    return read


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
