"""Between text and pieces: the form, Moses' rules, and the tag of the target language."""

from collections.abc import Sequence

import pytest

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data, Tokenized
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Words
from heedful.data.tokenize.tokenizer import UNKNOWN, Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.tasks.shared.sequences.text_codec import Languages, TextCodec

ENGLISH = "a dog , isn 't it ? <2de>"
OTHERS = "ein Hund , nicht ? l' été !"


def wording(
    *languages: str, tokenized: Tokenized | None = None, nfc: bool = False, lowercase: bool = False
) -> TextCodec:
    """Of a word vocabulary with tags for these languages."""
    corpora = tuple(AlignedFiles(source="a", target="b", to=language) for language in languages or ("",))
    data = Data(train=corpora, tokenized=tokenized, nfc=nfc, lowercase=lowercase)
    recipe = Recipe(data=data, tokenizer=Words(kind="word"))
    form = str.lower if lowercase else str
    joint = train_tokenizer(recipe.tokenizer, [form(ENGLISH), form(OTHERS)], languages)
    return TextCodec(recipe, Vocabularies({"source": joint, "target": joint}))


def pieces(of: TextCodec, texts: Sequence[str], to: Languages = None, raw: bool = False) -> list[list[str]]:
    return [_tokenizer(of).pieces(ids) for ids in of.encode(texts, to, raw, "corpus", 1)]


def _tokenizer(of: TextCodec) -> Tokenizer:
    return of._source


def refused(of: TextCodec, texts: Sequence[str], to: Languages = None, raw: bool = False, first: int = 1) -> str:
    with pytest.raises(UserError) as caught:
        of.encode(texts, to, raw, "corpus", first)
    return str(caught.value)


# --- tags -------------------------------------------------------------------------------------------------------------


def test_a_target_language_puts_its_tag_before_every_source() -> None:
    both = wording("de", "fr")
    assert pieces(both, ["a dog", "it"], "fr") == [["<2fr>", "a", "dog"], ["<2fr>", "it"]]
    assert pieces(both, ["a dog", "it"], ["de", "fr"]) == [["<2de>", "a", "dog"], ["<2fr>", "it"]]


def test_a_tag_before_a_text_asks_for_its_language() -> None:
    assert pieces(wording("de", "fr"), ["<2fr> a dog", "  <2de>it", "<2de>\ta <2fr> dog"]) == [
        ["<2fr>", "a", "dog"],
        ["<2de>", "it"],
        ["<2de>", "a", "<unk>", "dog"],  # only the first is a tag
    ]


def test_a_tag_before_a_text_whose_language_is_given_is_refused() -> None:
    message = "corpus, line 2 begins with <2de>, but `to` is given too: leave one of them out."
    assert refused(wording("de", "fr"), ["dog", " <2de> dog"], "fr") == message
    (ids,) = wording("de", "fr").encode(["a <2de> dog"], "fr", False, "corpus", 1)  # inside it is text
    assert ids[2] == UNKNOWN


def test_a_model_without_tags_reads_no_tag_out_of_text() -> None:
    assert pieces(wording(), ["<2de> dog"]) == [["<2de>", "dog"]]


def test_each_text_may_have_a_language_or_its_tag() -> None:
    assert pieces(wording("de", "fr"), ["a", "<2de> dog"], ["fr", None]) == [["<2fr>", "a"], ["<2de>", "dog"]]  # type: ignore[list-item]


@pytest.mark.parametrize("to", [None, "de"])
def test_a_blank_text_has_no_pieces_and_needs_no_tag(to: str | None) -> None:
    assert pieces(wording("de", "fr"), ["", " \t", "<2de> it" if to is None else "it"], to) == [[], [], ["<2de>", "it"]]
    assert pieces(wording("de"), ["<2de>  "]) == [[]]


def test_a_missing_tag_is_refused_with_its_line() -> None:
    known = "begin it with one of <2de>, <2fr>, or use `to`."
    both = wording("fr", "de")
    assert refused(both, ["<2de> it", "", "a dog"]) == f"corpus, line 3 does not say its target language: {known}"
    assert refused(both, ["dog <2de>"], first=1001) == f"corpus, line 1,001 does not say its target language: {known}"


