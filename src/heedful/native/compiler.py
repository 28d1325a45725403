"""Compiles `kernels.c` when it is first needed, for the instructions of this CPU, into the cache.

The cache keeps a library per source, compiler and flags, in a folder that only this user can write to. Nothing else is
compiled or loaded. `$HEEDFUL_NATIVE` chooses other instructions, or `off`: PyTorch then computes the same, more slowly.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from heedful.base.errors import MachineError, UserError
from heedful.data.cache import cache_folder, cached, key_of

SOURCE: Final = Path(__file__).with_name("kernels.c")
VARIABLE: Final = "HEEDFUL_NATIVE"
OFF: Final = "off"
_LIBRARY: Final = "kernels.so"
_SECONDS: Final = 120.0  # that a compiler may take
_COMPILERS: Final = ("cc", "gcc", "clang")
_FLAGS: Final = ("-O3", "-std=gnu11", "-shared", "-fPIC", "-Wall", "-Wno-unknown-pragmas", "-Wno-psabi")


@dataclass(frozen=True)
class Instructions:
    """A set of instructions: how it is called, the features of a CPU that has it, and how to compile for it."""

    title: str
    features: frozenset[str]  # as /proc/cpuinfo names them
    flags: tuple[str, ...]


_AVX2: Final = frozenset({"avx2", "fma", "f16c", "bmi2"})
_AVX512: Final = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}
INSTRUCTIONS: Final[Mapping[str, Instructions]] = {  # the fastest first
    "amx": Instructions(
        "AMX and AVX-512 with VNNI",
        _AVX512 | {"amx_tile", "amx_int8"},
        ("-march=x86-64-v4", "-mavx512vnni", "-mamx-tile", "-mamx-int8"),
    ),
    "vnni": Instructions("AVX-512 with VNNI", _AVX512, ("-march=x86-64-v4", "-mavx512vnni")),
    "avx2": Instructions("AVX2", _AVX2, ("-march=x86-64-v3",)),
}


class CannotCompileError(Exception):
    """Why there is no library; the message is a clause."""


@dataclass(frozen=True)
class Compiled:
    """A library for some instructions, and what made it."""

    path: Path
    instructions: Instructions
    compiler: str


def compile_kernels(more: tuple[str, ...] = (), progress: Callable[[str], None] = lambda line: None) -> Compiled:
    """Return the library for this CPU, compiled if it is not in the cache; `more` are further flags."""
    instructions = choose_instructions()
    compiler = _find_compiler()
    content = {"source": hashlib.sha256(SOURCE.read_bytes()).hexdigest(), "compiler": version_of(compiler)}
    last: CannotCompileError | None = None
    for threads in (("-fopenmp",), ()):  # a compiler without OpenMP makes a library that uses one core
        flags = (*_FLAGS, *instructions.flags, *threads, *more)
        folder = cache_folder() / "native" / key_of({**content, "flags": flags})

        def build(staged: Path, flags: tuple[str, ...] = flags) -> None:
            _compile([compiler, *flags, str(SOURCE), "-o", str(staged / _LIBRARY), "-lm"])

        try:
            path = cached(folder, _load, build, progress)
        except CannotCompileError as error:
            last = error
            continue
        except (MachineError, UserError) as error:
            raise CannotCompileError(f"the compiled kernels cannot be kept: {error}") from error
        return Compiled(path, instructions, " ".join((compiler, *flags)))
    assert last is not None
    raise last


def choose_instructions() -> Instructions:
    """Return the fastest instructions that this CPU has, or those that `$HEEDFUL_NATIVE` names."""
    wanted = os.environ.get(VARIABLE) or "auto"
    if wanted not in ("auto", OFF, *INSTRUCTIONS):
        names = ", ".join(f"`{name}`" for name in ("auto", *INSTRUCTIONS))
        raise UserError(f"`${VARIABLE}` is `{wanted}`: it must be one of {names} or `{OFF}`.")
    if wanted == OFF:
        raise CannotCompileError(f"`${VARIABLE}` is `{OFF}`")
    there = cpu_features()
    for name, instructions in INSTRUCTIONS.items():
        if instructions.features <= there and wanted in ("auto", name):
            return instructions
    if wanted != "auto":
        raise CannotCompileError(f"this CPU does not have {INSTRUCTIONS[wanted].title}, which `${VARIABLE}` asks for")
    raise CannotCompileError("this CPU has no AVX2")


@cache
def cpu_features() -> frozenset[str]:
    """Return the features of this machine's CPU, where the system lists them."""
    if not sys.platform.startswith("linux"):
        return frozenset()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


def _find_compiler() -> str:
    """Return the path of a C compiler."""
    for name in (os.environ.get("CC") or "", *_COMPILERS):
        path = shutil.which(name) if name else None
        if path is not None and Path(path).is_absolute():  # never one of the current folder
            return path
    raise CannotCompileError("no C compiler was found (cc, gcc or clang)")


@cache
def version_of(compiler: str) -> str:
    """Return the first line that a compiler says of itself."""
    return (_run([compiler, "--version"]).splitlines() or [""])[0]


def _compile(command: list[str]) -> None:
    _run(command)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a compiler of the system, with flags of ours
            command, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotCompileError(f"{command[0]} could not be run ({error})") from error
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "error" in line), "no reason given")
        raise CannotCompileError(f"{command[0]} could not compile the kernels ({said.strip()})")
    return done.stdout


def _load(folder: Path) -> Path | None:
    path = folder / _LIBRARY
    return path if path.is_file() else None
