"""Rules for the recipe of a tagger."""

from typing import Final

from heedful.config.corpora.containers import SPLITS
from heedful.config.corpora.roles import Roles
from heedful.config.model.encoder_only import TaggerModel
from heedful.config.task_rules import Tables, TaskRules, model_of
from heedful.metrics.rows import compared_metrics, score_names, validation_metrics
from heedful.tasks.shared.recipe_checks import check_longest, check_room, check_texts, on_bert
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


TAG: Final = TaskRules(
    name="tag",
    does="tags words",
    verb="tag",
    learner="a tagger",
    model="Tagger",
    families=("tagger",),
    metrics=validation_metrics(METRICS),
    roles=(Roles(("text", "label"), besides=("second", "number")), Roles(("word", "label"))),
    needs="a tagger learns from words with labels: give `conll`, or `text` and `label`",
    vocabularies=("text",),
    inputs=("text",),
    compared_by=compared_metrics(METRICS),
    scores=score_names(METRICS),
    labels=True,
    words=True,
    on_encoder_of=on_bert,
    other_starts=("bert",),
    few=5_000,
    line="the most frequent label of each word",
    test_files="give --source and --target, words and their labels, separated by spaces",
    explained="How words were tagged",
    explained_as=("Sentence", ""),
    check=_check,
)
