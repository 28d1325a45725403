"""Every key of every table has a meaning."""

from collections.abc import Iterator

from heedful.config.model.encoder_only import BertModel
from heedful.config.model.pooled import ClassifierModel
from heedful.config.reading.describing.entries import KeyEntry, table_meaning
from heedful.config.reading.outline import tables_in
from heedful.config.recipe import Recipe
from heedful.config.section import Section
from heedful.config.train.schedules import Noam


def tables(section: type[Section]) -> Iterator[type[Section]]:
    """All tables below one, with all their kinds."""
    yield section
    for field in section.model_fields.values():
        for member in tables_in(field.annotation).values():
            yield from tables(member)


def meaning_of(table: type[Section], key: str) -> str:
    """The meaning of a key."""
    return KeyEntry(key, table, (), ()).meaning


KEYS = {(table, key) for table in tables(Recipe) for key in table.model_fields}


def test_every_key_has_a_meaning_of_whole_sentences_that_fits_on_a_line() -> None:
    assert len(KEYS) > 250
    for table, key in KEYS:
        meaning = meaning_of(table, key)
        assert meaning[:1].isupper(), (table, key)
        assert all(paragraph.endswith(".") for paragraph in meaning.split("\n")), (table, key)
        assert len(meaning.partition("\n")[0]) <= 120, (table, key)


def test_every_table_says_what_it_is() -> None:
    assert all(table_meaning(table) for table, _ in KEYS)
    assert table_meaning(ClassifierModel).startswith("An encoder, a pool")


def test_a_key_with_a_new_default_keeps_its_meaning() -> None:
    assert meaning_of(BertModel, "width") == "Width of embeddings and states."


def test_the_key_that_chooses_a_kind_says_so() -> None:
    assert meaning_of(Noam, "kind") == "The kind of this table, which decides its other keys."


def test_what_is_not_a_key_has_no_meaning() -> None:
    assert meaning_of(Noam, "nothing") == ""
