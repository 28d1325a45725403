"""The recipes that ship with Heedful: in the repository's `recipes/`, or inside the installed package."""

from pathlib import Path

from heedful.errors import UserError, suggestion
from heedful.files import user_faults


def shipped_recipes() -> dict[str, Path]:
    """Return the shipped recipes, by name."""
    return {path.stem: path for path in sorted(_folder().glob("*.toml"), key=lambda path: path.stem)}


def shipped_recipe(name: str) -> Path:
    """Return the file of a shipped recipe."""
    return _file_of(name, "not a shipped recipe")


def find_recipe(path_or_name: str | Path) -> Path:
    """Return the file of a recipe, given as a path or as the name of a shipped recipe."""
    path = Path(path_or_name)
    with user_faults(path):
        if path.is_file():
            return path
    name = path.name.removesuffix(".toml")
    if str(path_or_name) == name:
        return _file_of(name, "neither a file nor a shipped recipe")
    if not path.exists() and name in shipped_recipes():
        raise UserError(f"{path}: no such file. A recipe of that name ships with Heedful: write `{name}`.")
    return path  # the reader of the file reports what is wrong with it


def summary(path: Path) -> str:
    """Return the first line of a recipe's header, without the command at its end."""
    with path.open(encoding="utf-8") as lines:
        header = next((line for line in lines if line.startswith("#")), "")
    return header.lstrip("# ").partition("Run:")[0].strip()


def _file_of(name: str, otherwise: str) -> Path:
    shipped = shipped_recipes()
    if name not in shipped:
        raise UserError(f"`{name}` is {otherwise}.{suggestion(name, list(shipped))}")
    return shipped[name]


def _folder() -> Path:
    package = Path(__file__).parents[2]
    installed = package / "recipes"
    return installed if installed.is_dir() else package.parents[1] / "recipes"
