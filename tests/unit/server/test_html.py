"""Texts of HTML: the page around them stays as it is written, whatever it is, and tags of words stay around words."""

import re
from collections import Counter
from html import escape, unescape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.text_routines import seconds

from heedful.server.html import HtmlTexts, Span
from heedful.server.html_spans import plain, with_spans

PARTS = st.sampled_from([
    "<p>", "</p>", "</P >", "<br>", "<br/>", "<B class='a>b'>", "</b>", '<a href="x?a=1&amp;b" title=\'"\'>', "</a>",
    "<!-- a -->", "<!-->", "<!--", "-->", "<!DOCTYPE html>", "<?php a > b ?>", "<![CDATA[a]]>", "<script>",
    "</script>", "<style>", "</style >", "<textarea>", "</textarea>", "<code translate=yes>", "</code>",
    "<i translate='no'>", "</i>", "<svg/>", "<", ">", "</", "</>", "<>", "< a", "&", "&amp;", "&nbsp;", "&#x41;",
    "&lt;b&gt;", "&unknown;", "a", " b ", "the dog", "\n", "=", "'", '"', "<a b=c", "<a b='", "日本", "\x00", "<p",
    "<a\n\t b =\n'>'>",
])  # fmt: skip
PAGES = st.lists(PARTS, max_size=12).map("".join) | st.text()


def blanks(text: str) -> str:
    """Return a text as a browser shows it: white space is one space."""
    return re.sub("[ \t\n\r\f]+", " ", unescape(text)).strip()


def words_of(text: str) -> list[dict[str, str]]:
    return [{"before": before, "text": word} for before, word in re.findall(r"(\s*)(\S+)", text)]


def described(text: str, translation: str, links: list[list[float]]) -> dict[str, Any]:
    """A translation as a job describes it."""
    return {"sentences": [{"source_words": words_of(text), "words": words_of(translation), "links": links}]}


def itself(text: str) -> dict[str, Any]:
    """A text as its own translation."""
    return described(text, text, [])


def own(read: HtmlTexts) -> list[str]:
    """The markup of a page's texts, each translated to itself."""
    return [with_spans(text, spans, itself(text)) for text, spans in zip(read.texts, read.spans, strict=True)]


TAG = re.compile(r"<(/?)([a-z0-9]+)[^>]*>")


def tags(markup: str) -> Counter[str]:
    return Counter(found[0] for found in TAG.finditer(markup))


def nests(markup: str) -> bool:
    opened: list[str] = []
    for end, name in TAG.findall(markup):
        if not end:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return False
    return not opened


@given(PAGES)
def test_with_its_own_texts_a_page_is_the_same_up_to_spaces_and_the_words_that_tags_are_in(page: str) -> None:
    read = HtmlTexts(page)
    again = read.with_markup(own(read))
    if all(not span for span in read.spans):
        assert blanks(again) == blanks(page)
    texts = [blanks("".join(HtmlTexts(markup).texts)).replace(" ", "") for markup in (page, again)]
    assert texts[0] == texts[1]


@given(PAGES)
def test_other_texts_take_the_place_of_texts_and_can_be_no_markup(page: str) -> None:
    read = HtmlTexts(page)
    written = [f"<script>{number}</script> & '" for number in range(len(read.texts))]
    again = HtmlTexts(read.with_markup(list(map(plain, written))))
    assert again.texts == written
    assert [part for part in again._parts if isinstance(part, str)] == [
        part for part in read._parts if isinstance(part, str)
    ]


