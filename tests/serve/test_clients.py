"""Clients of other servers, from PyPI, and the routes that they use."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from tests.serve.running import Running, running
from tests.serve.test_security import KEY

Model = Callable[[str], Any]


@pytest.fixture(scope="module")
def locked(loaded: Model) -> Iterator[Running]:
    """A server with a key, as clients expect one."""
    names = ("transformer", "transformer-languages", "recurrent-bahdanau", "language-llama", "bert", "images-vit")
    with running({name: loaded(name) for name in names}, keys=[KEY]) as one:
        yield one


# --- OpenAI -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def openai(locked: Running) -> Iterator[Any]:
    """The official client."""
    library = pytest.importorskip("openai", reason="the client of OpenAI is not installed")
    with library.OpenAI(base_url=f"{locked.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def test_openais_client_lists_models(openai: Any, locked: Running) -> None:
    assert [one.id for one in openai.models.list()] == [one.name for one in locked.asking.models.served]
    assert openai.models.retrieve("bert").owned_by == "heedful"


def test_openais_client_completes_texts(openai: Any, alone: Model) -> None:
    found = openai.completions.create(model="language-llama", prompt="The dog", max_tokens=7, temperature=0)
    model = alone("language-llama")
    expected = model.generate_detailed("The dog", max_tokens=7, temperature=0)
    assert found.choices[0].text == expected[0].text
    assert found.choices[0].finish_reason == {"end": "stop", "length": "length"}[expected[0].ended]
    assert found.usage.completion_tokens == len(expected[0].tokens)
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    assert (found.object, found.model) == ("text_completion", "language-llama")


def test_openais_client_completes_several_prompts_several_times(openai: Any, alone: Model) -> None:
    prompts, options = ["The dog", "A bird"], {"max_tokens": 4, "temperature": 0.9, "seed": 3, "stop": ["."]}
    found = openai.completions.create(model="language-llama", prompt=prompts, n=2, **options)
    expected = [
        one.text
        for prompt in prompts
        for one in alone("language-llama").generate_detailed(prompt, samples=2, **options)
    ]
    assert [choice.text for choice in found.choices] == expected
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]


@pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": 1, "seed": 1, "stop": "e"}, {}])
def test_openais_client_streams_completions(openai: Any, options: dict[str, Any]) -> None:
    whole = openai.completions.create(model="language-llama", prompt="The dog", max_tokens=9, **options)
    parts = list(
        openai.completions.create(model="language-llama", prompt="The dog", max_tokens=9, stream=True, **options)
    )
    assert "".join(part.choices[0].text for part in parts) == whole.choices[0].text
    assert [part.choices[0].finish_reason for part in parts[:-1]] == [None] * (len(parts) - 1)
    assert parts[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert len({part.id for part in parts}) == 1


def test_openais_client_gets_vectors_as_floats_and_as_base64(openai: Any, locked: Running, alone: Model) -> None:
    texts = ["the dog sees a tree.", "a bird"]
    expected = np.asarray(alone("transformer").embed(texts))
    floats = openai.embeddings.create(model="transformer", input=texts, encoding_format="float")
    usual = openai.embeddings.create(model="transformer", input=texts)  # asks for base64, and decodes it
    for found in (floats, usual):
        assert np.allclose([one.embedding for one in found.data], expected, atol=1e-5)
        assert [one.index for one in found.data] == [0, 1]
    body = {"model": "transformer", "input": texts[0], "encoding_format": "base64"}
    raw = locked.post("/v1/embeddings", body, headers={"Authorization": f"Bearer {KEY}"}).json()["data"][0]["embedding"]
    assert np.allclose(np.frombuffer(base64.b64decode(raw), "<f4"), expected[0], atol=1e-5)


def test_openais_client_is_told_what_is_wrong(openai: Any, locked: Running) -> None:
    library = pytest.importorskip("openai")
    with pytest.raises(library.NotFoundError, match="there is no chat"):
        openai.chat.completions.create(model="language-llama", messages=[{"role": "user", "content": "a"}])
    with pytest.raises(library.NotFoundError, match="There is no model"):
        openai.completions.create(model="nothing", prompt="a")
    with pytest.raises(library.UnprocessableEntityError) as caught:
        openai.completions.create(model="language-llama", prompt="The dog", echo=True)
    assert caught.value.body["param"] == "echo"
    other = library.OpenAI(base_url=f"{locked.url}/v1", api_key="a-wrong-key", max_retries=0)
    with other, pytest.raises(library.AuthenticationError, match="none of this server"):
        other.models.list()


# --- LibreTranslate ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def libre(locked: Running) -> Any:
    """The client of LibreTranslate."""
    library = pytest.importorskip("libretranslatepy", reason="the client of LibreTranslate is not installed")
    return library.LibreTranslateAPI(f"{locked.url}/", KEY)


def test_libretranslates_client_translates(libre: Any, alone: Model) -> None:
    text = "the dog sees the tree today."
    assert libre.translate(text, "en", "de") == alone("transformer").translate(text)
    assert libre.translate(text, "en", "es") == alone("transformer-languages").translate(text, to="es")
    assert libre.translate(text, "auto", "de") == alone("transformer").translate(text)


def test_libretranslates_client_lists_languages(libre: Any) -> None:
    (english,) = libre.languages()
    assert (english["code"], english["name"]) == ("en", "English")
    assert sorted(english["targets"]) == ["de", "es"]


def test_libretranslates_client_detects_languages(libre: Any) -> None:
    found = libre.detect("the dog sees the tree today.")
    assert [one["language"] for one in found] == ["en"]
    assert 0 < found[0]["confidence"] <= 100


def test_libretranslates_client_without_a_key_is_refused(locked: Running) -> None:
    library = pytest.importorskip("libretranslatepy")
    with pytest.raises(Exception, match="401"):
        library.LibreTranslateAPI(f"{locked.url}/").translate("the dog", "en", "de")


def test_settings_for_clients_of_libretranslate(locked: Running) -> None:
    found = locked.client.get("/frontend/settings", params={"api_key": KEY}).json()
    assert (found["keyRequired"], found["apiKeys"], found["charLimit"]) == (True, True, 20_000)
    assert found["language"]["source"] == {"code": "en", "name": "English"}
    assert found["language"]["target"] == {"code": "de", "name": "German"}


# --- the same routes, without the clients -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(loaded: Model) -> Iterator[Running]:
    """A server of one translator, without keys."""
    with running({"transformer": loaded("transformer")}) as one:
        yield one


def test_libretranslates_route_takes_lists_alternatives_html_and_forms(server: Running, alone: Model) -> None:
    model, texts = alone("transformer"), ["the dog sees a tree.", "a bird"]
    asked = {"source": "en", "target": "de"}
    translated = model.translate(texts)
    assert server.post("/translate", {"q": texts, **asked}).json() == {"translatedText": translated}
    assert server.client.post("/translate", data={"q": texts, **asked}).json() == {"translatedText": translated}
    assert server.client.post("/translate", data={"q": texts[1], **asked}).json() == {"translatedText": translated[1]}
    page = {"q": f"<p class=x>{texts[1]}</p>", **asked, "format": "html"}
    assert server.post("/translate", page).json() == {"translatedText": f"<p class=x>{translated[1]}</p>"}
    found = server.post("/translate", {"q": texts, **asked, "alternatives": 2}).json()
    assert [len(some) for some in found["alternatives"]] == [2, 2]
    found = server.client.post("/translate", data={"q": texts[0], **asked, "alternatives": 2}).json()
    assert len(found["alternatives"]) == 2
    found = server.post("/translate", {"q": texts, **asked, "source": "auto"}).json()
    assert found["detectedLanguage"] == [{"confidence": 100, "language": "en"}] * 2
    found = server.post("/translate", {"q": texts[0], **asked, "source": "auto"}).json()
    assert found["detectedLanguage"] == {"confidence": 100, "language": "en"}


@pytest.mark.parametrize("body", [b"\xff", b"q=%ff&source=en&target=de", b"&".join([b"a=b"] * 1001)])
def test_a_form_that_cannot_be_read_is_refused(server: Running, body: bytes) -> None:
    answer = server.client.post(
        "/translate", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "The body is not a form: send JSON, or URL-encoded UTF-8."


def test_a_translator_whose_languages_nobody_named_is_asked_for_the_unknown_one(
    loaded: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.server.served.languages_of", lambda recipe: (None, ()))
    with running({"transformer": loaded("transformer")}) as one:
        assert one.client.get("/languages").json() == [{"code": "und", "name": "Unknown", "targets": ["und"]}]
        body = {"q": "a bird", "source": "auto", "target": "und"}
        assert one.post("/translate", body).status_code == 200
        assert one.post("/translate", {**body, "target": "de"}).status_code == 400
        assert one.client.get("/frontend/settings").json()["language"]["source"] == {"code": "und", "name": "Unknown"}


def test_a_server_without_translators_has_no_languages(loaded: Model) -> None:
    with running({"bert": loaded("bert")}) as one:
        assert one.client.get("/languages").json() == []
        for path, body in (("/detect", {"q": "a"}), ("/translate", {"q": "a", "source": "auto", "target": "de"})):
            answer: httpx.Response = one.post(path, body)
            assert answer.status_code == 404
            assert answer.json()["error"]["message"] == ("No model translates: there are no languages to tell apart.")
