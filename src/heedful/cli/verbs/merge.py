"""`heedful merge BASE ADAPTER`: write a model of its own of a base and its adapter."""

from typing import Annotated

import typer

from heedful.base.files import expand_user
from heedful.cli import messages
from heedful.cli.options import json_option, out_option
from heedful.cli.output import write_result


def command(
    base: Annotated[str, typer.Argument(metavar="BASE", help="Folder of the model that was adapted.")],
    adapter: Annotated[str, typer.Argument(metavar="ADAPTER", help="Folder of the adapter, as train wrote it.")],
    out: Annotated[str, out_option(", as a model of its own")],
    as_json: Annotated[bool, json_option("the folder, its base and its adapter")] = False,
) -> None:
    """Write a model of its own: a base, with what an adapter adds to its matrices.

    It answers to the same bits as `--adapter` does, and every verb takes it, such as quantize, export and train.
    """
    from heedful.runs.merging import merge  # importing torch takes seconds
    from heedful.tasks.loading import next_command

    with messages.busy(f"merging {base} and {adapter}"):
        merge(base, adapter, out)
    following = next_command(expand_user(out))
    if as_json:
        write_result({"model": str(out), "base": str(base), "adapter": str(adapter), "next": following})
        return
    print(f"{base} with the adapter {adapter} is in {out}")
    messages.note(f"next: {following}")