# --- tags of words ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "text", "spans"),
    [
        ("a <b>c</b> d", "a c d", [Span(2, 3, "<b>", "</b>")]),
        ("<p>\n the <B>red\n  dog</B>, <i>(it)</i> </p>", "the red dog, (it)",
         [Span(4, 11, "<B>", "</B>"), Span(13, 17, "<i>", "</i>")]),
        ("<b>all of it</b>", "all of it", []),
        ("<a href=x><b>all</b> <i></i></a>", "all", []),
        ("a <b>c <i>d</i></b>", "a c d", [Span(2, 5, "<b>", "</b>"), Span(4, 5, "<i>", "</i>", 1)]),
        ("a<sup><a href='#1'></a></sup> c", "a c",
         [Span(1, 1, "<sup>", "</sup>"), Span(1, 1, "<a href='#1'>", "</a>", 1)]),
    ],
)  # fmt: skip
def test_tags_of_words_are_spans_of_one_text(page: str, text: str, spans: list[Span]) -> None:
    read = HtmlTexts(page)
    assert read.texts == [text]
    assert read.spans == [tuple(spans)]
    assert blanks(read.with_markup(own(read))) == blanks(page)


@pytest.mark.parametrize(
    ("page", "texts"),
    [("a <b>c", ["a", "c"]), ("a</b> c", ["a", "c"]), ("a <b>c <i>d</b> e</i> f", ["a", "c", "d", "e", "f"]),
     ("a <b/>c", ["a", "c"]), ("a <b><code>c</code></b> d", ["a", "d"]), ("a <b translate=no>c</b> d", ["a", "d"])],
)  # fmt: skip
def test_tags_that_do_not_nest_and_what_is_kept_divide_texts(page: str, texts: list[str]) -> None:
    read = HtmlTexts(page)
    assert read.texts == texts
    assert not any(read.spans)
    assert blanks(read.with_markup(own(read))) == blanks(page)


def test_tags_follow_the_words_that_they_were_around() -> None:
    page = "the <a href='x' id=y>red car</a>, <i>(very)</i> old <b>today</b>."
    (text,), (spans,) = HtmlTexts(page).texts, HtmlTexts(page).spans
    order = [5, 0, 2, 1, 3, 4]  # of the source, by words of: hoy, el coche rojo, (muy) viejo.
    links = [[float(word == source) for word in range(6)] for source in order]
    assert with_spans(text, spans, described(text, "hoy, el coche rojo, (muy) viejo.", links)) == (
        "<b>hoy</b>, el <a href='x' id=y>coche rojo</a>, <i>(muy)</i> viejo."
    )


def test_a_word_between_two_of_an_element_belongs_to_it_and_a_second_element_has_no_id() -> None:
    text, spans = "a c d", (Span(0, 1, "<b id='x' class=y>", "</b>"),)
    first, third = [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]
    between = described(text, "o p q", [first, third, first])
    assert with_spans(text, spans, between) == "<b id='x' class=y>o p q</b>"
    apart = described(text, "o p q r", [first, third, third, first])
    assert with_spans(text, spans, apart) == "<b id='x' class=y>o</b> p q <b class=y>r</b>"


def test_an_element_that_no_word_takes_goes_to_the_word_that_reads_most_of_it() -> None:
    text, spans = "a c d", [Span(2, 3, "<b>", "</b>")]
    assert with_spans(text, spans, described(text, "o p", [[0.6, 0.4, 0.0], [0.0, 0.1, 0.9]])) == "<b>o</b> p"
    spans = [Span(0, 1, "<i>", "</i>"), *spans]
    assert with_spans(text, spans, described(text, "o p", [[0.6, 0.4, 0.0], [0.0, 0.1, 0.9]])) == ("<b></b><i>o</i> p")
    assert with_spans(text, spans, described(text, "", [])) == "<i></i><b></b>"


