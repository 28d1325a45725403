"""What is outside the schema, or no model can answer: a status, and one line that names the field."""

import base64
import json
import struct
import zlib
from typing import Any

import httpx
import pytest
from tests.serve.questions import IMAGE, REVIEWS
from tests.serve.running import Running
from tests.shared.refusals import like

TRANSLATE: dict[str, Any] = {"model": "transformer", "text": "the dog", "max_extra": 2}
PAIRS: dict[str, Any] = {"model": "classifier-gpt-pairs", "text": REVIEWS, "second": REVIEWS}
VIT: dict[str, Any] = {"model": "images-vit"}
LLAMA: dict[str, Any] = {"model": "language-llama", "text": "The dog", "max_tokens": 2}
PROMPT: dict[str, Any] = {"model": "language-llama", "prompt": "The dog", "max_tokens": 2}
VECTORS: dict[str, Any] = {"model": "transformer", "input": "the dog"}
LIBRE: dict[str, Any] = {"q": "the dog", "source": "en", "target": "de"}


def check(answer: httpx.Response, status: int, field: str | None, message: str) -> None:
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, field), answer.text
    assert error["message"] == like(message)
    assert "\n" not in error["message"]
    assert error["type"] == "invalid_request_error"
    if field is not None and status == 422 and field != "format":
        assert field in error["message"]


# --- bodies that are no JSON, or not of the schema --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "The body is not JSON: EOF while parsing a value at line 1 column 0."),
        (b"{", 400, "The body is not JSON: ..."),
        (b'{"text":"a"} x', 400, "The body is not JSON: trailing characters..."),
        (b"text=a", 400, "The body is not JSON: ..."),
        (b"\xff\xfe\x00", 400, "The body is not JSON: ..."),
        (b'{"text":"\xff"}', 400, "The body is not JSON: ..."),
        (b'{"text":"\\ud800"}', 400, "The body is not JSON: ..."),
        (b'{"text":"\\udc00\\ud800"}', 400, "The body is not JSON: ..."),
        (b'{"text":"a\x00b"}', 400, "The body is not JSON: control character..."),
        (b"[" * 100_000, 400, "The body is not JSON: recursion limit exceeded..."),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, 400, "The body is not JSON: recursion limit exceeded..."),
        (b'{"text":"a","beam":' + b"9" * 5_000 + b"}", 400, "The body is not JSON: number out of range..."),
        (b"[]", 422, "The body must be a JSON object: should be an object."),
        (b"null", 422, "The body must be a JSON object: ..."),
        (b'"text"', 422, "The body must be a JSON object: ..."),
        (b"NaN", 422, "The body must be a JSON object: ..."),
    ],
    ids=lambda value: str(value)[:20],
)
@pytest.mark.parametrize("path", ["/v1/translate", "/v1/completions", "/v1/explain", "/translate"])
def test_a_body_must_be_an_object_of_json(server: Running, path: str, body: bytes, status: int, message: str) -> None:
    check(server.client.post(path, content=body), status, None, message)


