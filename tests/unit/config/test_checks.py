"""What the tables of a recipe demand of each other, where its model reads texts: one line with the way out."""

from pathlib import Path

import pytest

from heedful.config.corpora import SPLITS, JsonlTexts, PlainTexts, TsvTexts
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.config.tasks import TASKS
from heedful.errors import UserError

PAIR = '{ source = "a.en", target = "a.de" }'
LABELLED = '{ tsv = "a.tsv", text = 2, label = 1 }'
TWO_TEXTS = '{ jsonl = "a.jsonl", text = "one", second = "two", label = "same" }'
RUNNING = '{ text = "a.txt" }'
FAMILIES = {"transformer": PAIR, "classifier": LABELLED, "bert": RUNNING}  # each with what it learns from


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(family: str, train: str, *, data: str = "", model: str = "", rest: str = "", top: str = "") -> Recipe:
    text = f'{top}\n[data]\ntrain = {train}\n{data}\n[model]\nfamily = "{family}"\n{model}\n{rest}\n'
    Path("my.toml").write_text(text, encoding="utf-8")
    return load_recipe("my.toml")


def complaint(family: str, train: str, *, data: str = "", model: str = "", rest: str = "", top: str = "") -> str:
    """The only line, without the file that stands before it."""
    with pytest.raises(UserError) as caught:
        load(family, train, data=data, model=model, rest=rest, top=top)
    line = str(caught.value)
    assert line.startswith("my.toml: ")
    assert "\n" not in line
    return line.removeprefix("my.toml: ")


# --- corpora ----------------------------------------------------------------------------------------------------------


def test_the_keys_of_a_corpus_say_of_which_form_it_is() -> None:
    several = '[{ tsv = "a", text = 3 }, { jsonl = "b", text = "t", part = "1-9/10" }, { text = "c", sample = 5 }]'
    assert load("bert", several).data.train == (
        TsvTexts(tsv="a", text=3),
        JsonlTexts(jsonl="b", text="t", part="1-9/10"),
        PlainTexts(text="c", sample=5),
    )


NEEDED = {
    "transformer": "a translator learns from pairs: give `source` and `target`",
    "classifier": "a classifier learns from texts with labels: give `text` and `label`",
    "bert": "a masked language model learns from texts: give `text`",
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    ("family", "corpus"),
    [
        ("transformer", LABELLED),
        ("transformer", RUNNING),
        ("classifier", PAIR),
        ("classifier", RUNNING),
        ("classifier", '{ tsv = "a.tsv", text = 2 }'),  # no label
        ("classifier", '{ builtin = "english-spanish" }'),
        ("bert", PAIR),
    ],
)
def test_a_corpus_that_the_model_cannot_learn_from_is_refused(family: str, corpus: str, split: str) -> None:
    train, data = (corpus, "") if split == "train" else (FAMILIES[family], f"{split} = [{FAMILIES[family]}, {corpus}]")
    assert complaint(family, train, data=data) == f"`data.{split}` does not fit `model.family`: {NEEDED[family]}."


def test_a_masked_model_learns_from_texts_of_every_form_whether_they_have_labels_or_not() -> None:
    for corpus in (RUNNING, LABELLED, TWO_TEXTS, '{ jsonl = "a", text = "t" }'):
        assert load("bert", corpus).rules.name == "fill"


@pytest.mark.parametrize(
    ("corpus", "line"),
    [
        ('{ txt = "a.txt" }', "`data.train.txt` is not a key. Did you mean `text`?"),
        ('{ tsv = "a", text = "t" }', '`data.train.text` is "t", but must be a whole number of at least 1.'),
        ('{ tsv = "a", text = 0 }', "`data.train.text` is 0, but must be a whole number of at least 1."),
        ('{ jsonl = "a", text = 1 }', "`data.train.text` is 1, but must be a text in quotes."),
        (
            '{ jsonl = "a", text = "t", lable = "l" }',
            "`data.train.lable` is not a key. Did you mean `label`?",
        ),
        ('{ text = "a", part = "10" }', '`data.train.part` is "10", but must be a part such as "0/10" or "1-9/10".'),
        ('{ text = "a", sample = 0 }', "`data.train.sample` is 0, but must be a whole number of at least 1."),
        (
            '{ text = "a", documents = "page" }',
            '`data.train.documents` is "page", but must be "blank_line", "line" or "heading".',
        ),
        ('{ text = "a", sentences = "all" }', '`data.train.sentences` is "all", but must be "split" or "line".'),
    ],
)
def test_a_mistake_in_a_corpus_of_texts_is_one_line(corpus: str, line: str) -> None:
    assert complaint("bert", corpus) == line


