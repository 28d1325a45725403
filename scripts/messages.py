"""Lists the messages that users can see, and those that tests assert, from the syntax alone: nothing is run.

    python scripts/messages.py                       # every message that src raises, with a test that asserts its text
    python scripts/messages.py --unasserted          # those without one
    python scripts/messages.py --asserted            # every text of src that tests assert
    python scripts/messages.py --repeated            # messages whose text is asserted in more than one place
    python scripts/messages.py --against REVISION    # texts that tests asserted in a revision of git, and do not now

A message is the first argument of an error that src raises, or that one of its functions returns; `{}` is a part that
varies. A test asserts a message where one of its strings has 20 or more characters in common with it that no other
message has, wherever the string is: in `match=`, in a comparison, in a table. Texts that are shorter count where they
are part of a message as a whole. Regular expressions count as what they match.
"""

import argparse
import ast
import re
import subprocess
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
OWN_ERRORS = {"HeedfulError", "UserError", "MachineError", "Stopped"}
ERRORS = {*OWN_ERRORS, "ValueError", "TypeError"}
ANSWERS = {"Refused"}  # of the server: a status, then the message
RUN = 20  # characters in common that make two texts one
SHORT = 8  # characters that are too few to know a message by
HOLE = "{}"


@dataclass(frozen=True, order=True)
class Text:
    """A string of a file, with `{}` for its parts that vary, and where it begins."""

    path: str
    line: int
    text: str

    @property
    def where(self) -> str:
        """The place as editors read it."""
        return f"{self.path}:{self.line}"

    def runs(self, length: int = RUN) -> set[str]:
        """Return every stretch of so many characters without a part that varies."""
        return {
            part[start : start + length] for part in self.text.split(HOLE) for start in range(len(part) - length + 1)
        }


# --- reading strings --------------------------------------------------------------------------------------------------


def alternatives(node: ast.expr | None, names: Mapping[str, Sequence[ast.expr]]) -> list[str]:
    """Return the texts that an expression can be, with `{}` where the syntax does not tell."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in values)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [one + other for one in alternatives(left, names) for other in alternatives(right, names)]
        case ast.IfExp(body=body, orelse=other):
            return alternatives(body, names) + alternatives(other, names)
        case ast.Name(id=name) if name in names:
            rest = {other: values for other, values in names.items() if other != name}
            return [text for value in names[name] for text in alternatives(value, rest)]
        case _:
            return [HOLE]


def written(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every string of a tree at its whole length, with its line; docstrings and other statements do not count."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
            texts = alternatives(node, {})
            if texts != [HOLE]:
                yield from ((node.lineno, text) for text in texts)
                if isinstance(node, ast.Constant):
                    continue
                waiting += [part for part in ast.walk(node) if isinstance(part, ast.FormattedValue)]
                continue
        waiting += ast.iter_child_nodes(node)


def matched(text: str) -> str:
    """Return what a text or regular expression matches: no escapes and anchors, `{}` for `...` and other open parts."""
    text = re.sub(r'(?<!")\.\.\.(?!")', HOLE, text)
    text = re.sub(r"(?<!\\)\.[*+]\??|\\[dwS][*+]?|(?<!\\)\[[^\]]*\][*+]", HOLE, text)
    return re.sub(r"\\([^\w\s])", r"\1", text.removeprefix("^").removesuffix("$"))


def files(root: Path, folder: str, word: str = "") -> Iterator[tuple[str, ast.Module]]:
    """Yield the Python files below a folder that contain a word, parsed."""
    for path in sorted((root / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if word in text:
            yield str(path.relative_to(root)), ast.parse(text)


# --- messages of src --------------------------------------------------------------------------------------------------


def name_of(node: ast.expr) -> str:
    """Return the last word of a dotted name, or an empty text for what has none."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def messages(root: Path) -> list[Text]:
    """Return the texts that src raises, in order, without those that only say where another text applies: `{}: {}`."""
    raised = {text for path, tree in files(root, "src") for text in _raised(path, tree)}
    return sorted(text for text in raised if max(map(len, text.text.split(HOLE))) > SHORT)


def _raised(path: str, tree: ast.Module) -> Iterator[Text]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    makers = {made.name for made in functions if made.returns and name_of(made.returns) in ERRORS}
    shared = _assigned(tree.body)
    for function in functions:
        nodes = list(ast.walk(function))
        names: dict[str, list[ast.expr]] | None = None
        for node in nodes:
            match node:
                case ast.Raise(exc=ast.Call() as call) if name_of(call.func) in ERRORS:
                    first = call.args[:1]
                case ast.Call() as call if name_of(call.func) in OWN_ERRORS:
                    first = call.args[:1]
                case ast.Call() as call if name_of(call.func) in ANSWERS:
                    first = call.args[1:2]
                case ast.Call() as call if name_of(call.func) in makers:
                    first = [given for given in call.args if isinstance(given, ast.Constant | ast.JoinedStr)]
                case _:
                    continue
            names = names or {**shared, **_assigned(nodes)}
            for given in first:
                yield from (Text(path, given.lineno, text) for text in alternatives(given, names))


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    found = defaultdict(list)
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name].append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name].append(value)
    return found


# --- texts of tests ---------------------------------------------------------------------------------------------------


