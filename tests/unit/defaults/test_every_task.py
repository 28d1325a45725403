"""Defaults that follow the run, for every task: a recipe with only files and a family is small, short, and valid."""

from typing import Any

import pytest

from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.config.task_rules import Tables
from heedful.defaults.apply import BY_TASK, decide
from heedful.defaults.facts import CorpusFacts
from heedful.tasks.table import RULES

MINIMAL: dict[str, dict[str, Any]] = {
    "translate": {"data": {"train": {"tsv": "a.tsv"}}},
    "classify": {"data": {"train": {"tsv": "a.tsv", "text": 1, "label": 2}}, "model": {"family": "classifier"}},
    "regress": {"data": {"train": {"tsv": "a.tsv", "text": 1, "number": 2}}, "model": {"family": "regressor"}},
    "tag": {"data": {"train": {"conll": "a.conll"}}, "model": {"family": "tagger"}},
    "parse": {"data": {"train": {"trees": "a.trees"}}, "task": "parse"},
    "answer": {"data": {"train": {"squad": "a.json"}}, "model": {"family": "reader"}},
    "generate": {"data": {"train": {"text": "a.txt"}}, "model": {"family": "language"}},
    "fill": {"data": {"train": {"text": "a.txt"}}, "model": {"family": "bert"}},
    "classify_images": {"data": {"train": {"images": "photos"}}, "model": {"family": "image_classifier"}},
    "regress_images": {
        "data": {"train": {"tsv": "a.tsv", "image": 1, "number": 2}}, "model": {"family": "image_regressor"},
    },
    "caption": {"data": {"train": {"tsv": "a.tsv", "image": 1, "caption": 2}}, "model": {"family": "captioner"}},
    "answer_images": {
        "data": {"train": {"tsv": "a.tsv", "image": 1, "question": 2, "answer": 3}},
        "model": {"family": "image_answerer"},
    },
}  # fmt: skip
OF_IMAGES = {name for name, rules in RULES.items() if "image" in rules.roles[0].needed}
OWN: dict[str, dict[str, Any]] = {  # a network of one's own for each task whose rules leave such networks alone
    "tag": {"encoder": {"family": "transformer", "preset": "small"}},
    "parse": {"preset": "small"},
    "answer": {"encoder": {"family": "transformer", "preset": "small", "segments": 2}},
    "generate": {"decoder": {"family": "transformer", "preset": "mini"}},
    "fill": {"preset": "mini"},
    "classify_images": {"encoder": {"family": "vit"}},
    "regress_images": {"encoder": {"family": "vit"}},
    "caption": {"encoder": {"family": "vit"}},
    "answer_images": {"encoder": {"family": "vit", "class_token": False}},
}


def corpus(task: str, rows: int, spaced: bool = True, more: bool = False) -> CorpusFacts:
    """A corpus with rows as they usually are: eighty characters with spaces, or images of 64 x 64 pixels."""
    size = 64**2 if task in OF_IMAGES else 80
    return CorpusFacts(rows, rows * size, 5, rows * 16 if spaced else 0, rows * 60, more)


def followed(task: str, facts: CorpusFacts, model: dict[str, Any] | None = None) -> Recipe:
    table = MINIMAL[task]
    said = load_recipe({**table, "model": {**table.get("model", {}), **(model or {})}})
    return load_recipe(said, dict(decide(said, facts)))


def test_every_task_has_rules_and_a_minimal_recipe() -> None:
    assert set(MINIMAL) == set(RULES) == {*BY_TASK, *OF_IMAGES}


@pytest.mark.parametrize("spaced", [True, False])
@pytest.mark.parametrize("rows", [10, 300, 3000, 12_000])
@pytest.mark.parametrize("task", MINIMAL)
def test_a_minimal_recipe_trains_a_small_model_for_thousands_of_updates_at_most(
    task: str, rows: int, spaced: bool
) -> None:
    made = followed(task, corpus(task, rows, spaced))
    assert 20 <= made.train.steps <= 20_000
    assert made.train.schedule.warmup <= made.train.steps / 10
    assert made.train.validation.every <= made.train.steps / 10
    assert widest(made) <= 512
    assert made.train.clip_norm == 1.0 or task in ("classify", "regress")


def widest(recipe: Tables) -> int:
    """The greatest width of a network's parts."""
    tables = [recipe.model, *(getattr(recipe.model, part, None) for part in ("encoder", "decoder", "question"))]
    return max(getattr(table, "width", 0) for table in tables)


@pytest.mark.parametrize("task", MINIMAL)
def test_more_data_is_read_for_more_updates_but_fewer_times(task: str) -> None:
    small, large = (followed(task, corpus(task, rows)).train.steps for rows in (600, 15_000))
    assert small <= large < 25 * small


@pytest.mark.parametrize("task", MINIMAL)
def test_the_best_model_is_chosen_by_what_the_task_is_about_where_there_is_validation_data(task: str) -> None:
    table = MINIMAL[task]
    validated = load_recipe({**table, "data": {**table["data"], "valid": table["data"]["train"]}})
    made = load_recipe(validated, dict(decide(validated, corpus(task, 600))))
    assert (made.train.validation.metric == "loss") is (task == "regress_images")


@pytest.mark.parametrize("task", OWN)
def test_a_network_of_ones_own_keeps_its_keys_and_gets_a_length(task: str) -> None:
    decided = decide(
        load_recipe({**MINIMAL[task], "model": {**MINIMAL[task].get("model", {}), **OWN[task]}}), corpus(task, 600)
    )
    assert set(decided) == {"train.steps", "train.validation.every", "train.schedule"}


def test_words_become_phonemes_letter_by_letter_and_are_scored_by_their_errors() -> None:
    validated = {**MINIMAL["translate"], "data": {"train": {"tsv": "a.tsv"}, "valid": {"tsv": "b.tsv"}}}
    decided = decide(load_recipe(validated), CorpusFacts(3000, 3000 * 8, 39))
    assert decided["tokenizer"] == {"kind": "char", "target": {"kind": "word"}}
    assert decided["train.validation.metric"] == "per"
    sentences = decide(load_recipe(validated), CorpusFacts(3000, 3000 * 20, 9000))  # Chinese to English, say
    assert sentences["tokenizer"] == {"kind": "char", "target": {"kind": "byte_bpe", "size": 4000}}
    assert sentences["train.validation.metric"] == "chrf"


def test_a_tagger_with_a_crf_has_no_label_smoothing() -> None:
    said = load_recipe({**MINIMAL["tag"], "model": {"family": "tagger", "crf": True}})
    assert "train.label_smoothing" not in decide(said, corpus("tag", 600))


def test_next_sentences_are_drawn_from_other_documents_where_there_are_some() -> None:
    for rows, draws in ((1, False), (19, False), (20, True)):
        made = load_recipe(
            MINIMAL["fill"], dict(decide(load_recipe(MINIMAL["fill"]), CorpusFacts(rows, 10**5, 0, 10**4)))
        )
        assert made.model.next_sentence is draws  # type: ignore[union-attr]


def test_much_running_text_is_learned_as_in_the_papers() -> None:
    for task in ("generate", "fill"):
        assert "train.steps" not in decide(load_recipe(MINIMAL[task]), CorpusFacts(9000, 10**9, 0, 10**8))