def test_a_text_beside_a_generator_is_one_complaint() -> None:
    line = complaint("transformer", '{ builtin = "english-spanish", text = "a" }')
    assert line.startswith("`data.train.text` is not a key")


# --- metrics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_is_judged_by_the_metrics_of_its_task_and_by_no_other(family: str) -> None:
    rules = load(family, FAMILIES[family]).rules
    for metric in sorted({name for other in TASKS.values() for name in other.metrics}):
        rest, valid = f'[train]\nvalidation = {{ metric = "{metric}" }}', f"valid = {FAMILIES[family]}"
        if metric in rules.metrics:
            assert load(family, FAMILIES[family], data=valid, rest=rest).train.validation.metric == metric
            continue
        *others, last = [f'"{name}"' for name in rules.metrics]
        assert complaint(family, FAMILIES[family], data=valid, rest=rest) == (
            f'`train.validation.metric` is "{metric}", which is not for {rules.learner}: '
            f"use {', '.join(others)} or {last}."
        )


def test_losses_are_the_only_metrics_that_fall_with_quality() -> None:
    falling = {name for rules in TASKS.values() for name, better in rules.metrics.items() if better == "lower"}
    assert falling == {"loss", "perplexity"}


@pytest.mark.parametrize(
    ("metric", "way_out"),
    [("blue", 'did you mean "bleu"?'), ("wer", 'use "loss", "perplexity", "bleu" or "chrf"')],
)
def test_an_unknown_metric_leads_to_a_known_one(metric: str, way_out: str) -> None:
    rest = f'[train]\nvalidation = {{ metric = "{metric}" }}'
    assert complaint("transformer", PAIR, data=f"valid = {PAIR}", rest=rest) == (
        f'`train.validation.metric` is "{metric}", which is not a metric: {way_out}.'
    )


# --- the task ---------------------------------------------------------------------------------------------------------


def test_a_recipe_that_names_its_task_is_the_same_as_one_that_leaves_it_to_its_family() -> None:
    for family, corpus in FAMILIES.items():
        usual = load(family, corpus)
        named = load(family, corpus, top=f'task = "{usual.rules.name}"')
        assert named.rules is usual.rules
        assert named.model_copy(update={"task": None}) == usual


def test_a_task_that_does_not_exist_is_refused() -> None:
    assert complaint("transformer", PAIR, top='task = "parse"') == (
        '`task` is "parse", which is not a task of Heedful: use one of translate, classify, fill; a task of your own '
        "is passed in Python, by `task=...`."
    )


def test_a_task_that_the_family_cannot_learn_is_refused() -> None:
    assert complaint("transformer", LABELLED, top='task = "classify"') == (
        '`task = "classify"` is not for `model.family = "transformer"`: use "classifier".'
    )
    assert complaint("bert", PAIR, top='task = "translate"') == (
        '`task = "translate"` is not for `model.family = "bert"`: use "transformer", "recurrent" or "mixed".'
    )


def test_a_corpus_that_a_named_task_cannot_learn_from_is_refused_by_the_task() -> None:
    assert complaint("transformer", RUNNING, top='task = "translate"') == (
        "`data.train` does not fit `task`: a translator learns from pairs: give `source` and `target`."
    )


# --- tied matrices ----------------------------------------------------------------------------------------------------


def test_what_a_transformer_ties_follows_its_vocabularies_where_it_does_not_say() -> None:
    assert load("transformer", PAIR).pair_model.tie == "all"
    assert load("transformer", PAIR, rest="[tokenizer]\njoint = false").pair_model.tie == "decoder"


