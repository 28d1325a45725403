"""Fixed translations: their files, and where terms are found."""

from pathlib import Path

import pytest
from tests.shared.refusals import like, refuses

from heedful.base.errors import UserError
from heedful.tasks.translate.word_rules import Terms, read_terms


def write(folder: Path, text: str) -> str:
    path = folder / "terms.tsv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def refused(path: str) -> str:
    with pytest.raises(UserError) as caught:
        read_terms(path)
    return str(caught.value).replace(path, "terms.tsv")


def test_a_file_has_a_term_and_its_translation_on_each_line(tmp_path: Path) -> None:
    path = write(tmp_path, "dog\tHund\n\nhot  dog\t heißer Hund \r\ndog\tHund\n")
    assert read_terms(path) == {"dog": "Hund", "hot dog": "heißer Hund"}


def test_files_that_are_not_lists_of_terms_are_refused(tmp_path: Path) -> None:
    tell = "but must be a term, a tab ..."
    assert refused(write(tmp_path, "dog\tHund\ncat Katze\n")) == like(f"terms.tsv, line 2 has 1 column, {tell}")
    assert refused(write(tmp_path, "a\tb\tc\n")) == like(f"terms.tsv, line 1 has 3 columns, {tell}")
    assert refused(write(tmp_path, "dog\t \n")) == like(f"terms.tsv, line 1 has an empty column, {tell}")
    assert refused(write(tmp_path, "\n\n")) == (
        "terms.tsv has no terms: write a term, a tab and its translation on each line."
    )
    assert refused(write(tmp_path, "dog\tHund\n\ndog\tKöter\n")) == (
        "terms.tsv, line 3: `dog` is to be `Köter`, but line 1 says `Hund`: leave one of them out."
    )
    assert refused(str(tmp_path / "no.tsv")) == "terms.tsv: no such file."


def test_terms_are_found_as_whole_words() -> None:
    terms = Terms({"dog": "Hund", "cat": "Katze"}, str)
    assert terms.find("the dog's cat") == ["Hund", "Katze"]
    assert terms.find("a catalog of dogs , hotdog Dog") == []
    assert terms.find("dog dog") == ["Hund", "Hund"]


def test_the_longest_terms_take_their_places_first() -> None:
    terms = Terms({"dog": "Hund", "hot dog": "Würstchen", "a hot": "x", "dog dog": "zwei"}, str)
    assert terms.find("a hot dog and a dog") == ["Würstchen", "Hund"]
    assert terms.find("dog   dog dog") == ["zwei", "Hund"]


def test_terms_that_a_model_does_not_distinguish_are_one() -> None:
    assert Terms({"Dog": "Hund", "dog": "Hund"}, str.lower).find("dog") == ["Hund"]
    with refuses(
        "`dog` is to be `Köter`, but the model does not distinguish it from a term that is to be `Hund`: leave one of "
        "them out."
    ):
        Terms({"Dog": "Hund", "dog": "Köter"}, str.lower)
