"""Translations: words with their links, runners-up, alternatives, the spacing of long texts, and HTML."""

import random
import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from tests.serve.questions import SHORT, SPACED, TEXT
from tests.serve.running import Running
from tests.shared.covering import one_in
from tests.shared.refusals import like

Model = Callable[[str], Any]
WITH_ATTENTION = [
    "transformer", "recurrent-bahdanau", "transformer-languages", "mixed", "recurrent-luong-local", "recurrent-cho",
    "transformer-additive-entmax", "transformer-alibi-sparsemax", "transformer-int8", "transformer-kernel",
    "transformer-pre-norm-rope-separate", "transformer-relative-silu", "recurrent-sutskever",
]  # fmt: skip
WITHOUT = {"recurrent-cho", "recurrent-sutskever"}  # attention


def translated(server: Running, name: str, text: str, **options: Any) -> Any:
    to = {"to": "es"} if server.served(name).service.languages else {}
    (result,) = server.results("/v1/translate", {"model": name, "text": text, **to, **SHORT, **options})
    return result


def joined(words: list[dict[str, Any]]) -> str:
    return "".join(word["before"] + word["text"] for word in words)


@pytest.mark.parametrize("name", one_in(4, WITH_ATTENTION))
def test_words_with_what_is_before_them_are_the_text_on_both_sides(server: Running, name: str) -> None:
    for text in (TEXT, "The dog, e.g. “Rex”,   ran…  \n\n", "dogs", " ", "\n", "日本の犬。 the dog", "ẞİ the DOG"):
        found = translated(server, name, text, beam=1, details=True)
        sentences = found["sentences"]
        assert "".join(joined(one["source_words"]) for one in sentences) == text
        assert "".join(joined(one["words"]) for one in sentences) == found["text"]


@pytest.mark.parametrize("name", one_in(4, WITH_ATTENTION, first=1))
def test_links_are_the_weights_of_the_words_of_the_source_for_each_word(server: Running, name: str) -> None:
    found = translated(server, name, TEXT, beam=2, details=True)
    for sentence in found["sentences"]:
        if not sentence["links"]:
            assert name in WITHOUT or not joined(sentence["words"]).strip()
            continue
        real = [word for word in sentence["words"] if word["text"]]
        assert len(sentence["links"]) in (len(real), len(sentence["words"]))
        for row in sentence["links"]:
            assert len(row) in (len(sentence["source_words"]), len(sentence["source_words"]) - 1)
            assert all(weight >= 0 for weight in row)
            assert sum(row) <= 1.001
        assert all(0 <= word["probability"] <= 1 for word in sentence["words"])


@pytest.mark.parametrize("name", one_in(5, WITH_ATTENTION))
def test_a_runner_up_that_is_chosen_begins_the_translation(server: Running, name: str) -> None:
    text = f"{SPACED[0][1]}\n\n{SPACED[1][1]}"
    to = {"to": "es"} if server.served(name).service.languages else {}
    body = {"model": name, "text": text, "beam": 1, **to, **SHORT}
    (found,) = server.results("/v1/translate", {**body, "details": True})
    before, chosen = "", 0
    for number, sentence in enumerate(found["sentences"]):
        said = ""
        for word in sentence["words"]:
            assert len(word["runners_up"]) <= 4
            assert [*word["runners_up"]] == sorted(word["runners_up"], key=lambda one: -one["probability"])
            for other in word["runners_up"][:1]:
                assert other["sentence"] == number
                assert other["text"] != word["text"]
                assert other["prefix"].endswith(other["text"])
                asked = {**body, "prefix": other["prefix"], "sentence": number}
                answer = server.post("/v1/translate", asked)
                if answer.status_code == 422:  # it has as many tokens as a translation may have
                    assert (answer.json()["error"]["param"], word) == ("max_extra", sentence["words"][-1])
                    continue
                again = answer.json()["results"][0]
                assert again["text"].startswith(before + sentence["words"][0]["before"] + other["prefix"])
                chosen += 1
            said += word["before"] + word["text"]
        before += said
    assert chosen


def test_alternatives_are_different_and_ranked(server: Running) -> None:
    for name in ("transformer", "recurrent-bahdanau"):
        found = translated(server, name, SPACED[0][1], alternatives=5)
        texts = [found["text"], *(other["text"] for other in found["alternatives"])]
        scores = [found["score"], *(other["score"] for other in found["alternatives"])]
        assert 1 < len(set(texts)) == len(texts) <= 6
        assert scores == sorted(scores, reverse=True)


def test_a_text_without_alternatives_asked_for_has_none(server: Running) -> None:
    assert "alternatives" not in translated(server, "transformer", "the dog")
    assert translated(server, "transformer", " \n ", alternatives=3)["alternatives"] == []