SCHEMA: list[tuple[dict[str, Any], str, str]] = [
    ({"beam": 0}, "beam", "`beam` is 0, but must be at least 1."),
    ({"beam": 65}, "beam", "`beam` is 65, but must be at most 64."),
    ({"beam": 10**30}, "beam", "`beam` is 1,000,..., but must be at most 64."),
    ({"beam": 2.5}, "beam", "`beam`: should be a valid integer."),
    ({"beam": 2.0}, "beam", "`beam`: should be a valid integer."),
    ({"beam": "4"}, "beam", "`beam`: should be a valid integer."),
    ({"beam": True}, "beam", "`beam`: should be a valid integer."),
    ({"beam": [4]}, "beam", "`beam`: should be a valid integer."),
    ({"length_penalty": float("nan")}, "length_penalty", "`length_penalty`: should be a finite number."),
    ({"length_penalty": float("-inf")}, "length_penalty", "`length_penalty`: should be a finite number."),
    ({"raw": "yes"}, "raw", "`raw`: should be a valid boolean."),
    ({"stream": 1}, "stream", "`stream`: should be a valid boolean."),
    ({"format": "xml"}, "format", "`format`: should be 'text' or 'html'."),
    ({"mbr_utility": "x"}, "mbr_utility", "`mbr_utility`: should be 'chrf' or 'bleu'."),
    ({"alternatives": 11}, "alternatives", "`alternatives` is 11, but must be at most 10."),
    ({"terms": [["a", "b"]]}, "terms", "`terms`: should be an object."),
    ({"terms": {"a": 1}}, "terms", "`terms`: should be a valid string."),
    ({"terms": {str(number): "a" for number in range(257)}}, "terms", "`terms` has 257 items, but may have ..."),
    ({"require": ["a"] * 257}, "require", "`require` has 257 items, but may have 256: send fewer at once."),
    ({"forbid": "a" * 1001}, "forbid", "`forbid` has 1,001 characters, but may have 1,000: split it."),
    ({"forbid": ["a", "a" * 1001]}, "forbid", "`forbid`, item 2 has 1,001 characters, but may have 1,000: split it."),
    ({"text": []}, "text", "`text`: list should have at least 1 item, not 0."),
    ({"text": ["a"] * 257}, "text", "`text` has 257 items, but may have 256: send fewer at once."),
    ({"text": ["a", "b", 1]}, "text", "`text`, item 3: should be a valid string."),
    ({"text": ["a", None]}, "text", "`text`, item 2: should be a valid string."),
    ({"text": {"a": "b"}}, "text", "`text`: should be a valid string."),
    ({"text": "a" * 20_001}, "text", "`text` has 20,001 characters, but may have 20,000: split it."),
    ({"text": ["a" * 20_001]}, "text", "`text`, item 1 has 20,001 characters, but may have 20,000: split it."),
    ({"text": None}, "text", "`text` is missing: add it."),
    ({"lenght_penalty": 1}, "lenght_penalty", "`lenght_penalty` is not a field of this request. Did you mean "
                                              "`length_penalty`?"),
    ({"qqqq": 1}, "qqqq", "`qqqq` is not a field of this request. Known: model, text, ..."),
    ({"sampling": {}}, "sampling", "`sampling` is not a field of this request. ..."),
    ({"model": 1}, "model", "`model`: should be a valid string."),
    ({"model": "m" * 201}, "model", "`model` has 201 characters, but may have 200: split it."),
    ({"image": "AAAA"}, "image", "`image` is not a field of this request. ..."),
]  # fmt: skip


@pytest.mark.parametrize(("change", "field", "message"), SCHEMA, ids=lambda value: str(value)[:30])
def test_a_field_outside_the_schema_is_named(server: Running, change: dict[str, Any], field: str, message: str) -> None:
    content = json.dumps({**TRANSLATE, **change})
    check(server.client.post("/v1/translate", content=content), 422, field, message)


