"""What a disk may hold after the power was lost: a record of file operations, and the states that it could leave.

Model (as of ALICE, Pillai et al. 2014, and CrashMonkey, Mohan et al. 2018, at its weakest):

    data of a file        is on the disk once the file is synced; before that any part of it may be, block by block
    an entry of a folder  is on the disk once that folder is synced; before that any of its changes may be, in any
                          order. A rename is one change: both names or none
    everything else       nothing is implied: syncing a file does not write its name, syncing a folder writes neither
                          its own name nor what is in its files
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, Literal, NamedTuple

BLOCK: Final = 512  # bytes that a disk writes whole
_RECENT: Final = 8  # pending operations that are left out, or kept, one by one: the last ones
ROOT: Final = 0


class Entries(NamedTuple):
    """Changes of folders that happen together: the node of a name, or None where the name is removed."""

    changes: tuple[tuple[int, str, int | None], ...]  # folder, name, node

    @property
    def touches(self) -> frozenset[int]:
        """Nodes whose sync writes this."""
        return frozenset(folder for folder, _, _ in self.changes)


class Write(NamedTuple):
    """Bytes that are written into a file."""

    node: int
    at: int
    data: bytes

    @property
    def touches(self) -> frozenset[int]:
        """Nodes whose sync writes this."""
        return frozenset({self.node})


class Cut(NamedTuple):
    """A file gets another length."""

    node: int
    size: int

    @property
    def touches(self) -> frozenset[int]:
        """Nodes whose sync writes this."""
        return frozenset({self.node})


class Sync(NamedTuple):
    """A file or folder is synced."""

    node: int


class Mark(NamedTuple):
    """What the program has done so far: not an operation."""

    name: str
    step: int


Change = Entries | Write | Cut
Operation = Change | Sync | Mark
Extent = Literal["whole", "zeros", "torn"]  # of a write that has reached the disk


@dataclass
class Tree:
    """What a disk holds: files, folders and links by the number of their node."""

    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    files: dict[int, bytes] = field(default_factory=dict)
    links: dict[int, str] = field(default_factory=dict)

    def copy(self) -> "Tree":
        """Return a tree that can be changed."""
        return Tree({node: dict(names) for node, names in self.folders.items()}, dict(self.files), self.links)

    def apply(self, change: Change, extent: Extent = "whole", chance: Random | None = None) -> None:
        """Write a change to the disk."""
        match change:
            case Entries(changes):
                for folder, name, node in changes:
                    names = self.folders.setdefault(folder, {})
                    if node is None:
                        names.pop(name, None)
                    else:
                        names[name] = node
            case Cut(node, size):
                self.files[node] = self.files.get(node, b"")[:size].ljust(size, b"\0")
            case Write(node, at, data):
                before = self.files.get(node, b"")
                if extent == "zeros":  # the length is written before the blocks are
                    data = bytes(len(data))
                elif extent == "torn":
                    data = _torn(data, before[at : at + len(data)], chance or Random(0))
                self.files[node] = before[:at].ljust(at, b"\0") + data + before[at + len(data) :]

    def find(self, path: Sequence[str]) -> int | None:
        """Return the node at a path."""
        node: int | None = ROOT
        for name in path:
            node = self.folders.get(node, {}).get(name) if node is not None else None
        return node

    def listing(self) -> dict[str, bytes | str | None]:
        """Return what is at each path: bytes of a file, the target of a link, None for a folder."""
        found: dict[str, bytes | str | None] = {}

        def walk(folder: int, before: str) -> None:
            for name, node in sorted(self.folders.get(folder, {}).items()):
                path = f"{before}{name}"
                if node in self.folders:
                    found[path] = None
                    walk(node, f"{path}/")
                else:
                    found[path] = self.links[node] if node in self.links else self.files.get(node, b"")

        walk(ROOT, "")
        return found

    def put(self, folder: Path) -> None:
        """Make real files of it in a new folder."""
        folder.mkdir(parents=True)
        for name, content in self.listing().items():
            path = folder / name
            if content is None:
                path.mkdir()
            elif isinstance(content, str):
                path.symlink_to(content)
            else:
                path.write_bytes(content)


def _torn(data: bytes, old: bytes, chance: Random) -> bytes:
    """Return data of which only some blocks have been written."""
    old = old.ljust(len(data), b"\0")
    blocks = range(0, len(data), BLOCK)
    return b"".join((data if chance.random() < 0.5 else old)[start : start + BLOCK] for start in blocks)


@dataclass
class Log:
    """All operations on the files under a folder, whose content at the beginning is on the disk."""

    root: Path
    operations: list[Operation] = field(default_factory=list)
    live: Tree = field(default_factory=Tree)  # as the program sees it
    _nodes: int = ROOT

    def __post_init__(self) -> None:
        for path in sorted(self.root.rglob("*")):
            self._add(str(path), {} if path.is_dir() else path.read_bytes())
        for operation in self.operations:
            assert isinstance(operation, Entries | Write), operation
        self.operations.append(Sync(-1))  # everything before this is the beginning
        self.begin = len(self.operations)

    def _split(self, path: str) -> tuple[int, str]:
        *parents, name = Path(path).relative_to(self.root).parts
        folder = self.live.find(parents)
        assert folder is not None, path
        return folder, name

    def node(self, path: str) -> int | None:
        """Return the node at a path."""
        return self.live.find(Path(path).relative_to(self.root).parts)

    def _do(self, operation: Operation) -> None:
        self.operations.append(operation)
        if isinstance(operation, Entries | Write | Cut):
            self.live.apply(operation)

    def _add(self, path: str, content: bytes | str | dict[str, int]) -> int:
        """Add a file, a link or a folder."""
        self._nodes += 1
        if isinstance(content, dict):
            self.live.folders[self._nodes] = {}
        elif isinstance(content, str):
            self.live.links[self._nodes] = content
        self._do(Entries(((*self._split(path), self._nodes),)))
        if isinstance(content, bytes) and content:
            self._do(Write(self._nodes, 0, content))
        return self._nodes

    def opened(self, path: str, cut: bool) -> int:
        """Return the node of a file that is opened to be written; it may be new."""
        node = self.node(path)
        if node is None:
            return self._add(path, b"")
        if cut and self.live.files.get(node):
            self._do(Cut(node, 0))
        return node

    def made(self, path: str, target: str | None = None) -> None:
        """Add a folder, or a link to a target."""
        self._add(path, {} if target is None else target)

    def removed(self, path: str) -> None:
        """Remove a name."""
        self._do(Entries(((*self._split(path), None),)))

    def renamed(self, old: str, new: str) -> None:
        """Give another name to what is at a path."""
        node = self.node(old)
        self._do(Entries(((*self._split(old), None), (*self._split(new), node))))

    def linked(self, old: str, new: str) -> None:
        """Give a further name to what is at a path."""
        self._do(Entries(((*self._split(new), self.node(old)),)))

    def swapped(self, first: str, second: str) -> None:
        """Exchange what is at two paths."""
        nodes = self.node(first), self.node(second)
        self._do(Entries(((*self._split(first), nodes[1]), (*self._split(second), nodes[0]))))

    def written(self, node: int, at: int, data: bytes) -> None:
        """Write into a file."""
        self._do(Write(node, at, data))

    def cut(self, node: int, size: int) -> None:
        """Change the length of a file."""
        self._do(Cut(node, size))

    def synced(self, path: str) -> None:
        """Sync what is at a path."""
        node = ROOT if path == str(self.root) else self.node(path)
        if node is not None:  # what was removed cannot be lost
            self._do(Sync(node))

    def mark(self, name: str, step: int) -> None:
        """Note what the program has done."""
        self._do(Mark(name, step))

    def versions(self, path: str) -> list[tuple[int, bytes]]:
        """Return what a file has held, each with the number of operations after which it did."""
        tree, found = Tree({node: {} for node in self.live.folders}), list[tuple[int, bytes]]()
        for number, operation in enumerate(self.operations, start=1):
            if not isinstance(operation, Entries | Write | Cut):
                continue
            tree.apply(operation)
            node = tree.find(path.split("/"))
            data = b"" if node is None else tree.files.get(node, b"")
            if node is not None and (not found or found[-1][1] != data):
                found.append((number, data))
        return found

    def describe(self, number: int) -> str:
        """Say what the last of a number of operations was."""
        match self.operations[number - 1]:
            case Entries(changes):
                return "; ".join(f"{name} -> {node}" for _, name, node in changes)
            case Write(node, at, data):
                return f"{len(data)} bytes to {node} at {at}"
            case other:
                return str(other)

    def differences(self) -> list[str]:
        """Return the paths where a replay of everything is not what the folder really holds."""
        real: dict[str, bytes | str | None] = {}
        for path in self.root.rglob("*"):
            name = str(path.relative_to(self.root))
            real[name] = str(path.readlink()) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
        replayed = self.live.listing()
        return sorted(
            name
            for name in real.keys() | replayed.keys()
            if (name in real) != (name in replayed) or real[name] != replayed[name]
        )


class State(NamedTuple):
    """What a disk may hold after a number of operations, and what had been done by then."""

    tree: Tree
    after: int  # operations
    how: str  # which pending changes have reached the disk
    done: dict[str, int]  # marks: the last step of each name


def states(log: Log, seed: str, draws: int = 4) -> Iterator[State]:
    """Yield the states that a loss of power may leave, after each operation: many are equal.

    Of the pending changes all reach the disk, or none; each prefix of the last ones; all but one, and only one; all
    names without their data, with zeros instead, and with some blocks; and `draws` random choices.
    """
    disk, pending, done = Tree(), list[Change](), dict[str, int]()
    disk.links = log.live.links
    for number, operation in enumerate(log.operations, start=1):
        match operation:
            case Sync(-1):
                for change in pending:
                    disk.apply(change)
                pending.clear()
            case Sync(node):
                for change in pending:
                    if node in change.touches:
                        disk.apply(change)
                pending = [change for change in pending if node not in change.touches]
            case Mark(name, step):
                done = {**done, name: step}
            case _:
                if isinstance(operation, Entries):
                    for _, _, entry in operation.changes:
                        if entry is not None and entry in log.live.folders:
                            disk.folders.setdefault(entry, {})
                pending.append(operation)
        if number < log.begin:
            continue
        chance = Random(f"{seed}:{number}")
        for how, chosen in _choices(pending, chance, draws):
            tree = disk.copy()
            for change, extent in chosen:
                tree.apply(change, extent, chance)
            yield State(tree, number, how, done)


Chosen = list[tuple[Change, Extent]]


def _choices(pending: list[Change], chance: Random, draws: int) -> Iterator[tuple[str, Chosen]]:
    """Yield which pending changes have reached the disk, and how much of each."""
    whole: Chosen = [(change, "whole") for change in pending]
    yield "none", []
    if not pending:
        return
    yield "all", whole
    first = max(0, len(whole) - _RECENT)
    for number in range(first, len(whole)):
        yield "prefix", whole[:number]
        yield "all but one", whole[:number] + whole[number + 1 :]
        yield "only one", [whole[number]]
    names: Chosen = [(change, "whole") for change in pending if isinstance(change, Entries)]
    if len(names) < len(whole):
        yield "names without data", names
        yield "zeros", [(change, "zeros") for change in pending]
        yield "torn", [(change, "torn") for change in pending]
    extents: tuple[Extent, ...] = ("whole", "zeros", "torn")
    for _ in range(draws):
        yield "random", [(change, chance.choice(extents)) for change in pending if chance.random() < 0.5]