def test_a_transformer_that_says_what_it_ties_is_taken_at_its_word() -> None:
    two = "[tokenizer]\njoint = false"
    assert load("transformer", PAIR, model='tie = "none"', rest=two).pair_model.tie == "none"
    assert complaint("transformer", PAIR, model='tie = "all"', rest=two) == (
        '`model.tie` must be "decoder" or "none" as `tokenizer.joint` is false, but is "all".'
    )


# --- keys of other tasks ----------------------------------------------------------------------------------------------

OF_ONE_TASK = {  # the family whose task a key is of, and a value that says something
    "data.max_ratio": ("transformer", "data", "max_ratio = 2"),
    "data.cut": ("classifier", "data", 'cut = "middle"'),
    "train.class_weights": ("classifier", "train", 'class_weights = "balanced"'),
    "train.masking": ("bert", "train", "masking = { share = 0.2 }"),
    "train.validation.translate": ("transformer", "train", "validation = { translate = true }"),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("key", OF_ONE_TASK)
def test_a_key_that_means_nothing_for_the_task_is_refused(key: str, family: str) -> None:
    owner, section, line = OF_ONE_TASK[key]
    data, rest = (line, "") if section == "data" else ("", f"[train]\n{line}")
    if family == owner:
        assert load(family, FAMILIES[family], data=data, rest=rest)
        return
    assert complaint(family, FAMILIES[family], data=data, rest=rest) == (
        f"`{key}` does not apply to {load(family, FAMILIES[family]).rules.learner}: leave it out."
    )


def test_scheduled_sampling_is_refused_where_nothing_is_decoded() -> None:
    sampling = '[train]\nscheduled_sampling = { kind = "exponential", base = 0.9 }'
    assert complaint("classifier", LABELLED, rest=sampling) == (
        "`train.scheduled_sampling` does not apply to a classifier: leave it out."
    )


@pytest.mark.parametrize(
    ("data", "rest", "line"),
    [
        ("", "[tokenizer]\njoint = false", "`tokenizer.joint` must be true, as there is only one side: leave it out."),
        (
            'tokenized = { source = "en", target = "de" }',
            "",
            "`data.tokenized` is for translators: leave it out.",
        ),
        (
            'test = { tsv = "b.tsv", text = 2, label = 1, to = "de" }',
            "",
            "`to` is the target language of a translator: leave it out.",
        ),
    ],
)
@pytest.mark.parametrize("family", ["classifier", "bert"])
def test_what_is_of_two_sides_is_refused_where_there_is_one(family: str, data: str, rest: str, line: str) -> None:
    assert complaint(family, FAMILIES[family], data=data, rest=rest) == line


@pytest.mark.parametrize(
    ("model", "data", "line"),
    [
        ("", "max_length = 4", "`data.max_length` (4), markers included, must be at least 5: a text is read as "
         "`<s> A </s> B </s>`."),
        ("next_sentence = false", "max_length = 2", "`data.max_length` (2), markers included, must be at least 3: a "
         "text is read as `<s> A </s>`."),
        ("", "max_length = 64\nbatch_tokens = 63", "`data.batch_tokens` (63) must be at least `data.max_length` (64), "
         "the longest input."),
        ("", "batch_tokens = 10000000000000", "in `data`, `batch_tokens` must be at most 1,000,000,000,000, which no "
         "machine can hold."),
        ("inner = 10000000000000", "", "in `model`, `inner` must be at most 1,000,000,000,000, which no machine can "
         "hold."),
    ],
)  # fmt: skip
def test_numbers_that_nothing_can_be_made_of(model: str, data: str, line: str) -> None:
    assert complaint("bert", RUNNING, model=model, data=data) == line


@pytest.mark.parametrize("weight", ["1e300", "0"])
def test_a_weight_that_no_epoch_can_show(weight: str) -> None:
    assert complaint("bert", RUNNING.replace("}", f", weight = {weight} }}")) == (
        f"`data.train.weight` is {float(weight) if 'e' in weight else weight}, but must be a number above 0 and of at "
        "most 1000000."
    )


@pytest.mark.parametrize(
    ("rest", "line"),
    [
        (
            "[train]\nmasking = { masked = 0.9, random = 0.2 }",
            "in `train.masking`, `masked` (0.9) and `random` (0.2) must be 1 or less together.",
        ),
        (
            "[train]\nfreeze = 2",
            "`train.freeze` keeps what `train.start_from` brings, but there is no start: leave it out.",
        ),
        ("[train]\nfreeze = -1", '`train.freeze` is -1, but must be "encoder" or a whole number of at least 0.'),
        ('[train]\nfreeze = "all"', '`train.freeze` is "all", but must be "encoder" or a whole number of at least 0.'),
        ("[train]\nlayer_decay = 0", "`train.layer_decay` is 0, but must be a number above 0 and of at most 1."),
        (
            "[train]\nclass_weights = { pos = -1 }",
            "`train.class_weights.pos` is -1, but must be a number above 0.",
        ),
        (
            "[train]\nclass_weights = 3",
            '`train.class_weights` is 3, but must be "balanced" or a table of names, each with a number above 0.',
        ),
    ],
)
def test_a_wrong_value_of_training_is_refused_with_what_it_must_be(rest: str, line: str) -> None:
    assert complaint("bert", RUNNING, rest=rest) == line


@pytest.mark.parametrize(
    ("corpus", "line"),
    [
        (
            '{ tsv = "a", label = 1, text = 2, jsonl = "b" }',
            "`data.train.jsonl` is not a key: a corpus is of one form, and `tsv` is said. Leave one of both out.",
        ),
        ('{ tsv = "a", label = 1 }', "`data.train.text` is missing: it must be a whole number of at least 1."),
        ('{ jsonl = "a", label = "l" }', "`data.train.text` is missing: it must be a text in quotes."),
        ('{ tsv = "a", label = 1, txt = 2 }', "`data.train.txt` is not a key. Did you mean `text`?"),
        ('{ csv = "a", label = 1, text = 2 }', "`data.train.csv` is not a key. Did you mean `tsv`?"),
        ("{ text = 2, label = 1 }", "`data.train.tsv` is missing: it must be a text in quotes."),
    ],
)
def test_a_corpus_of_texts_lacks_something_or_is_two(corpus: str, line: str) -> None:
    assert complaint("classifier", corpus) == line


@pytest.mark.parametrize("lines", ["4-2", "0-2"])
@pytest.mark.parametrize(("family", "corpus"), [("transformer", PAIR), ("classifier", LABELLED), ("bert", RUNNING)])
def test_a_range_of_lines_that_is_none(family: str, corpus: str, lines: str) -> None:
    assert complaint(family, corpus.replace("}", f', lines = "{lines}" }}')) == (
        f'in `data.train`, `lines` is "{lines}", but must go up from a line to a later one, counted from 1.'
    )


@pytest.mark.parametrize("part", ["7-3/10", "10/10", "3-10/10", "0/0"])
def test_a_part_that_is_none(part: str) -> None:
    assert complaint("classifier", LABELLED.replace("}", f', part = "{part}" }}')) == (
        f'in `data.train`, `part` is "{part}", but must be some of the parts 0 to n-1 of n, such as "0/10" or "1-9/10".'
    )


@pytest.mark.parametrize(
    ("corpus", "line"),
    [
        ('{ tsv = "a", label = 2, text = 2 }', "`text` and `label` are both 2: each must have its own."),
        (
            '{ jsonl = "a", label = "l", text = "t", second = "t" }',
            "`text` and `second` are both 't': each must have its own.",
        ),
    ],
)
def test_text_and_label_are_two_columns(corpus: str, line: str) -> None:
    assert complaint("classifier", corpus).endswith(line)


# --- lengths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "model", "key"),
    [
        ("classifier", 'encoder = { positions = "learned", max_positions = 100 }', "encoder.max_positions"),
        ("classifier", 'encoder = { family = "bert", max_positions = 100 }', "encoder.max_positions"),
        ("bert", "max_positions = 100", "max_positions"),
    ],
)
def test_texts_must_fit_into_learned_positions_to_the_last_marker(family: str, model: str, key: str) -> None:
    assert load(family, FAMILIES[family], data="max_length = 100", model=model).data.max_length == 100
    assert complaint(family, FAMILIES[family], data="max_length = 101", model=model) == (
        f"`data.max_length` (101), markers included, must fit into `model.{key}`, but that is 100."
    )