def test_an_unknown_tag_is_refused_with_its_line() -> None:
    message = "corpus, line 2: <2cs> is not in the vocabulary: it has <2de>, <2fr>."
    assert refused(wording("de", "fr"), ["<2de> it", "<2cs> a dog"]) == message


def test_an_unknown_language_is_refused() -> None:
    assert refused(wording("de", "fr"), ["it"], "cs") == "<2cs> is not in the vocabulary: it has <2de>, <2fr>."


def test_a_language_for_a_model_without_tags_is_refused() -> None:
    assert refused(wording(), ["it"], "de") == (
        "`to` is `de`, but this model has one target language and no tags: leave it out."
    )


def test_texts_and_languages_of_other_numbers_are_refused() -> None:
    message = "2 texts, but 1 target language: each text needs one."
    assert refused(wording("de"), ["a", "dog"], ["de"]) == message


def test_a_source_tells_its_target_language() -> None:
    both = wording("de", "fr")
    languages = [both.language(source) for source in both.encode(["<2fr> it", "", "<2de> a"], None, False, "x", 1)]
    assert languages == ["fr", None, "de"]
    assert wording().language(wording().encode(["it"], None, False, "x", 1)[0]) is None


# --- the form ---------------------------------------------------------------------------------------------------------


def test_text_is_brought_into_the_form_that_the_model_was_trained_on() -> None:
    lower = wording(lowercase=True)
    assert pieces(lower, ["A DOG"]) == [["a", "dog"]]
    assert lower.normalise("Ein HUND") == "ein hund"
    assert pieces(wording(), ["A dog"]) == [["<unk>", "dog"]]
    assert pieces(wording(nfc=True), ["e\u0301te\u0301"]) == pieces(wording(nfc=True), ["été"])
    assert pieces(wording("de", lowercase=True), ["<2de> A DOG"]) == [["<2de>", "a", "dog"]]


def test_target_pieces_of_a_blank_text_are_none() -> None:
    assert [len(ids) for ids in wording().encode_target(["ein Hund", " ", ""], [()] * 3)] == [2, 0, 0]


# --- ordinary text ----------------------------------------------------------------------------------------------------

ENGLISH_GERMAN = Tokenized(source="en", target="de")


def test_raw_text_is_split_on_the_way_in_and_joined_on_the_way_out() -> None:
    of = wording(tokenized=ENGLISH_GERMAN, lowercase=True)
    assert pieces(of, ["A dog, isn't it?"], raw=True) == [["a", "dog", ",", "isn", "'t", "it", "?"]]
    assert pieces(of, ["A dog, isn't it?"]) == [["a", "<unk>", "<unk>", "<unk>"]]
    ids = of.encode_target(["ein hund , nicht ?"], [()])
    assert list(of.decode(ids, [None], raw=True)) == ["ein hund, nicht?"]
    assert list(of.decode(ids, [None], raw=False)) == ["ein hund , nicht ?"]


def test_the_target_language_of_a_text_decides_how_its_words_are_joined() -> None:
    of = wording("de", "fr", tokenized=ENGLISH_GERMAN)
    ids = of.encode_target(["l' été !"] * 3, [()] * 3)
    assert list(of.decode(ids, ["fr", "de", None], raw=True)) == ["l'été !", "l' été!", "l' été!"]
    assert of.ordinary("l' été !", "fr") == "l'été !"


def test_raw_text_may_begin_with_a_tag() -> None:
    of = wording("de", "fr", tokenized=ENGLISH_GERMAN)
    assert pieces(of, ["<2fr> a dog, it"], raw=True) == [["<2fr>", "a", "dog", ",", "it"]]


def test_where_text_is_not_tokenized_it_is_ordinary_already() -> None:
    assert wording().ordinary("ein Hund , nicht ?") == "ein Hund , nicht ?"


def test_raw_text_is_refused_where_text_is_ordinary() -> None:
    message = "`raw` is for models of tokenized text, but this one reads ordinary text: leave it out."
    assert refused(wording(), ["it"], raw=True) == message
