"""Several references of one source: variants in a table, and further files line by line."""

from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles, Jsonl, Tsv
from heedful.config.reading.load import recipe_from_json
from heedful.data.corpora.files import content_key
from heedful.data.corpora.in_memory import spool
from heedful.data.corpora.pairs import read_pairs, read_references
from heedful.data.text_form import TextForm
from heedful.doctor.corpora.data import check_data
from heedful.tasks.translate.rules import TRANSLATE


@pytest.fixture
def words(tmp_path: Path) -> str:
    (tmp_path / "words.tsv").write_text("a\tAH\ncat\tK AE T\na\tEY\n\t\nA\tEY\na\tAH\nb\t\n")
    return str(tmp_path)


def test_targets_of_one_source_are_its_references_and_come_where_it_occurs_first(words: str) -> None:
    corpus = Tsv(tsv="words.tsv", variants=True)
    assert [*read_references(corpus, words)] == [("a", ("AH", "EY")), ("cat", ("K AE T",)), ("A", ("EY",))]
    lowercase = TextForm(lowercase=True)
    assert next(read_references(corpus, words, lowercase)) == ("a", ("ah", "ey"))


def test_every_variant_is_an_example_of_training(words: str) -> None:
    plain, variants = Tsv(tsv="words.tsv"), Tsv(tsv="words.tsv", variants=True)
    assert [*read_pairs(variants, words)] == [*read_pairs(plain, words)] == [*read_references(plain, words)]


def test_a_corpus_without_variants_has_the_cache_key_that_it_always_had(words: str) -> None:
    plain, variants = Tsv(tsv="words.tsv"), Tsv(tsv="words.tsv", variants=True)
    assert "variants" not in str(content_key(plain, words))
    assert content_key(plain, words) != content_key(variants, words)
    assert Jsonl(jsonl="x").options() == {"lines": "", "to": "", "source": "source", "target": "target"}
    assert AlignedFiles(source="x", target="y").options() == {"lines": "", "to": ""}


def test_variants_are_not_told_as_sources_with_several_targets(words: str) -> None:
    for variants in (False, True):
        corpus = {"tsv": "words.tsv", "variants": variants}
        recipe = recipe_from_json({"data": {"folder": words, "train": [corpus], "valid": [corpus]}}, "here")
        told = {finding.kind for finding in check_data(recipe, lambda message: None).findings}
        assert ("ambiguous" in told) != variants


def test_a_target_in_json_may_be_a_list_of_variants(tmp_path: Path) -> None:
    (tmp_path / "w.jsonl").write_text('{"source": "a", "target": ["AH", "EY"]}\n{"source": "b", "target": "B IY"}\n')
    corpus = Jsonl(jsonl="w.jsonl", variants=True)
    assert [*read_pairs(corpus, str(tmp_path))] == [("a", "AH"), ("a", "EY"), ("b", "B IY")]
    assert [*read_references(corpus, str(tmp_path))] == [("a", ("AH", "EY")), ("b", ("B IY",))]
    message = r"w\.jsonl, line 1: field `target` is a list, but must be text unless `variants` is true\.$"
    with pytest.raises(UserError, match=message):
        list(read_pairs(Jsonl(jsonl="w.jsonl"), str(tmp_path)))
    (tmp_path / "w.jsonl").write_text('{"source": "a", "target": []}\n')
    with refuses("...field `target` is an empty list, but must have at least one text."):
        list(read_pairs(corpus, str(tmp_path)))


def test_rows_in_memory_may_have_lists_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path))
    corpus = Jsonl(**spool([("a", ["AH", "EY"]), ("b", "B IY")], TRANSLATE, "words"))  # type: ignore[arg-type]
    assert corpus.variants
    assert [*read_references(corpus)] == [("a", ("AH", "EY")), ("b", ("B IY",))]
    assert "variants" not in spool([("b", "B IY")], TRANSLATE, "words")


def test_further_files_have_further_references(tmp_path: Path) -> None:
    for name, text in {"in": "a\nb\n", "1": "A\nB\n", "2": "AA\nBB\n"}.items():
        (tmp_path / name).write_text(text)
    corpus = AlignedFiles(source="in", target="1", references=("2",))
    assert [*read_references(corpus, str(tmp_path))] == [("a", ("A", "AA")), ("b", ("B", "BB"))]
    assert [*read_pairs(corpus, str(tmp_path))] == [("a", "A"), ("b", "B")]
    assert corpus.files() == ("in", "1", "2")
    assert [*corpus.named_files()] == [("source", "in"), ("target", "1"), ("references", "2")]
    part = corpus.model_copy(update={"lines": "2-2"})
    assert [*read_references(part, str(tmp_path))] == [("b", ("B", "BB"))]
    (tmp_path / "2").write_text("AA\n")
    with refuses("...2 has 1 line but ...in has 2: line n of one belongs to ..."):
        list(read_references(corpus, str(tmp_path)))
