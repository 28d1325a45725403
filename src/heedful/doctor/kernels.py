"""What computes models in int8 on this machine: kernels, or PyTorch, and why."""

from dataclasses import dataclass

from heedful.native.library import find_library


@dataclass(frozen=True)
class Kernels:
    """The kernels of this machine, or why there are none."""

    instructions: str | None = None
    compiler: str | None = None  # with its flags
    library: str | None = None  # file in the cache
    missing: str | None = None  # a clause


def examine_kernels() -> Kernels:
    """Return the kernels, which are compiled if they are not in the cache."""
    found = find_library()
    if isinstance(found, str):
        return Kernels(missing=found)
    compiled = found.compiled
    return Kernels(compiled.instructions.title, compiled.compiler, str(compiled.path))
