"""What files tell about corpora is saved with a run, and a resumed run reads them as it began."""

from pathlib import Path

from heedful.config.corpora.containers import Csv
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.config.recipe import Recipe
from heedful.data.prepare.settled import settle_corpora, with_forms_of


def recipe(folder: Path, **corpus: object) -> Recipe:
    table = {"csv": "t.csv", "source": 1, "target": 2, **corpus}
    tables = {"train": [table], "valid": [{"csv": "missing.csv"}]}
    return recipe_from_json({"data": {"folder": str(folder), **tables}, "model": {"family": "transformer"}}, "here")


def test_a_new_run_saves_what_its_files_tell_and_a_resumed_one_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("en;de\none;eins\ntwo;zwei\n")
    given = recipe(tmp_path)
    settled = settle_corpora(given)
    assert settled.data.train == (Csv(csv="t.csv", source=1, target=2, separator=";", header=True),)
    missing = Csv(
        csv="missing.csv", separator=";", header=True
    )  # it is refused where it is read, unless it comes later
    assert settled.data.valid == (missing,)
    saved = recipe_from_json(recipe_to_json(settled), "here")
    assert saved.data == settled.data
    (tmp_path / "t.csv").write_text("one,eins\ntwo,zwei\n")
    assert settle_corpora(given) is given
    assert with_forms_of(given, saved).data.train == settled.data.train
    own = recipe(tmp_path, header=False)
    assert with_forms_of(own, saved).data.train == (own.data.train[0].model_copy(update={"separator": ";"}),)
