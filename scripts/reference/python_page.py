"""docs/reference/python.md: the public names of the package, with their signatures and docstrings."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar, get_args, get_origin

import heedful

_INTRODUCTION = """\
# Python reference

The public names of `import heedful`. Importing the package does not import torch; the first use does. What is not
listed here may change without notice.
"""
_WIDTH = 100


def python_page() -> str:
    """Return the page."""
    blocks = [_INTRODUCTION]
    for name in sorted(heedful.__all__, key=str.lower):
        if not name.startswith("__"):
            blocks += _entry(name, getattr(heedful, name))
    return "\n\n".join(block.strip("\n") for block in blocks) + "\n"


def _entry(name: str, thing: Any) -> Iterator[str]:
    yield f"## heedful.{name}"
    if inspect.isclass(thing):
        yield from _class(name, thing)
    elif callable(thing):
        yield _fenced(_signature(f"heedful.{name}", thing))
        yield _document(thing)
    else:
        yield f"`{thing!r}`"


def _class(name: str, thing: type) -> Iterator[str]:
    kind = "error" if issubclass(thing, BaseException) else "class"
    bases = [base.__name__ for base in thing.__bases__ if base is not object]
    yield _fenced(f"{kind} heedful.{name}" + (f"({', '.join(bases)})" if kind == "error" else ""))
    yield _document(thing)
    fields = [f"{key}: {text}" for key, text in _fields(thing)]
    if fields:
        yield _fenced("\n".join(fields))
    for key, member in _members(thing):
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(plain, property) or not inspect.isfunction(inspect.unwrap(plain)):
            yield f"### {name}.{key}"
        else:
            yield f"### {name}.{key}()"
            yield _fenced(_with_types(_signature(key, plain), thing))
        yield _document(getattr(plain, "fget", None) or getattr(plain, "func", None) or plain)


def _with_types(signature: str, thing: type) -> str:
    """Return the signature of a method with the types that a class chose for the variables of its bases."""
    chosen = _types(thing, {})
    return re.sub(r"\b\w+\b", lambda word: chosen.get(word[0], word[0]), signature) if chosen else signature


def _types(thing: type, known: Mapping[str, str]) -> dict[str, str]:
    """Return the types that a class has in the place of the variables of its bases; `known` are those of its own."""
    found: dict[str, str] = {}
    for base in vars(thing).get("__orig_bases__", thing.__bases__):
        origin, own = get_origin(base) or base, dict[str, str]()
        for variable, given in zip(getattr(origin, "__parameters__", ()), get_args(base), strict=False):
            name = getattr(given, "__name__", str(given))
            own[variable.__name__] = known.get(name, name) if isinstance(given, TypeVar) else name
        if origin is not Generic:
            found |= {**_types(origin, own), **own}
    return found


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class, those of its bases in this package included."""
    seen = set()
    for base in thing.__mro__:
        if not base.__module__.startswith("heedful"):
            continue
        for key, member in vars(base).items():
            described = callable(member) or isinstance(member, property | classmethod | staticmethod)
            described = described or type(member).__name__ == "cached_property"
            if not key.startswith("_") and key not in seen and described and not inspect.isclass(member):
                seen.add(key)
                yield key, member


def _fields(thing: type) -> Iterator[tuple[str, str]]:
    """Yield the declared attributes of a class with their types, and the comment or string that explains them."""
    for base in reversed(thing.__mro__):
        if not base.__module__.startswith("heedful") or not base.__doc__:
            continue
        try:
            source = textwrap.dedent(inspect.getsource(base))
        except OSError:
            continue
        lines = source.splitlines()
        for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
                default = f" = {ast.unparse(node.value)}" if node.value is not None else ""
                _, _, comment = lines[(node.end_lineno or node.lineno) - 1].partition("  # ")
                said = f"  # {comment}" if comment and not comment.startswith(("type:", "noqa")) else ""
                yield node.target.id, f"{ast.unparse(node.annotation)}{default}{said}"


def _signature(name: str, function: Any) -> str:
    """Return a signature as it is written in the source, one parameter per line where it is long."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    arguments = node.args
    first = (arguments.posonlyargs + arguments.args)[:1]
    if first and first[0].arg in ("self", "cls"):
        (arguments.posonlyargs or arguments.args).pop(0)
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{name}({ast.unparse(arguments)}){returned}"
    if len(line) <= _WIDTH:
        return line
    parts = "".join(f"    {part},\n" for part in _parts(arguments))
    return f"{name}(\n{parts}){returned}"


def _parts(arguments: ast.arguments) -> Iterator[str]:
    """Yield the parameters of a signature one by one."""
    plain = arguments.posonlyargs + arguments.args
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    yield from map(_part, plain, defaults)
    if arguments.vararg:
        yield f"*{ast.unparse(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    yield from map(_part, arguments.kwonlyargs, arguments.kw_defaults)
    if arguments.kwarg:
        yield f"**{ast.unparse(arguments.kwarg)}"


def _part(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default is not None else "")


def _document(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def _fenced(text: str) -> str:
    return f"```python\n{text}\n```"
