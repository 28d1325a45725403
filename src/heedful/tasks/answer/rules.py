"""Rules for the recipe of a reader."""

from typing import Final

from heedful.config.corpora.containers import SPLITS
from heedful.config.corpora.roles import Roles
from heedful.config.model.encoder_only import ReaderModel
from heedful.config.task_rules import Tables, TaskRules, model_of
from heedful.metrics.rows import compared_metrics, score_names, validation_metrics
from heedful.tasks.answer.metrics import METRICS
from heedful.tasks.shared.recipe_checks import check_longest, check_room, check_texts, on_bert


def _check(recipe: Tables) -> None:
    model, data = model_of(recipe, ReaderModel), recipe.data
    check_longest(recipe)
    check_texts(recipe)
    check_room(recipe, pairs=True)
    if getattr(model.encoder, "segments", 0) == 1:
        raise ValueError(
            "`model.encoder.segments` must be 2 to tell the question from the text, or 0 to tell them apart by their "
            "markers alone, but is 1"
        )
    if model.mark_matches and getattr(model.encoder, "segments", 0) < 3:
        raise ValueError(
            "`model.mark_matches` needs `model.encoder.segments = 3`: one for the question, one for the text, "
            "one for tokens of the text that the question has too"
        )
    for split in SPLITS:
        for corpus in getattr(data, split):
            if getattr(corpus, "unanswerable", None) and not model.no_answer:
                raise ValueError(
                    f"`data.{split}.unanswerable` makes questions without an answer, which need "
                    "`model.no_answer = true`"
                )


ANSWER: Final = TaskRules(
    name="answer",
    does="answers questions about texts",
    verb="answer",
    learner="a reader",
    model="Reader",
    families=("reader",),
    metrics=validation_metrics(METRICS),
    roles=(Roles(("question", "text", "answer"), optional=("start",)),),
    needs="a reader learns from questions about texts: give `question`, `text` and `answer`, or `squad`",
    vocabularies=("text",),
    inputs=("question", "text"),
    own_tokenizers=False,  # answers need the positions of pieces in the text
    compared_by=compared_metrics(METRICS),
    scores=score_names(METRICS),
    own_keys=("data.stride",),
    on_encoder_of=on_bert,
    few=5_000,
    evaluation_options=("threshold", "max_answer"),
    same_keys=("model.no_answer",),
    line="the span of greatest overlap of words with the question",
    explained="How an answer was found",
    explained_as=("Text", "Answer"),
    check=_check,
)
