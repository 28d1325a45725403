"""Rules for the recipe of a translator."""

from typing import Final

from heedful.config.corpora.containers import SPLITS
from heedful.config.corpora.roles import Roles
from heedful.config.task_rules import Tables, TaskRules
from heedful.metrics.rows import LOSS, PERPLEXITY, TEXT_METRICS, WRITTEN_TEXTS, score_names, validation_metrics
from heedful.tasks.shared.sequences.rules import check_pairs


def _check(recipe: Tables) -> None:
    check_pairs(recipe)
    if recipe.data.target_tags:
        if not any(corpus.to for corpus in recipe.data.train):
            raise ValueError("`data.target_tags` needs target languages: set `to` in all corpora, or leave it out")
        if separate := recipe.tokenizer.why_separate:
            raise ValueError(
                f"`data.target_tags` needs one vocabulary, as tags are those of sources, but {separate}: leave it out"
            )


TRANSLATE: Final = TaskRules(
    name="translate",
    does="translates",
    verb="translate",
    learner="a translator",
    model="Translator",
    families=("transformer", "recurrent", "mixed"),
    metrics=validation_metrics((LOSS, PERPLEXITY, *TEXT_METRICS.values())),
    scores=score_names(WRITTEN_TEXTS),
    roles=(Roles(("source", "target")),),
    needs="a translator learns from pairs: give `source` and `target`",
    vocabularies=("source", "target"),
    inputs=("source",),
    whole_texts=True,
    scored="pairs",
    network_parts=("encoder", "decoder", "output", "next_token_states"),
    searches=True,
    own_keys=("data.max_ratio", "data.target_tags", "train.scheduled_sampling", "train.validation.translate"),
    unread_keys=(
        "decode",
        "evaluate",
        "data.tokenized",
        "tokenizer.joint",
        "tokenizer.target",
        *(f"data.{split}.to" for split in SPLITS),
    ),
    line="a word-by-word dictionary",
    tokens="target tokens",
    label_smoothing=0.1,
    test_files="give --source and --target",
    evaluation_options=("metric", "raw", "to", "shortlist", "terms", "require", "forbid"),
    start_keys=("target_tags",),
    same_keys=(
        "evaluate.bleu_tokenize",
        "evaluate.detokenize",
        "evaluate.metrics",
        "evaluate.one_word",
        "data.lowercase",
    ),
    explained="How a translation came about",
    explained_as=("Source", "Translation"),
    check=_check,
)
