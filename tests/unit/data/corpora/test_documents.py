import json
from hashlib import sha256
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.config.corpora.containers import AnyCorpus, Jsonl, PlainText, Tsv
from heedful.data.corpora.documents import read_documents
from heedful.data.text_form import TextForm

WIKITEXT = Path(__file__).parents[5] / "shared/data/wikitext2"

WIKI_LINES = ("", "= First title =", "", "One . Two .", "= = History = =", "", "Three .", "= = = Of = more = = =",
              "Four = 4 .", "= Empty =", "", "= Second = title =", "Five .")  # fmt: skip
WIKI = "".join(f" {line} \n" for line in WIKI_LINES)


def read(corpus: AnyCorpus, folder: Path, **form: bool) -> list[list[str]]:
    return list(read_documents(corpus, str(folder), TextForm(**form)))


def plain(folder: Path, text: str, **options: object) -> list[list[str]]:
    (folder / "t.txt").write_text(text)
    return read(PlainText.model_validate({"text": "t.txt", **options}), folder)


def test_blank_lines_part_documents(tmp_path: Path) -> None:
    documents = [["One.", "Two.", "three"], ["Four."]]
    assert plain(tmp_path, "\n\nOne. Two.\nthree\n \n\t\nFour.\n") == documents


def test_each_line_can_be_a_document(tmp_path: Path) -> None:
    assert plain(tmp_path, "One. Two.\n\nthree\n", documents="line") == [["One.", "Two."], ["three"]]


def test_each_line_can_be_a_sentence(tmp_path: Path) -> None:
    assert plain(tmp_path, " One. Two.\nthree  3\n\nFour\n", sentences="line") == [["One. Two.", "three  3"], ["Four"]]


def test_titles_begin_documents_and_headings_are_left_out(tmp_path: Path) -> None:
    documents = [["One .", "Two .", "Three .", "Four = 4 ."], ["Five ."]]
    assert plain(tmp_path, WIKI, documents="heading") == documents


@pytest.mark.parametrize("line", ["= = =", "=", "= a", "a =", "= a = =", "= = a =", "== a ==", "a = b"])
def test_what_has_not_the_same_signs_on_both_sides_is_no_heading(line: str, tmp_path: Path) -> None:
    assert plain(tmp_path, f"One\n{line}\nTwo\n", documents="heading") == [["One", line, "Two"]]


def test_text_before_the_first_title_is_a_document(tmp_path: Path) -> None:
    assert plain(tmp_path, "Zero .\n" + WIKI, documents="heading")[:2] == [
        ["Zero ."],
        ["One .", "Two .", "Three .", "Four = 4 ."],
    ]


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    text = "One.\nTwo.\n\nThree.\nFour.\n"
    assert plain(tmp_path, text, lines="2-4") == [["Two."], ["Three."]]
    with refuses('t.txt has 5 lines, but `lines` is "2-9": lower its end.'):
        plain(tmp_path, text, lines="2-9")


def test_documents_of_running_text_are_chosen_by_the_hash_of_their_sentences(tmp_path: Path) -> None:
    whole = [[f"Document {number}.", "It ends."] for number in range(60)]
    text = "\n\n".join(" ".join(document) for document in whole)

    def number(document: list[str]) -> int:
        return int(sha256("\n".join(document).encode()).hexdigest(), 16)

    part = [document for document in whole if number(document) % 3 > 0]
    assert plain(tmp_path, text, part="1-2/3") == part
    smallest = sorted(part, key=number)[:7]
    assert plain(tmp_path, text, part="1-2/3", sample=7) == [document for document in part if document in smallest]


def test_each_text_of_a_table_is_a_document_whatever_its_label(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("0\tOne. Two.<br />three\n1\t \n\tFour.\n")
    documents = [["One.", "Two.", "three"], ["Four."]]
    assert read(Tsv(tsv="t.tsv", text=2), tmp_path) == documents
    assert read(Tsv(tsv="t.tsv", text=2, label=1), tmp_path) == documents


def test_both_texts_of_a_pair_are_documents(tmp_path: Path) -> None:
    rows = [{"a": "One. Two.", "b": "Three."}, {"a": "Four.", "b": ""}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = Jsonl(jsonl="t.jsonl", text="a", second="b")
    assert read(corpus, tmp_path) == [["One.", "Two."], ["Three."], ["Four."]]


def test_a_part_of_a_table_is_chosen_by_its_texts(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("".join(f"Text {number}.\n" for number in range(40)))
    parts = [read(Tsv(tsv="t.tsv", text=1, part=part), tmp_path) for part in ("0/4", "1-3/4")]
    assert all(parts)
    assert sorted(parts[0] + parts[1]) == sorted([f"Text {number}."] for number in range(40))


def test_sentences_are_found_before_capitals_go(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("Go. He e.g. went. U\u0308ber.\n")
    assert read(Tsv(tsv="t.tsv", text=1), tmp_path, lowercase=True, nfc=True) == [["go.", "he e.g. went.", "über."]]
    (tmp_path / "t.txt").write_text("Go. He e.g. went. U\u0308ber.\n")
    assert read(PlainText(text="t.txt"), tmp_path, lowercase=True, nfc=True) == [["go.", "he e.g. went.", "über."]]


@pytest.mark.skipif(not WIKITEXT.exists(), reason=f"no WikiText at {WIKITEXT}")
def test_wikitext_has_its_articles() -> None:
    corpus = PlainText(text="wiki.valid.tokens.gz", documents="heading")
    articles = read(corpus, WIKITEXT)
    assert len(articles) == 60
    assert not any(sentence.startswith("= ") for article in articles for sentence in article)
