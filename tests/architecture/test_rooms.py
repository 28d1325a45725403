"""The laws of the source tree: small rooms, short files, no circles, one folder per task."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.import_graph import Import, circles, modules, read_imports

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
MOST_ENTRIES = 14
MOST_LINES = 400

ROOMY = {
    "src/heedful": "the root: the rooms themselves, and the leaves",
    "src/heedful/cli/verbs": "one file per verb",
    "tests/cli/verbs": "one file per verb",
    "tests/unit": "mirrors the root",
    "tests/golden/bundles": "one folder per old model",
}
LONG = {
    "src/heedful/nn/kernels/": "kernels: the passes of one equation, in one file",
    "src/heedful/data/builtin/english_spanish_lexicon.py": "data: the words of the built-in corpus",
}


def _folders() -> Iterator[Path]:
    for top in (SOURCE / "heedful", ROOT / "tests", ROOT / "docs"):
        yield from (path for path in [top, *top.rglob("*")] if path.is_dir() and "__pycache__" not in path.parts)


def _files() -> Iterator[Path]:
    for top in ("src", "tests", "benchmarks", "scripts"):
        yield from sorted((ROOT / top).rglob("*.py"))


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    """All imports, but those of a command's types alone: they postpone torch until the command runs."""
    found = read_imports(SOURCE, "heedful")
    postponed = {i for i in found if i.type_checking and i.importer.startswith("heedful.cli.verbs.")}
    return [i for i in found if i not in postponed]


def test_a_folder_holds_no_more_than_a_reader_takes_in_at_once() -> None:
    sizes = {
        str(folder.relative_to(ROOT)): len([path for path in folder.iterdir() if path.name != "__pycache__"])
        for folder in _folders()
    }
    crowded = {name: size for name, size in sizes.items() if size > MOST_ENTRIES and name not in ROOMY}
    assert not crowded
    assert not ROOMY.keys() - sizes.keys(), "an exception for a folder that is not there any more"


def test_a_file_has_at_most_400_lines() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in _files()}
    long = {name for name, count in lines.items() if count > MOST_LINES and not name.startswith(tuple(LONG))}
    assert not long, {name: lines[name] for name in long}


def test_no_file_imports_itself_through_others(imports: list[Import]) -> None:
    assert not circles((i.importer, i.imported) for i in imports)


def test_neighbours_in_a_folder_import_each_other_in_one_direction(imports: list[Import]) -> None:
    for arrows in _arrows_between_neighbours(imports).values():
        assert not circles(arrows)


def test_networks_know_no_recipe(imports: list[Import]) -> None:
    assert not [i for i in imports if i.importer.startswith("heedful.nn") and i.imported.startswith("heedful.config")]


TORCH_FREE = (
    "heedful.version",
    *(f"heedful.base.{name}" for name in ("arguments", "errors", "files", "handed_down", "options")),
)


def test_recipes_know_no_network(imports: list[Import]) -> None:
    known = {i.imported for i in imports if i.importer.startswith("heedful.config")}
    assert {name for name in known if not name.startswith(("heedful.config", *TORCH_FREE))} == set()


def test_a_task_knows_no_other_task(imports: list[Import]) -> None:
    tasks = _task_folders()
    assert {"translate", "classify", "fill"} <= tasks
    for i in imports:
        importer, imported = _task_of(i.importer), _task_of(i.imported)
        if importer in tasks and imported in tasks:
            assert importer == imported, i
        elif importer == "shared":
            assert imported not in tasks, i


def test_only_the_table_and_what_is_above_it_names_a_task(imports: list[Import]) -> None:
    tasks = _task_folders()
    below = {i for i in imports if _task_of(i.imported) in tasks and not i.importer.startswith("heedful.tasks.")}
    rooms = {i.importer.split(".")[1] for i in below if i.importer != "heedful"}
    assert rooms <= {"cli", "lab", "interop"}, sorted(below)


def test_a_circle_is_found_where_there_is_one() -> None:
    assert circles([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d")]) == [
        ["a", "b", "c"],
        ["d", "e"],
    ]
    assert circles([("a", "b"), ("a", "c"), ("b", "c")]) == []


def test_all_kinds_of_imports_are_read(tmp_path: Path) -> None:
    (tmp_path / "p" / "q").mkdir(parents=True)
    (tmp_path / "p" / "__init__.py").write_text("")
    (tmp_path / "p" / "q" / "__init__.py").write_text("")
    (tmp_path / "p" / "q" / "leaf.py").write_text("import os\n")
    (tmp_path / "p" / "one.py").write_text("from p.q import leaf\nimport p.q.leaf\n")
    (tmp_path / "p" / "two.py").write_text("def f():\n    from p.q.leaf import name\n")
    (tmp_path / "p" / "three.py").write_text("if TYPE_CHECKING:\n    import p.one\nfrom p import q\n")
    assert set(modules(tmp_path, "p")) == {"p", "p.q", "p.q.leaf", "p.one", "p.two", "p.three"}
    assert read_imports(tmp_path, "p") == [
        Import("p.one", "p.q.leaf", False),
        Import("p.three", "p.one", True),
        Import("p.three", "p.q", False),
        Import("p.two", "p.q.leaf", False),
    ]


def _arrows_between_neighbours(imports: list[Import]) -> dict[str, list[tuple[str, str]]]:
    arrows = defaultdict(list)
    for i in imports:
        importer, imported = i.importer.split("."), i.imported.split(".")
        shared = next((n for n, (a, b) in enumerate(zip(importer, imported, strict=False)) if a != b), None)
        if shared is not None:  # else one is the other's folder
            arrows[".".join(importer[:shared])].append(
                (".".join(importer[: shared + 1]), ".".join(imported[: shared + 1]))
            )
    return arrows


def _task_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[2] if parts[:2] == ["heedful", "tasks"] and len(parts) > 2 else None


def _task_folders() -> set[str]:
    folders = {path.name for path in (SOURCE / "heedful/tasks").iterdir() if path.is_dir()}
    return folders - {"shared", "__pycache__"}
