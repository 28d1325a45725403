"""Each key of the schema as an entry: examples that are valid, and the tasks that it applies to."""

import tomllib

import pytest

from heedful.config.corpora.corpus import Corpus
from heedful.config.data import Data, ImageForm
from heedful.config.reading.describing.entries import COMPANIONS, KeyEntry, all_entries, applies, entries_of
from heedful.config.reading.outline import MARKS, mark_of
from heedful.config.reading.toml import toml_value
from heedful.config.tasks import TASKS

ENTRIES = all_entries()


def test_every_example_is_a_valid_table_that_sets_its_key() -> None:
    assert len(ENTRIES) > 400
    for entry in {(entry.holder, entry.key): entry for entry in ENTRIES if entry.table}.values():
        values = tomllib.loads("\n".join(entry.example_table))
        for part in entry.table.split("."):
            values = values[part]
        assert entry.key in entry.holder.model_validate(values).model_fields_set, entry


def test_an_example_of_a_choice_or_a_number_is_not_the_default() -> None:
    shown = {entry.path: entry for entry in all_entries()}
    for path in ("decode.beam", "decode.length_penalty", "train.seed", "model.norm", "data.nfc", "train.precision"):
        assert shown[path].example != toml_value(shown[path].default)
    plain = [entry for entry in all_entries() if type(entry.default) in (bool, int) and entry.key not in MARKS]
    same = [entry.path for entry in plain if entry.example == toml_value(entry.default)]
    assert len(same) < len(plain) / 20, same


def test_every_key_without_a_default_has_an_example_and_every_companion_has_a_key() -> None:
    declared = {f"{base.__name__}.{entry.key}" for entry in ENTRIES for base in entry.holder.__mro__}
    assert set(COMPANIONS) <= declared
    for entry in ENTRIES:
        assert entry.field.examples or entry.default is not None or entry.key == mark_of(entry.holder), entry


class _WithOtherImages(Data):
    """The table of data with another default of a key."""

    images: ImageForm = ImageForm(height=8)


def test_a_key_with_a_new_default_keeps_its_example() -> None:
    redeclared = KeyEntry("data.images", _WithOtherImages, (), ())
    assert redeclared.field.examples is None
    assert redeclared.example == "{ height = 224, width = 224 }"


@pytest.mark.parametrize(
    ("path", "tasks"),
    [
        ("train.steps", {*TASKS}),
        ("train.masking.share", {"fill"}),
        ("train.class_weights", {"classify", "classify_images"}),
        ("decode.beam", {"translate", "parse", "caption"}),
        ("data.train.caption", {"caption"}),
        ("data.train.to", {"translate"}),
        ("data.train.label", {"classify", "classify_images", "tag"}),
        ("data.train.number", {"regress", "regress_images"}),
        ("data.train.question", {"answer", "answer_images"}),
        ("data.train.variants", {"translate"}),
        ("data.train.documents", {"fill", "generate"}),
        ("model.wiring", {"translate", "parse"}),
        ("data.train.leaves", {"parse"}),
        ("model.next_sentence", {"fill"}),
        ("model.encoder.words.cell", {"classify", "regress"}),
    ],
)
def test_a_key_applies_to_the_tasks_that_read_it(path: str, tasks: set[str]) -> None:
    assert {task for entry in entries_of(path) for task in entry.tasks} == tasks


def test_what_belongs_to_one_task_does_not_apply_to_another() -> None:
    assert applies("decode.beam", TASKS["translate"])
    assert not applies("decode.beam", TASKS["fill"])
    assert applies("train.steps", TASKS["fill"])


def test_an_item_of_a_list_has_the_keys_of_the_list() -> None:
    assert entries_of("data.train.0.lines") == entries_of("data.train.lines") != []
    assert all(issubclass(entry.holder, Corpus) for entry in entries_of("data.train.1.lines"))


def test_an_entry_says_what_its_value_must_be_and_its_default() -> None:
    [steps] = entries_of("train.steps")
    assert (steps.value, steps.default_in_words) == ("a whole number of at least 1", "100000")
    [metric] = entries_of("train.validation.metric")
    assert metric.value.startswith('translate: "loss", "perplexity", "bleu", "chrf", "ter"')
    assert {entry.default_in_words for entry in entries_of("train.schedule.lr")} == {"required"}
    assert {entry.value for entry in entries_of("train.optimizer.kind")} == {
        f'"{kind}"' for kind in ("adam", "adamw", "radam", "muon", "rmsprop", "adagrad", "sgd")
    }
