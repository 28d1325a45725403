"""The recipes that ship with Heedful: in the repository's `recipes/`, or inside the installed package."""

from pathlib import Path

from heedful.base.errors import UserError, nearest, suggestion, user_faults


def shipped_recipes() -> dict[str, Path]:
    """Return the shipped recipes, by name."""
    package = Path(__file__).parents[2]
    installed = package / "recipes"
    folder = installed if installed.is_dir() else package.parents[1] / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"), key=lambda path: path.stem)}


def shipped_recipe(name: str) -> Path:
    """Return the file of a shipped recipe."""
    shipped = shipped_recipes()
    if name not in shipped:
        raise UserError(f"`{name}` is not a shipped recipe.{suggestion(name, list(shipped))}")
    return shipped[name]


def find_recipe(path_or_name: str | Path) -> Path:
    """Return the file of a recipe, given as a path or as the name of a shipped recipe."""
    path = Path(path_or_name)
    with user_faults(path):
        if path.exists():
            return path  # the reader of the file reports what is wrong with it
    name, shipped = path.name.removesuffix(".toml"), shipped_recipes()
    is_name = str(path_or_name) == name
    if is_name and name in shipped:
        return shipped[name]
    if name in shipped:
        raise UserError(f"{path}: no such file. A recipe of that name ships with Heedful: write `{name}`.")
    what = f"`{name}` is neither a file nor a shipped recipe." if is_name else f"{path}: no such file."
    with user_faults(path):
        files = {other.stem: other for other in sorted(path.parent.glob("*.toml"))} if path.parent.is_dir() else {}
    near = nearest(path.stem, [*files, *(shipped if is_name else [])])
    if near:
        raise UserError(f"{what} Did you mean `{files.get(near, near)}`?")
    raise UserError(what + (suggestion(name, list(shipped)) if is_name else ""))


def summary(path: Path) -> str:
    """Return the first line of a recipe's header, without the command at its end."""
    with path.open(encoding="utf-8") as lines:
        header = next((line for line in lines if line.startswith("#")), "")
    return header.lstrip("# ").partition("Run:")[0].strip()