def test_a_document_may_be_longer_than_its_sentences() -> None:
    encoder = 'encoder = { family = "hierarchical", words = { family = "transformer", positions = "learned" } }'
    assert load("classifier", LABELLED, data="max_length = 5000", model=encoder).data.max_length == 5000


@pytest.mark.parametrize(
    ("corpus", "encoder", "least", "form"),
    [(LABELLED, "", 3, "<s> A </s>"), (TWO_TEXTS, "segments = 2", 5, "<s> A </s> B </s>")],
)
def test_a_length_without_room_for_a_piece_of_each_text_is_refused(
    corpus: str, encoder: str, least: int, form: str
) -> None:
    model = f"encoder = {{ {encoder} }}"
    assert load("classifier", corpus, data=f"max_length = {least}", model=model).data.max_length == least
    assert complaint("classifier", corpus, data=f"max_length = {least - 1}", model=model) == (
        f"`data.max_length` ({least - 1}), markers included, must be at least {least}: a text is read as `{form}`."
    )


def test_documents_of_one_word_are_read() -> None:
    assert load("classifier", LABELLED, data="max_length = 1", model='encoder = { family = "hierarchical" }')


# --- pairs ------------------------------------------------------------------------------------------------------------


def test_pairs_and_single_texts_are_not_mixed() -> None:
    line = "`second` must be set in all corpora or in none: a classifier reads pairs or single texts."
    assert complaint("classifier", f"[{LABELLED}, {TWO_TEXTS}]") == line
    assert complaint("classifier", TWO_TEXTS, data=f"test = {LABELLED}") == line


