"""The studies that ship with Heedful: in the repository's `studies/`, or inside the installed package."""

from pathlib import Path

from heedful.base.errors import UserError, suggestion
from heedful.base.files import user_faults
from heedful.config.reading.recipe_file import read_recipe_file


def shipped_studies() -> dict[str, Path]:
    """Return the shipped studies, by name."""
    return {path.stem: path for path in sorted(_folder().glob("*.toml"), key=lambda path: path.stem)}


def find_study(path_or_name: str) -> Path:
    """Return the file of a study, given as a path or as the name of a shipped study."""
    path, shipped = Path(path_or_name), shipped_studies()
    with user_faults(path):
        if path.exists():
            return path
    if path_or_name in shipped:
        return shipped[path_or_name]
    if path.name != path_or_name or path.suffix:
        raise UserError(f"{path}: no such file.")
    raise UserError(f"`{path_or_name}` is neither a file nor a shipped study.{suggestion(path_or_name, list(shipped))}")


def title_of(path: Path) -> str:
    """Return the heading of a study's page, without reading its recipes."""
    return str(read_recipe_file(path).get("title", path.stem))


def _folder() -> Path:
    package = Path(__file__).parents[2]
    installed = package / "studies"
    return installed if installed.is_dir() else package.parents[1] / "studies"