REFUSED: list[tuple[str, dict[str, Any], str | None, str]] = [
    ("/v1/translate", {"text": "a", "model": "x"}, "model", "There is no model `x`. Those that are served: ..."),
    ("/v1/translate", {"text": "a", "model": "bert"}, "model",
     "No model is served for /v1/translate. Those that are served: ...bert (fill), ..."),
    ("/v1/translate", {**TRANSLATE, "to": "xx"}, "to", "`to` is `xx`, but this model has one ..."),
    ("/v1/translate", {**TRANSLATE, "model": "transformer-languages"}, "to",
     "text, line 1 does not say its target language..., or use `to`."),
    ("/v1/translate", {**TRANSLATE, "model": "transformer-languages", "to": "xx"}, "to",
     "`to` is `xx`, but must be one of de, es."),
    ("/v1/translate", {**TRANSLATE, "sentence": 1}, "sentence", "`sentence` is 1, but the text has 1 sentence."),
    ("/v1/translate", {**TRANSLATE, "alternatives": 5, "beam": 2}, "beam", "`nbest` is 6, but a beam of 2 ..."),
    ("/v1/translate", {**TRANSLATE, "mbr": 2, "beam": 3}, "mbr", "`mbr` draws samples, ..."),
    ("/v1/translate", {**TRANSLATE, "raw": True}, "raw", "`raw` is for models of tokenized text, ..."),
    ("/v1/translate", {**TRANSLATE, "require": ["a", ""]}, "require", "`require`, word 2 is blank: ..."),
    ("/v1/translate", {**TRANSLATE, "text": ["a", "b"], "stream": True}, "stream",
     "A stream has one text: send each by itself, or leave out `stream`."),
    ("/v1/generate", {**LLAMA, "samples": 2, "stream": True}, "stream", "A stream has one text: ..."),
    ("/v1/classify", {**PAIRS, "stream": True}, "stream",
     "`stream` is not a field of this request. ..."),
    ("/v1/classify", {**PAIRS, "second": REVIEWS[:1]}, "second", "`second` has 1 item, but `text` has 3."),
    ("/v1/classify", {**PAIRS, "text": REVIEWS[:2]}, "second", "`second` has 3 items, but `text` has 2."),
    ("/v1/classify", {"model": "classifier-gpt-pairs", "text": "a"}, "second", "`second` is missing: add it."),
    ("/v1/classify", {"model": "classifier-bag", "text": "a", "second": "b"}, "second",
     "`second` is not a part of what this model reads: leave it out."),
    ("/v1/classify", {"model": "classifier-bag"}, "text", "`text` is missing: add it."),
    ("/v1/answer", {"model": "reader", "text": "a", "question": "", }, "question", "`question`: input 1: the ..."),
    ("/v1/answer", {"model": "reader", "text": ["a", ""], "question": "b"}, "text", "`text`: input 2: the text is ..."),
    ("/v1/answer", {"model": "reader", "text": "a"}, "question", "`question` is missing: add it."),
    ("/v1/answer", {"model": "answers-about-images", "question": " ", "image": IMAGE}, "question",
     "`question`: input 1: the question is empty..."),
    ("/v1/answer", {"model": "answers-about-images", "question": "a", "image": IMAGE, "max_answer": 3}, "max_answer",
     "`max_answer` is not an option of answers-about-images: leave it out."),
    ("/v1/fill", {"model": "bert", "text": ["[MASK]", "none"]}, "text", "`text`: input 2 has no mask: ..."),
    ("/v1/generate", {**LLAMA, "text": ""}, "text", "`text`: text, line 1 is empty, ..."),
    ("/v1/generate", {**LLAMA, "samples": 3, "beam": 2}, "samples", "`samples` is 3, but a beam of 2 ..."),
    ("/v1/generate", {**LLAMA, "temperature": 0, "top_k": 3}, "top_k", "`top_k` applies to sampling: ..."),
    ("/v1/generate", {**LLAMA, "stop": ["a", ""]}, "stop", "`stop` has an empty string, ..."),
    ("/v1/explain", {"model": "classifier-bag", "text": ""}, "text", "`text`: The text is blank: ..."),
    ("/v1/explain", {"model": "images-vit", "text": "a"}, "text", "`text` is not a part of ..."),
    ("/v1/explain", {"model": "bert", "text": "a" * 4001}, "text",
     "`text` has 4,001 letters, but at most 4,000 are explained."),
    ("/v1/explain", TRANSLATE, "max_extra", "`max_extra` is not a field ..."),
    ("/v1/explain", {"text": "a", "target": "a" * 4001}, "target", "`target` has 4,001 characters, but ..."),
    ("/v1/explain", {"text": ["a"]}, "text", "`text`: should be a valid string."),
    ("/v1/explain", {"text": "a", "form": "x"}, "form", "`form`: should be 'item', 'page' or 'json'."),
    ("/v1/completions", {"model": "language-llama"}, "prompt", "`prompt` is missing: add it."),
    ("/v1/completions", {"prompt": "a"}, "model", "`model` is missing: add it."),
    ("/v1/completions", {**PROMPT, "model": "bert"}, "model", "No model is served for /v1/generate. ..."),
    ("/v1/completions", {**PROMPT, "prompt": [1, 2]}, "prompt", "`prompt`, item 1: should be a valid string."),
    ("/v1/completions", {**PROMPT, "prompt": ["The", ""]}, "prompt", "`prompt`: text, line 2 is empty, ..."),
    ("/v1/completions", {**PROMPT, "prompt": "a" * 20_001}, "prompt",
     "`prompt` has a text of 20,001 letters, but at most 20,000 are read."),
    ("/v1/completions", {**PROMPT, "best_of": 2}, "best_of", "`best_of` is not supported: leave it out."),
    ("/v1/completions", {**PROMPT, "echo": True}, "echo", "`echo` is not supported: ..."),
    ("/v1/completions", {**PROMPT, "suffix": "a"}, "suffix", "`suffix` is not supported: ..."),
    ("/v1/completions", {**PROMPT, "logprobs": 1}, "logprobs", "`logprobs` is not supported: ..."),
    ("/v1/completions", {**PROMPT, "presence_penalty": 0.5}, "presence_penalty", "`presence_penalty` is not ..."),
    ("/v1/completions", {**PROMPT, "n": 2, "stream": True}, "stream",
     "A stream has one text: send each prompt by itself, with `n` 1."),
    ("/v1/completions", {**PROMPT, "prompt": ["a", "b"], "stream": True}, "stream", "A stream has one text: ..."),
    ("/v1/embeddings", {**VECTORS, "model": "images-vit"}, "model",
     "images-vit does not write texts as vectors: choose another model."),
    ("/v1/embeddings", {**VECTORS, "input": []}, "input", "`input`: list should have at least 1 item, not 0."),
    ("/v1/embeddings", {**VECTORS, "input": ["a", "a" * 20_001]}, "input", "`input` has a text of 20,001 letters, ..."),
    ("/v1/embeddings", {**VECTORS, "dimensions": 4}, "dimensions", "`dimensions` is fixed by the model: leave it out."),
    ("/v1/embeddings", {**VECTORS, "encoding_format": "hex"}, "encoding_format", "`encoding_format`: should be ..."),
    ("/v1/embeddings", {**VECTORS, "model": "transformer-languages"}, "input", "`input`: input 1 does not say ..."),
    ("/v1/chat/completions", {"model": "language-llama", "messages": []}, None,
     "These models continue texts and answer as they were trained: there is no chat. Use /v1/completions for language "
     "models, and /v1/VERB for others."),
    ("/translate", {**LIBRE, "target": "xx"}, "target", "No model translates from `en` into `xx`: see /languages."),
    ("/translate", {**LIBRE, "source": "xx"}, "target", "No model translates from `xx` into `de`: ..."),
    ("/translate", {**LIBRE, "q": []}, "q", "`q` has 0 texts, but must have 1 to 256."),
    ("/translate", {**LIBRE, "q": ["a"] * 257}, "q", "`q` has 257 texts, ..."),
    ("/translate", {**LIBRE, "q": "a" * 20_001}, "q",
     "`q` has a text of 20,001 letters, but at most 20,000 are translated."),
    ("/translate", {**LIBRE, "format": "html", "alternatives": 1}, "alternatives",
     "HTML has no alternatives: leave out `alternatives`."),
    ("/translate", {**LIBRE, "alternatives": 11}, "alternatives", "`alternatives` is 11, but must be at most 10."),
    ("/translate", {"source": "en", "target": "de"}, "q", "`q` is missing: add it."),
    ("/detect", {}, "q", "`q` is missing: add it."),
    ("/detect", {"q": "a" * 20_001}, "q", "`q` has a text of 20,001 letters, ..."),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "field", "message"), REFUSED, ids=lambda value: str(value)[:25])
