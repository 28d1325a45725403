"""`heedful quantize`: write a model with its matrices in int8."""

from typing import Annotated

from heedful.base.files import expand_user
from heedful.cli import messages
from heedful.cli.options import ModelArgument, json_option, out_option
from heedful.cli.output import write_result
from heedful.cli.verbs.cache import show_size


def command(
    model: ModelArgument,
    out: Annotated[str, out_option(", as a model of its own")],
    as_json: Annotated[bool, json_option("the folder, and the bytes of both models' weights")] = False,
) -> None:
    """Write a model in int8: about a quarter of the size, and used in int8 on a CPU.

    Every verb reads it. What it computes in int8 has the same bits as what the original computes with --precision int8.
    """
    from heedful.models.bundle import WEIGHTS, base_of, read_recipe  # importing torch takes seconds
    from heedful.runs.quantizing import quantize
    from heedful.tasks.loading import next_command

    with messages.busy(f"quantizing {model}"):
        quantize(model, out)
    source = expand_user(model)
    if base_of(source) is not None:  # an adapter, which was quantized together with its base
        source = expand_user(read_recipe(source).train.start_from)
    before, after = ((folder / WEIGHTS).stat().st_size for folder in (source, expand_user(out)))
    following = next_command(expand_user(out))
    if as_json:
        write_result({"model": str(out), "quantized": str(model), "bytes": after, "before": before, "next": following})
        return
    print(f"{model} is in int8 in {out}: {show_size(after)}, where it had {show_size(before)}")
    messages.note(f"next: {following}")