def test_documents_are_not_read_in_pairs() -> None:
    assert complaint("classifier", TWO_TEXTS, model='encoder = { family = "hierarchical" }') == (
        '`second` makes pairs of texts, which `encoder.family = "hierarchical"` does not read: leave it out, or use '
        "another encoder."
    )


@pytest.mark.parametrize("encoder", ["segments = 1", 'family = "bert", segments = 1, next_sentence = false'])
def test_pairs_need_two_segments_or_none(encoder: str) -> None:
    assert complaint("classifier", TWO_TEXTS, model=f"encoder = {{ {encoder} }}") == (
        "`model.encoder.segments` must be 2 where `second` makes pairs of texts, or 0 to tell them apart by their "
        "markers alone, but is 1."
    )
    for other in ("segments = 0", "segments = 2"):
        assert load("classifier", TWO_TEXTS, model=f"encoder = {{ {encoder.replace('segments = 1', other)} }}")
    assert load("classifier", LABELLED, model=f"encoder = {{ {encoder} }}")


# --- masked language models -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "valid"])
def test_documents_of_one_sentence_have_none_that_follows(split: str) -> None:
    lines = '{ text = "a.txt", documents = "line", sentences = "line" }'
    train, data = (lines, "") if split == "train" else (RUNNING, f"{split} = {lines}")
    assert complaint("bert", train, data=data) == (
        f'`data.{split}` has one sentence per document (`documents` and `sentences` are "line"), but '
        "`model.next_sentence` needs several: set it to false."
    )
    assert load("bert", train, data=data, model="next_sentence = false")


@pytest.mark.parametrize("kind", ["byte_bpe", "bpe", "wordpiece", "unigram", "word", "char"])
def test_whole_words_are_masked_where_pieces_show_where_they_begin(kind: str) -> None:
    rest = f'[tokenizer]\nkind = "{kind}"\n[train]\nmasking = {{ whole_words = true }}'
    if kind not in ("bpe", "char"):
        assert load("bert", RUNNING, rest=rest).train.masking.whole_words
        return
    assert complaint("bert", RUNNING, rest=rest) == (
        "`train.masking.whole_words` needs pieces that show where a word begins, which those of "
        f'`tokenizer.kind = "{kind}"` do not: leave it out, or use "byte_bpe", "wordpiece" or "unigram".'
    )


# --- with a start -----------------------------------------------------------------------------------------------------


def test_a_recipe_that_leaves_its_model_to_its_start_is_checked_with_it_later() -> None:
    Path("my.toml").write_text(f'[data]\ntrain = {LABELLED}\n[train]\nstart_from = "m"\nclass_weights = "balanced"\n')
    assert load_recipe("my.toml").train.class_weights == "balanced"
