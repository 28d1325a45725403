"""Texts of HTML: the page around them stays as it is written, whatever it is."""

from html import escape, unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.text_routines import seconds

from heedful.server.html import HtmlTexts

PARTS = st.sampled_from([
    "<p>", "</p>", "</P >", "<br>", "<br/>", "<B class='a>b'>", "</b>", '<a href="x?a=1&amp;b" title=\'"\'>', "</a>",
    "<!-- a -->", "<!-->", "<!--", "-->", "<!DOCTYPE html>", "<?php a > b ?>", "<![CDATA[a]]>", "<script>",
    "</script>", "<style>", "</style >", "<textarea>", "</textarea>", "<code translate=yes>", "</code>",
    "<i translate='no'>", "</i>", "<svg/>", "<", ">", "</", "</>", "<>", "< a", "&", "&amp;", "&nbsp;", "&#x41;",
    "&lt;b&gt;", "&unknown;", "a", " b ", "the dog", "\n", "=", "'", '"', "<a b=c", "<a b='", "日本", "\x00", "<p",
    "<a\n\t b =\n'>'>",
])  # fmt: skip
PAGES = st.lists(PARTS, max_size=12).map("".join) | st.text()


@given(PAGES)
def test_with_its_own_texts_a_page_is_the_same_up_to_the_spelling_of_texts(page: str) -> None:
    read = HtmlTexts(page)
    again = read.with_texts(read.texts)
    assert unescape(again) == unescape(page)
    assert HtmlTexts(again).texts == read.texts
    assert HtmlTexts(again).with_texts(read.texts) == again


@given(PAGES)
def test_other_texts_take_the_place_of_texts_and_can_be_no_markup(page: str) -> None:
    read = HtmlTexts(page)
    written = [f"<script>{number}</script> & '" for number in range(len(read.texts))]
    found = HtmlTexts(read.with_texts(written))
    assert found.texts == written
    assert [part for part in found._parts if isinstance(part, str)] == [
        part for part in read._parts if isinstance(part, str)
    ]


@given(st.lists(st.text().filter(str.strip), min_size=1, max_size=4))
def test_texts_between_tags_are_found(texts: list[str]) -> None:
    page = "<br>".join(f"<p>{escape(text, quote=False)}</p>" for text in texts)
    assert HtmlTexts(page).texts == [unescape(escape(text, quote=False)) for text in texts]


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("", []),
        ("no tags", ["no tags"]),
        ("<p>one</p> <p>&nbsp;</p>\n<p>two &amp; three</p>", ["one", "two & three"]),
        ("a < b and c > d", ["a < b and c > d"]),
        ("a <b>c</b> d", ["a ", "c", " d"]),
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
    assert unescape(read.with_texts(read.texts)) == unescape(page)


def test_what_is_kept_is_not_spelled_in_another_way() -> None:
    page = "<CODE>&nbsp;&#65;</CODE ><br  /><A HREF=x>&nbsp;</A\n><!--&amp;--><p translate=no>&quot;</p>"
    assert HtmlTexts(page).with_texts([]) == page


@pytest.mark.parametrize(
    "part",
    ["<", "<!--", "<a ", "<a b='", "<script>", "</script", "<!", "</", "&", "<code>", "<p translate=no>", "=", "<a =",
     "<a b=c", "<textarea></textarea>", "<![CDATA[", "<p>a"],
)  # fmt: skip
def test_the_time_for_a_page_is_linear_in_its_length(part: str) -> None:
    assert seconds(lambda page: HtmlTexts(page).with_texts(HtmlTexts(page).texts), part * 30_000) < 20
