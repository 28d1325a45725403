"""Rules for the recipe of a tagger."""

from typing import Final

from heedful.config.corpora.any import SPLITS
from heedful.config.corpora.roles import Roles
from heedful.config.model.any import AnyModel
from heedful.config.model.encoder_only import BertModel, TaggerModel
from heedful.config.section import merge_tables
from heedful.config.tables import Tables, model_of
from heedful.config.task_rules import TaskRules
from heedful.metrics.rows import compared_metrics, score_names, validation_metrics
from heedful.tasks.shared.recipe_checks import check_longest, check_room, check_texts
from heedful.tasks.tag.metrics import METRICS


def _check(recipe: Tables) -> None:
    check_longest(recipe)
    check_texts(recipe)
    check_room(recipe, pairs=False)
    if model_of(recipe, TaggerModel).crf and recipe.train.label_smoothing:
        raise ValueError("`train.label_smoothing` does not apply to a tagger with `model.crf = true`: leave it out")
    corpora = [corpus for split in SPLITS for corpus in getattr(recipe.data, split)]
    if any("second" in corpus.roles for corpus in corpora):
        raise ValueError("`second` makes pairs of texts, which a tagger does not read: leave it out")


def _on_encoder_of(said: AnyModel, start: AnyModel) -> AnyModel:
    """Return the tagger with the start's encoder."""
    assert isinstance(said, TaggerModel), f"{said.family} is not a tagger"
    assert isinstance(start, BertModel), f"{start.family} is not a masked language model"
    encoder = merge_tables(start, said.encoder if "encoder" in said.model_fields_set else None)
    return said.model_copy(update={"encoder": encoder})


TAG: Final = TaskRules(
    name="tag",
    does="tags words",
    verb="tag",
    learner="a tagger",
    families=("tagger",),
    metrics=validation_metrics(METRICS),
    roles=(Roles(("text", "label"), besides=("second", "number")), Roles(("word", "label"))),
    needs="a tagger learns from words with labels: give `conll`, or `text` and `label`",
    vocabularies=("text",),
    compared_by=compared_metrics(METRICS),
    scores=score_names(METRICS),
    labels=True,
    words=True,
    on_encoder_of=_on_encoder_of,
    other_starts=("bert",),
    test_files="give --source and --target, words and their labels, separated by spaces",
    check=_check,
)
