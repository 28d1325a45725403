"""Rules for the recipe of a masked language model."""

from typing import Final

from heedful.config.corpora.containers import SPLITS, PlainText
from heedful.config.corpora.roles import Roles
from heedful.config.model.encoder_only import BertModel
from heedful.config.task_rules import Tables, TaskRules, model_of
from heedful.metrics.rows import score_names, validation_metrics
from heedful.tasks.fill.metrics import METRICS, VALIDATED
from heedful.tasks.shared.recipe_checks import check_longest, check_room, check_texts


def _check(recipe: Tables) -> None:
    check_longest(recipe)
    check_texts(recipe)
    model, kind, data = model_of(recipe, BertModel), recipe.tokenizer.kind, recipe.data
    check_room(recipe, model.next_sentence)
    if data.batch_tokens < data.max_length:
        raise ValueError(
            f"`data.batch_tokens` ({data.batch_tokens}) must be at least `data.max_length` ({data.max_length}), the "
            "longest input"
        )
    if recipe.train.masking.whole_words and kind in ("bpe", "char"):
        raise ValueError(
            "`train.masking.whole_words` needs pieces that show where a word starts, which those of "
            f'`tokenizer.kind = "{kind}"` do not: leave it out, or use "byte_bpe", "wordpiece" or "unigram"'
        )
    for split in SPLITS:
        for corpus in getattr(data, split):
            single = isinstance(corpus, PlainText) and corpus.documents == corpus.sentences == "line"
            if model.next_sentence and single:
                raise ValueError(
                    f'`data.{split}` has one sentence per document (`documents` and `sentences` are "line"), but '
                    "`model.next_sentence` needs several: set it to false"
                )


FILL: Final = TaskRules(
    name="fill",
    does="fills masks",
    verb="fill",
    learner="a masked language model",
    model="MaskFiller",
    families=("bert",),
    metrics=validation_metrics(VALIDATED),
    scores=score_names(METRICS),
    roles=(Roles(("text",), besides=("second", "label", "number")),),
    needs="a masked language model learns from texts: give `text`",
    vocabularies=("text",),
    inputs=("text",),
    network_parts=("encoder", "head", "masked", "follows"),
    own_tokenizers=False,  # around a mask, pieces are joined as the kind of tokenizer does it
    own_keys=("train.masking",),
    few=10_000_000,
    outputs=False,
    same_vocabulary=True,
    same_keys=("train.masking", "data.max_length", "model.next_sentence"),
    line="the most frequent token for every mask",
    explained="How masks were filled",
    explained_as=("Text", "Filled"),
    check=_check,
)