# --- long texts -------------------------------------------------------------------------------------------------------


def test_a_long_text_keeps_its_line_breaks_and_its_spacing(server: Running) -> None:
    chance = random.Random(1)
    gaps = (" ", "  ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u3000", "<br/>", "\u2028")
    sentences = ["The dog sees a tree.", "A bird likes it!", "Who?"]
    pieces = [("\n  ", chance.choice(sentences)), *((chance.choice(gaps), chance.choice(sentences)) for _ in range(40))]
    text = "".join(before + sentence for before, sentence in pieces) + " \n"
    known = {sentence: translated(server, "transformer", sentence)["text"] for sentence in sentences}
    expected = "".join(before + known[sentence] for before, sentence in pieces) + " \n"
    assert translated(server, "transformer", text)["text"] == expected


@pytest.mark.parametrize("text", ["", " ", "\n", "\n \t\r\n", "\u00a0"])
def test_a_blank_text_is_its_own_translation(server: Running, text: str) -> None:
    for options in ({}, {"details": True}, {"alternatives": 2}, {"format": "html"}):
        assert translated(server, "transformer", text, **options)["text"] == text
    (event,) = server.events("/v1/translate", {"model": "transformer", "text": text})[-1:]
    assert event["results"][0]["text"] == text


# --- HTML -------------------------------------------------------------------------------------------------------------

PAGE = """<!DOCTYPE html>
<html lang="en"><head><title>the dog</title>
<style>p > a { color: red; } /* the dog */</style>
<script type="module">if (1 < 2 && "the dog") console.log('</p>');</script>
</head>
<!-- the dog -->
<body class='a "b"' data-x=1 onclick="alert('the dog')">
  <h1>the dog sees the tree today.</h1>
  <p translate="no">the dog <b>sees</b> it</p><p>a bird &amp; a fish &lt;3 &nbsp; <br/>likes it<br></P>
  <code>the dog &amp; co</code><pre>  the   dog
</pre><textarea>the dog</textarea>
  <img src="dog.png" alt="the dog"><input value="&quot;dog&quot;">
</body></html>
"""


def test_html_keeps_all_but_its_texts(server: Running) -> None:
    known = {
        text: translated(server, "transformer", text)["text"]
        for text in ("the dog", "the dog sees the tree today.", "a bird & a fish <3 \u00a0 ", "likes it")
    }
    expected = PAGE.replace("<title>the dog<", f"<title>{escaped(known['the dog'])}<")
    expected = expected.replace(
        "<h1>the dog sees the tree today.<", f"<h1>{escaped(known['the dog sees the tree today.'])}<"
    )
    expected = expected.replace(
        "a bird &amp; a fish &lt;3 &nbsp; <", f"{escaped(known[f'a bird & a fish <3 {chr(160)} '])}<"
    )
    expected = expected.replace("likes it<", f"{escaped(known['likes it'])}<")
    assert translated(server, "transformer", PAGE, format="html")["text"] == expected


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@pytest.mark.parametrize("name", one_in(4, WITH_ATTENTION, first=2))
def test_a_sentence_with_tags_around_words_is_translated_as_one(server: Running, name: str) -> None:
    page = "<p>the <a href='x'>dog</a> sees\n the <b>tree</b>, <i></i>today. <em>a bird</em> likes it.</p>"
    found = translated(server, name, page, format="html")["text"]
    text = translated(server, name, "the dog sees the tree, today. a bird likes it.")["text"]
    assert unescape(re.sub(r"<[^>]*>", "", found)) == text
    for tag in ("<p>", "</p>", "<a href='x'>", "</a>", "<b>", "</b>", "<i></i>", "<em>", "</em>"):
        assert tag in found


def test_several_pages_are_translated_as_each_alone(server: Running) -> None:
    pages = ["<b>the dog</b>", "<i>", "a bird<br>the dog", "", "no tags"]
    body = {"model": "transformer", "text": pages, "format": "html", **SHORT}
    assert server.results("/v1/translate", body) == [
        {"text": translated(server, "transformer", page, format="html")["text"]} for page in pages
    ]


@pytest.mark.parametrize("more", [{"stream": True}, {"details": True}, {"alternatives": 1}])
def test_html_has_no_words_and_no_drafts(server: Running, more: dict[str, Any]) -> None:
    answer = server.post("/v1/translate", {"model": "transformer", "text": "<b>a</b>", "format": "html", **more})
    assert answer.status_code == 422
    assert answer.json()["error"] == {
        "message": like("HTML is translated as a whole: leave out `stream`, `details` and `alternatives`."),
        "type": "invalid_request_error",
        "param": "format",
        "code": None,
    }