def test_what_a_model_cannot_answer_is_refused_in_words(
    server: Running, path: str, body: dict[str, Any], field: str | None, message: str
) -> None:
    answer = server.post(path, body)
    status = 404 if message.startswith(("There is no model", "No model is served", "These models")) else 422
    check(answer, 400 if message.startswith("No model translates") else status, field, message)


def test_nothing_of_a_refused_request_stays(server: Running) -> None:
    assert server.is_idle


# --- routes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404), ("POST", "/v1/nothing", 404), ("GET", "/v1/translate", 405), ("POST", "/", 405),
        ("DELETE", "/v1/models", 405), ("PUT", "/translate", 405), ("GET", "/v1/translate/", 404), ("GET", "//", 404),
        ("BREW", "/v1/models", 405), ("GET", "/v1/models/a/b", 404), ("GET", "/%2e%2e/etc/passwd", 404),
    ],
)  # fmt: skip
def test_a_wrong_route_is_one_line(server: Running, method: str, path: str, status: int) -> None:
    answer = server.client.request(method, server.url + path)
    assert answer.status_code == status
    assert answer.json()["error"]["message"] == like(f"There is no route {method} ...: see /openapi.json.")


def test_a_model_that_is_not_served_is_not_listed(server: Running) -> None:
    answer = server.client.get("/v1/models/nothing")
    assert answer.status_code == 404
    assert server.client.get("/v1/models/bert").json()["id"] == "bert"