class Asserted:
    """The texts of tests that are texts of src too."""

    def __init__(self, root: Path) -> None:
        shown = [Text(path, line, text) for path, tree in files(root, "src") for line, text in written(tree)]
        runs = {run for text in shown for run in text.runs() if " " in run}
        self.texts: list[Text] = []
        self.others: list[Text] = []
        for path, tree in files(root, "tests"):
            for line, raw in written(tree):
                text = Text(path, line, matched(raw))
                if any(run in runs for run in text.runs()):
                    self.texts.append(text)
                else:
                    self.others.append(text)
            self.texts += [
                Text(path, given.lineno, matched(raw))
                for given in _matches(tree)
                for raw in alternatives(given, {})
                if raw != HOLE
            ]
        self.texts = sorted(set(self.texts))

    def places(self, messages: Sequence[Text]) -> dict[Text, list[Text]]:
        """Return for each message the texts that assert it."""
        occurring = Counter(
            run for text in {message.text: message for message in messages}.values() for run in text.runs()
        )
        index = defaultdict(list)
        for text in self.texts:
            for run in text.runs():
                index[run].append(text)
        found = {}
        for message in messages:
            fewest = min((occurring[run] for run in message.runs()), default=0)
            own = [run for run in message.runs() if occurring[run] == fewest]
            found[message] = sorted({text for run in own for text in index[run]})
            if not found[message]:
                parts = [part.strip() for part in message.text.split(HOLE)]
                longest = max(parts, key=len)
                found[message] = [
                    text
                    for text in (*self.texts, *self.others)
                    if (SHORT < len(text.text) < RUN and any(text.text in part for part in parts))
                    or (len(longest) < RUN and longest in text.text)
                ]
        return found


def _matches(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the texts that `pytest.raises(..., match=...)`, `refuses(...)` and rows of refusals name themselves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in ("refuses", "Refusal"):
            yield from node.args[:1] if name_of(node.func) == "refuses" else node.args[2:3]
        if isinstance(node, ast.Call) and name_of(node.func) == "raises":
            for keyword in node.keywords:
                match keyword:
                    case ast.keyword(arg="match", value=ast.Call(args=[given])):  # re.escape(...)
                        yield given
                    case ast.keyword(arg="match", value=given):
                        yield given


def repeated(root: Path, shared: int = 40) -> list[list[Text]]:
    """Return the groups of strings of tests that have so many characters of one message in common."""
    holders = defaultdict(set)
    for text in {message.text: message for message in messages(root)}.values():
        for run in text.runs(shared):
            holders[run].add(text)
    asserting: dict[str, set[Text]] = {run: set() for run, texts in holders.items() if len(texts) == 1}
    for path, tree in files(root, "tests"):
        for line, raw in written(tree):
            text = Text(path, line, matched(raw))
            for run in text.runs(shared) & asserting.keys():
                asserting[run].add(text)
    groups = {frozenset(texts) for texts in asserting.values() if len(texts) > 1}
    return sorted(sorted(group) for group in groups if not any(group < other for other in groups))


# --- two revisions ----------------------------------------------------------------------------------------------------


def unpack(revision: str, folder: Path) -> None:
    """Write src and tests of a revision into a folder."""
    packed = subprocess.run(["git", "archive", revision, "src", "tests"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")


def lost(before: Asserted, now: Asserted, raised: Sequence[Text]) -> list[Text]:
    """Return the texts that were asserted and are not now: neither as such, nor as a message that has a test now."""
    tested = {message for message, places in now.places(raised).items() if places}
    kept = {text for message, places in before.places(raised).items() if message in tested for text in places}
    everything = "\n".join(text.text for text in (*now.texts, *now.others))
    gone = {text.text: text for text in before.texts if text not in kept and text.text not in everything}
    return sorted(
        text
        for text in gone.values()
        if HOLE not in text.text or not re.search(".*".join(map(re.escape, text.text.split(HOLE))), everything)
    )


def print_lost(revision: str) -> None:
    """Print what a revision asserted and the tree does not, each with the nearest new text, and the counts of both."""
    now, raised = Asserted(ROOT), messages(ROOT)
    with TemporaryDirectory() as folder:
        unpack(revision, Path(folder))
        then, raised_then = Asserted(Path(folder)), messages(Path(folder))
    gone = lost(then, now, raised)
    known = {text.text for text in then.texts}
    new = sorted({text.text for text in now.texts if text.text not in known})
    for text in gone:
        print(f"- {text.where}: {text.text}")
        print("".join(f"+ {near}\n" for near in get_close_matches(text.text, new, n=1, cutoff=0.5)))
    print(f"{revision}: {_covered(then.places(raised_then))}.")
    print(f"now: {_covered(now.places(raised))}.")
    print(f"{len(gone):,} texts of {revision} are not asserted any more; the nearest new text follows each.")


def _covered(places: Mapping[Text, Sequence[Text]]) -> str:
    return f"{sum(map(bool, places.values())):,} of {len(places):,} messages have a test"


# --- command line -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Print what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--unasserted", action="store_true", help="messages without a test")
    choice.add_argument("--asserted", action="store_true", help="texts that tests assert")
    choice.add_argument("--repeated", action="store_true", help="messages asserted in more than one place")
    choice.add_argument("--against", metavar="REVISION", help="texts that are not asserted any more")
    arguments = parser.parse_args()
    if arguments.repeated:
        groups = repeated(ROOT)
        for group in groups:
            print("\n".join(f"{text.where}: {text.text}" for text in group), end="\n\n")
        print(f"{len(groups):,} messages are asserted in more than one place.")
    elif arguments.against:
        print_lost(arguments.against)
    elif arguments.asserted:
        print("\n".join(sorted({text.text for text in Asserted(ROOT).texts})))
    else:
        places = Asserted(ROOT).places(messages(ROOT))
        for message, asserting in places.items():
            if not (arguments.unasserted and asserting):
                print(f"{message.where}: {message.text}\n    {asserting[0].where if asserting else 'no test'}")
        print(f"{_covered(places)}.")


if __name__ == "__main__":
    main()