NAMES = ("b", "i", "em", "a")
ROWS = st.lists(st.floats(0, 1, width=16), min_size=4, max_size=4)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4),
    st.lists(st.tuples(st.sampled_from(["o", "(p)", "q,", "<b>", "&"]), ROWS), max_size=7),
)
def test_whatever_is_linked_elements_nest_none_is_lost_and_the_words_are_the_translation(
    chosen: list[tuple[int, int]], written: list[tuple[str, list[float]]]
) -> None:
    words, page = ["the", "dog,", "(it)", "sees"], ""
    spans = sorted({(min(pair), max(pair)) for pair in chosen}, key=lambda pair: (pair[0], -pair[1]))
    kept = [pair for pair in spans if all((a <= pair[0] and pair[1] <= b) or pair[1] < a or b < pair[0] or
                                          (pair[0] <= a and b <= pair[1]) for a, b in spans)]  # fmt: skip
    for index, word in enumerate(words):
        begun = [NAMES[spans.index(pair)] for pair in kept if pair[0] == index]
        ended = [NAMES[spans.index(pair)] for pair in reversed(kept) if pair[1] == index]
        page += " " + "".join(f"<{name}>" for name in begun) + word + "".join(f"</{name}>" for name in ended)
    read = HtmlTexts(f"{page} today")
    text, translation = read.texts[0], " ".join(word for word, _ in written)
    links = [[*row, 0.0] for _, row in written]
    markup = with_spans(text, read.spans[0], described(text, translation, links))
    assert nests(markup)
    assert set(tags(markup)) == {tag for span in read.spans[0] for tag in (span.opening, span.closing)}
    assert unescape(TAG.sub("", markup)) == translation


# --- texts ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.text().filter(str.strip), min_size=1, max_size=4))
def test_texts_between_tags_are_found(texts: list[str]) -> None:
    page = "<br>".join(f"<p>{escape(text, quote=False)}</p>" for text in texts)
    assert list(map(blanks, HtmlTexts(page).texts)) == list(map(blanks, texts))


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("", []),
        ("no tags", ["no tags"]),
        ("<p>one</p> <p>&nbsp;</p>\n<p>two &amp; three</p>", ["one", "two & three"]),
        ("a < b and c > d", ["a < b and c > d"]),
        ("<p title='a > b'>c", ["c"]),
        ("<p title=a>b", ["b"]),
        ("<p it's>a", ["a"]),
        ("<script>if (a < b) '</p>'</script>c", ["c"]),
        ("<SCRIPT>a</Script >b", ["b"]),
        ("<script>a", []),
        ("<style>p > a {}</style>b", ["b"]),
        ("<script/>a", ["a"]),
        ("<textarea><p>a</textarea>b", ["b"]),
        ("<code>a</code>b<pre>c</pre>", ["b"]),
        ("<code>a<code>b</code>c</code>d", ["d"]),
        ("<p translate=no>a</p>b", ["b"]),
        ("<p translate = 'NO'>a<b>c</b></p>d", ["d"]),
        ("<p data-translate=no title=\"translate='no'\">a</p>", ["a"]),
        ("<img translate=no>a", ["a"]),
        ("<!-- <p>a</p> -->b", ["b"]),
        ("<!-- a", []),
        ("<!-->a-->b", ["a-->b"]),
        ("<!DOCTYPE html><?xml a?>b", ["b"]),
        ("</p>a</>b", ["a", "b"]),
        ("<title>a</title>", ["a"]),
        ("<p", []),
        ("<p class='a", []),
    ],
)
def test_what_is_text_and_what_is_not(page: str, texts: list[str]) -> None:
    read = HtmlTexts(page)
    assert read.texts == texts
    assert blanks(read.with_markup(own(read))) == blanks(page)


def test_what_is_kept_is_not_spelled_in_another_way() -> None:
    page = "<CODE>&nbsp;&#65;</CODE ><br  /><A HREF=x>&nbsp;</A\n><!--&amp;--><p translate=no>&quot;</p>"
    assert HtmlTexts(page).with_markup([]) == page


@pytest.mark.parametrize(
    "part",
    ["<", "<!--", "<a ", "<a b='", "<script>", "</script", "<!", "</", "&", "<code>", "<p translate=no>", "=", "<a =",
     "<a b=c", "<textarea></textarea>", "<![CDATA[", "<p>a", "<b>a </b>c ", "<b>a ", "a </b>", "<b></b> "],
)  # fmt: skip
def test_the_time_for_a_page_is_linear_in_its_length(part: str) -> None:
    assert seconds(lambda page: HtmlTexts(page).with_markup(own(HtmlTexts(page))), part * 30_000) < 20