# --- images -----------------------------------------------------------------------------------------------------------


def huge(width: int, height: int) -> str:
    """A PNG whose header promises many pixels; it has none."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(b"\x00" * 100)), (b"IEND", b"")]
    file = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return base64.b64encode(file).decode()


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("a", "`image` is not base64: send the bytes of an image file, encoded."),
        ("/etc/passwd", "`image` is not base64: ..."),
        ("http://127.0.0.1/a.png", "`image` is not base64: ..."),
        ("ÄÖÜ=", "`image` is not base64: ..."),
        (IMAGE + "\n", "`image` is not base64: ..."),
        (IMAGE[:-1], "`image` is not base64: ..."),
        ("data:image/png,abc", "`image` is a data URI that is not base64: encode it as base64."),
        ("data:", "`image` is a data URI that ..."),
        ("data:;base64,a", "`image` is not base64: ..."),
        ("", "`image` is empty, ..."),
        ("AAAA", "`image` is not an image: ..."),
        (IMAGE[:100], "`image` cannot be decoded ..."),
        (huge(7_100, 7_100), "`image` has 7,100 x 7,100 pixels, but at most 50,000,000 are decoded: ..."),
        (huge(1 << 30, 1 << 30), "`image` has 1,073,741,824 x 1,073,741,824 pixels, ..."),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_image_that_cannot_be_read_is_refused_in_words(server: Running, image: str, message: str) -> None:
    check(server.post("/v1/classify", {**VIT, "image": image}), 422, "image", message)
    check(server.post("/v1/explain", {**VIT, "image": image}), 422, "image", message)


def test_one_image_of_several_is_named(server: Running) -> None:
    answer = server.post("/v1/caption", {"model": "captions-recurrent", "image": [IMAGE, "AAAA"], "max_extra": 1})
    check(answer, 422, "image", "`image` is not an image: ...")


def test_an_image_of_fifty_megapixels_is_refused_before_it_is_decoded(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda image: pytest.fail("it was decoded"))
    check(
        server.post("/v1/classify", {**VIT, "image": huge(50_000_001, 1)}),
        422,
        "image",
        "`image` has 1 x 50,000,001 pixels, ...",
    )
