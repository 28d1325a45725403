"""Rules for the recipe of a parser."""

from typing import Final

from heedful.config.corpora.containers import SPLITS, Leaves, Trees
from heedful.config.corpora.roles import Roles
from heedful.config.decode import LEAST_OF_TREE
from heedful.config.task_rules import Tables, TaskRules
from heedful.config.tokenizer import WordsSide, side_of
from heedful.metrics.rows import LOSS, PERPLEXITY, compared_metrics, score_names, validation_metrics
from heedful.tasks.parse.metrics import METRICS
from heedful.tasks.shared.sequences.rules import check_pairs


def _check(recipe: Tables) -> None:
    data, decode = recipe.data, recipe.decode
    if recipe.tokenizer.joint or side_of(recipe.tokenizer, "target").kind != "word":
        raise ValueError('`tokenizer.target` must be `{ kind = "word" }`: the targets of a parser are whole brackets')
    if data.lowercase:
        raise ValueError("`data.lowercase` would change the labels of trees: leave it out")
    if data.tokenized is not None:
        raise ValueError("`data.tokenized` applies to translators only: leave it out")
    if any(corpus.to for split in SPLITS for corpus in getattr(data, split)):
        raise ValueError("`to` is the target language of a translator: leave it out")
    for split in ("train", "valid"):
        for corpus in getattr(data, split):
            if isinstance(corpus, Trees) and corpus.leaves != leaves_of(recipe):
                raise ValueError(
                    f'`leaves` must be the same in all training and validation corpora, but is "{corpus.leaves}" in '
                    f'`data.{split}` and "{leaves_of(recipe)}" in the first of `data.train`'
                )
    for key in ("no_repeat", "min_length"):
        if getattr(decode, key):
            raise ValueError(f"`decode.{key}` would forbid trees: leave it out")
    if decode.mbr:
        raise ValueError("`decode.mbr` compares texts, and a parser writes trees: leave it out")
    if decode.max_extra < LEAST_OF_TREE:
        raise ValueError(
            f"`decode.max_extra` is {decode.max_extra}, but must be at least {LEAST_OF_TREE}: a tree has two brackets "
            "and `</s>` besides its words"
        )
    check_pairs(recipe)


def leaves_of(recipe: Tables) -> Leaves:
    """Return what a parser writes in the place of each word."""
    corpus = recipe.data.train[0]
    return corpus.leaves if isinstance(corpus, Trees) else "symbol"


PARSE: Final = TaskRules(
    name="parse",
    does="parses",
    verb="parse",
    learner="a parser",
    model="Parser",
    families=("transformer", "recurrent", "mixed"),
    metrics=validation_metrics((LOSS, PERPLEXITY, *METRICS)),
    scores=score_names(METRICS),
    roles=(Roles(("tree",)),),
    needs='a parser learns from trees: give `trees`, a file such as "train.trees"',
    vocabularies=("source", "target"),
    only_target=WordsSide(kind="word"),
    inputs=("text",),
    whole_texts=True,
    network_parts=("encoder", "decoder", "output", "next_token_states"),
    compared_by=compared_metrics(METRICS),
    own_tokenizers=False,  # brackets are whole pieces
    searches=True,
    own_keys=("data.max_ratio", "train.scheduled_sampling"),
    unread_keys=("decode", "tokenizer.joint", "tokenizer.target"),
    line="right-branching trees with the most frequent labels",
    tokens="target tokens",
    label_smoothing=0.1,
    test_files="give --source and --target, sentences and their trees",
    evaluation_options=("unconstrained",),
    explained="How a sentence was parsed",
    explained_as=("Sentence", ""),
    check=_check,
)
