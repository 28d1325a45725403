"""Rules for the recipe of a model that answers questions about images."""

from typing import Final

from heedful.config.corpora.image_questions import ImageQuestionCorpus
from heedful.config.model.images import ImageAnswererModel
from heedful.config.tables import Tables, model_of
from heedful.config.task_rules import TaskRules
from heedful.tasks.shared.recipe_checks import check_longest, check_room, check_texts


def _check(recipe: Tables) -> None:
    model, data, size = model_of(recipe, ImageAnswererModel), recipe.data, recipe.data.images.size
    check_longest(recipe)
    check_texts(recipe)
    check_room(recipe, pairs=False)
    if recipe.train.augmentation.mixup:
        raise ValueError(
            "`train.augmentation.mixup` mixes two images, whose questions have different answers: leave it out"
        )
    if size is not None:
        tokens = -(-size[0] // model.encoder.patch) * -(-size[1] // model.encoder.patch) + model.encoder.class_token
        if tokens + data.max_length > data.batch_tokens:
            raise ValueError(
                f"`data.batch_tokens` is {data.batch_tokens:,}, but an image of {size[0]} x {size[1]} pixels has "
                f"{tokens:,} patches and a question up to {data.max_length:,} tokens (`data.max_length`): raise it"
            )


ANSWER_IMAGES: Final = TaskRules(
    name="answer_images",
    does="answers questions about images",
    verb="answer",
    learner="an answerer of questions about images",
    families=("image_answerer",),
    metrics={"loss": "lower", "accuracy": "higher", "f1": "higher"},
    takes=lambda corpus: isinstance(corpus, ImageQuestionCorpus),
    needs="it learns from questions about images: give a table (`csv`, `tsv` or `jsonl`) with `image`, `question` "
    'and `answer`, or `builtin = "scenes"` with `questions`',
    vocabularies=("text",),
    own_tokenizers=False,
    compared_by=("accuracy", "f1"),
    labels=True,
    images=True,
    start_keys=("images",),
    own_keys=("data.images", "train.augmentation"),
    tokens="patches and words",
    check=_check,
)
