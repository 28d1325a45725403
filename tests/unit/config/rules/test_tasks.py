"""What a recipe's task demands of its metrics, its keys and its family."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.shared.refusals import refuses
from tests.unit.config.rules.family_recipes import FAMILIES, LABELLED, PAIR, RUNNING, complaint, load

from heedful.config.reading.load import load_recipe
from heedful.config.tasks import TASKS, find_rules, refuse_evaluation_option

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
            f'`train.validation.metric` is "{metric}", which does not apply to {rules.learner}: '
            f"use {', '.join(others)} or {last}."
        )


def test_losses_and_error_rates_are_the_only_metrics_that_fall_with_quality() -> None:
    falling = {name for rules in TASKS.values() for name, better in rules.metrics.items() if better == "lower"}
    assert falling == {"loss", "perplexity", "ter", "edit_distance", "per", "wer", "mae", "rmse"}


@pytest.mark.parametrize(
    ("metric", "way_out"),
    [
        ("blue", 'did you mean "bleu"?'),
        (
            "zzz",
            'use "loss", "perplexity", "bleu", "chrf", "ter", "exact_match", "edit_distance", "per" or "wer"; one of '
            "your own is passed in Python, by `metrics=...`",
        ),
    ],
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
    assert complaint("transformer", PAIR, top='task = "sing"') == (
        '`task` is "sing", which is not a task of Heedful: use one of translate, parse, classify, '
        "classify_images, caption, regress, regress_images, tag, fill, generate, answer, answer_images; a task of your "
        "own is passed in "
        "Python, by `task=...`."
    )


def test_a_task_that_is_passed_must_be_the_one_that_the_recipe_names() -> None:
    own = replace(TASKS["translate"], name="reverse")
    assert find_rules("reverse", "transformer", own) is own
    with refuses('...`task` is "translate", but the task that was passed is "reverse"...', ValueError):
        find_rules("translate", "transformer", own)


def test_a_task_that_the_family_cannot_learn_is_refused() -> None:
    assert complaint("transformer", LABELLED, top='task = "classify"') == (
        '`task = "classify"` does not apply to `model.family = "transformer"`: use "classifier".'
    )
    assert complaint("bert", PAIR, top='task = "translate"') == (
        '`task = "translate"` does not apply to `model.family = "bert"`: use "transformer", "recurrent" or "mixed".'
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
        (
            "",
            "[tokenizer]\njoint = false",
            "`tokenizer.joint` must be true, as texts have one vocabulary: leave it out.",
        ),
        (
            'tokenized = { source = "en", target = "de" }',
            "",
            "`data.tokenized` applies to translators only: leave it out.",
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
    ("rest", "line"),
    [
        (
            "[train]\nmasking = { masked = 0.9, random = 0.2 }",
            "in `train.masking`, `masked` (0.9) and `random` (0.2) must sum to 1 or less.",
        ),
        (
            "[train]\nfreeze = 2",
            "`train.freeze` freezes weights of `train.start_from`, which is not set: leave it out.",
        ),
        ("[train]\nfreeze = -1", '`train.freeze` is -1, but must be "encoder" or a whole number of at least 0.'),
        ('[train]\nfreeze = "all"', '`train.freeze` is "all", but must be "encoder" or a whole number of at least 0.'),
        ("[train]\nlayer_decay = 0", "`train.layer_decay` is 0, but must be a number above 0 and of at most 1."),
        (
            '[train]\nadapter = { kind = "lora" }',
            "`train.adapter` adapts the model of `train.start_from`, which is not set: name a trained model there, or "
            "leave `train.adapter` out.",
        ),
        (
            '[train]\nstart_from = "a"\nadapter = { kind = "lora" }\nfreeze = 1',
            "`train.freeze` is about the weights of `train.start_from`, which all stay as they are with "
            "`train.adapter`: leave one of them out.",
        ),
        (
            '[train]\nstart_from = "a"\nadapter = { kind = "lora" }\ncompile = true',
            "`train.compile` is true, but `train.adapter` exchanges weights in each pass, which is not compiled: leave "
            "one of them out.",
        ),
        (
            '[train]\nstart_from = "a"\nadapter = { kind = "lora" }\ninstruments = {}',
            "`train.instruments` measures the weights of a model, which stay as they are with `train.adapter`: leave "
            "one of them out.",
        ),
        (
            '[train]\nstart_from = "a"\nadapter = { kind = "lora", on = ["attention", "layers"] }',
            '`train.adapter.on.1` is "layers", but must be "attention", "cross", "network", "recurrent", "embedding" '
            'or "output", or a list of them.',
        ),
        (
            '[train]\nstart_from = "a"\nadapter = { kind = "lora", rank = 0 }',
            "`train.adapter.rank` is 0, but must be a whole number of at least 1.",
        ),
        (
            '[train]\nstart_from = "a"\nadapter = { rank = 4 }',
            '`train.adapter.kind` is missing: it must be "lora".',
        ),
        (
            '[train]\nstart_from = "a"\nadapter = { kind = "lora" }\n[tokenizer]\nextend = 10',
            "`tokenizer.extend` adds embeddings, which `train.adapter` would leave as they begin: leave one of them "
            "out.",
        ),
        (
            "[tokenizer]\nextend = 10",
            "`tokenizer.extend` adds pieces to the vocabulary of `train.start_from`, which is not set: leave it out, "
            "or raise `tokenizer.size`.",
        ),
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


# --- with a start -----------------------------------------------------------------------------------------------------


def test_a_recipe_that_leaves_its_model_to_its_start_is_checked_with_it_later() -> None:
    Path("my.toml").write_text(f'[data]\ntrain = {LABELLED}\n[train]\nstart_from = "m"\nclass_weights = "balanced"\n')
    assert load_recipe("my.toml").train.class_weights == "balanced"


# --- what models are compared by --------------------------------------------------------------------------------------


def test_translators_score_pairs_and_language_models_texts() -> None:
    scored = {name: rules.scored for name, rules in TASKS.items() if rules.scored is not None}
    assert scored == {"translate": "pairs", "generate": "texts"}


# --- options of evaluations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "task", "users"), [("unconstrained", "translate", "parser"), ("raw", "parse", "translator")]
)
def test_an_option_of_another_tasks_evaluation_is_refused(name: str, task: str, users: str) -> None:
    with refuses(f"--{name} is for {users}s, which m is not: leave it out."):
        refuse_evaluation_option(name, f"--{name}", TASKS[task], "m")


def test_parsers_have_the_options_of_a_search() -> None:
    for name in ("beam", "with"):
        refuse_evaluation_option(name, f"--{name}", TASKS["parse"], "m")
