"""A view for each task: what a server answers is what it shows."""

import base64
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.unit.pages.app.conftest import Body, Open, Opened, Server, model_of

from heedful.explain.explanation import AttentionWeights, ExplainedImage, Explanation, TokenSequence
from heedful.explain.pages.page import explorer_item

pytestmark = pytest.mark.wide
IMAGE = np.fromfunction(lambda y, x, c: (7 * y + 5 * x + 60 * c) % 256, (32, 32, 3)).astype(np.uint8)


def gradient(task: str, text: str, shares: list[float]) -> Any:
    """An item whose gradients say how much each word matters."""
    read = TokenSequence.named(("<s>", *text.split()))
    weights = np.array([[[[0.0, *shares]]]], np.float32)
    named = {"text": read, "output": TokenSequence.named(("output",))}
    found = Explanation(task, "bert", text, "", named, (AttentionWeights("gradient", weights, "output", "text"),))
    return {"item": explorer_item(found)}


def shades(opened: Opened, field: str) -> dict[str, float]:
    """The shaded words of a field, and how much."""
    words = "words => words.map(one => [one.textContent, parseFloat(one.style.getPropertyValue('--shade')) || 0])"
    return dict(opened.page.locator(f".field:has({field}) .layer .word").evaluate_all(words))


def choose_image(opened: Opened) -> None:
    written = BytesIO()
    Image.fromarray(IMAGE).save(written, "PNG")
    file: Any = {"name": "image.png", "mimeType": "image/png", "buffer": written.getvalue()}
    opened.page.locator("#image").set_input_files(files=file)


def test_a_class_has_bars_and_the_words_that_mattered(open_page: Open, server: Server) -> None:
    server.models = [model_of("classify", roles=["text", "second"], labels=["good", "bad"])]
    shares = {"good": 0.9, "bad": 0.1}
    server.answers["classify"] = lambda body: {
        "label": "good",
        "probability": 0.9,
        "probabilities": shares,
        "cut": True,
    }
    server.answers["explain"] = lambda body: gradient("classify", "a Great film a fine end", [0, 0.5, 0.1, 0, 0.4, 0])
    opened = open_page()
    opened.type("A great film")
    opened.page.wait_for_timeout(300)
    assert not server.asked, "the second text is missing"
    opened.type("a fine end", "#second")
    opened.see(".verdict", "good")
    assert opened.page.locator(".bars .number").all_inner_texts() == ["90%", "10%"]
    opened.see(".readout", "Most of the prediction depends on: Great 0.500 · fine 0.400 · film 0.100")
    assert shades(opened, "#text") == pytest.approx({"A": 0, "great": 100, "film": 20})
    assert shades(opened, "#second") == pytest.approx({"a": 0, "fine": 80, "end": 0})
    assert server.bodies("explain")[-1]["gradients"]
    opened.type("Another")
    assert shades(opened, "#text") == {}


def test_several_labels_and_none(open_page: Open, server: Server) -> None:
    server.models = [model_of("classify", labels=["a", "b", "c"], explains=False)]
    labels = {"one two": ["a", "c"]}
    server.answers["classify"] = lambda body: {
        "labels": labels.get(body["text"], []), "probabilities": {"a": 0.8, "b": 0.1, "c": 0.6}
    }  # fmt: skip
    opened = open_page("text=one two")
    opened.see(".verdict", "a, c")
    assert opened.page.locator(".bars .chosen .name").all_inner_texts() == ["a", "c"]
    opened.type("three")
    opened.see(".verdict", "none")
    assert opened.page.get_by_role("button", name="Why?").count() == 0


def test_a_number(open_page: Open, server: Server) -> None:
    server.models = [model_of("regress", explains=False)]
    server.answers["regress"] = lambda body: {"value": 1234.5678}
    open_page("text=x").see(".verdict", "1,234.6")


def test_spans_have_their_label_and_a_colour_of_their_type(open_page: Open, server: Server) -> None:
    server.models = [model_of("tag", labels=["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])]
    words = ["Ada", "Lovelace", "saw", "<b>Rome</b>"]
    server.answers["tag"] = lambda body: {
        "words": words, "labels": ["B-PER", "I-PER", "O", "B-LOC"], "probabilities": [0.9, 0.8, 1, 0.7],
        "spans": [{"type": "PER", "start": 0, "end": 2, "text": ""}, {"type": "LOC", "start": 3, "end": 4, "text": ""}],
    }  # fmt: skip
    opened = open_page(f"text={' '.join(words)}")
    opened.count(".tag", 2)
    assert opened.page.locator(".tag").all_inner_texts() == ["Ada Lovelace\nPER", "<b>Rome</b>\nLOC"]
    colours = opened.page.locator(".tagged-text").evaluate_all(
        "all => all.map(one => getComputedStyle(one).borderColor)"
    )
    assert colours[0] != colours[1]
    opened.page.locator(".tag").first.focus()
    opened.see(".readout", "Ada Lovelace PER 0.800")
    server.answers["tag"] = lambda body: {
        "words": ["Ada", "ran"],
        "labels": ["NOUN", "VERB"],
        "probabilities": [1, 0.5],
    }
    opened.type("Ada ran")
    opened.see(".tagged", "AdaNOUN ranVERB ")


def test_a_parse_is_drawn(open_page: Open, server: Server) -> None:
    server.models = [model_of("parse")]
    tree = "(S (NP (DT the) (NN dog)) (VP (VBZ sees)))"
    found = Explanation("parse", "transformer", "the dog sees", tree, {}, tree=tree)
    server.answers["parse"] = lambda body: {"tree": tree if "dog" in body["text"] else None, "score": -1}
    server.answers["explain"] = lambda body: {"item": explorer_item(found)}
    opened = open_page("text=the dog sees")
    opened.see(".brackets", tree)
    opened.count(".drawing svg", 1)
    assert {"the", "dog", "sees", "NP"} <= set(opened.page.locator(".drawing text").all_text_contents())
    opened.type("cat")
    opened.see(".brackets", "The model found no tree over these words.")
    opened.count(".drawing svg", 0)


def test_a_continuation_is_written_and_can_be_stopped(open_page: Open, server: Server) -> None:
    server.models = [model_of("generate")]
    deltas = [{"type": "delta", "text": text} for text in (" upon", " a", " time")]
    result = {"text": " upon a time", "ended": "length", "tokens": 3}
    server.streams["generate"] = lambda body: [*deltas, {"type": "done", "results": [result]}]
    opened = open_page("text=Once")
    opened.page.locator("#temperature").fill("0.5")
    opened.page.locator("#tokens").fill("3")
    opened.page.get_by_role("button", name="Continue").click()
    opened.see(".words", "Once upon a time")
    opened.see(".panes .note", "It reached the maximum number of tokens. 3 tokens.")
    expected = {"model": "demo", "text": "Once", "temperature": 0.5, "max_tokens": 3, "stream": True}
    assert server.bodies("generate") == [expected]
    server.holds = lambda verb, body: True
    opened.page.get_by_role("button", name="Continue").click()
    opened.page.get_by_role("button", name="Stop").click()
    opened.see(".panes .note", "Stopped.")
    opened.page.get_by_role("button", name="Continue").wait_for()


def test_masks_have_candidates_to_choose_from(open_page: Open, server: Server) -> None:
    server.models = [model_of("fill", explains=False)]
    masks = [[{"piece": "cat", "text": "cat", "probability": 0.6}, {"piece": "dog", "text": "dog", "probability": 0.3}]]
    server.answers["fill"] = lambda body: {"filled": "the cat sees", "masks": masks}
    opened = open_page()
    opened.type("the ")
    opened.page.get_by_role("button", name="Insert [MASK]").click()
    opened.page.keyboard.type(" sees")
    opened.see(".result .words", "the cat sees")
    opened.page.get_by_role("radio", name="dog, 30%").check()
    opened.see(".result .words", "the dog sees")
    assert opened.page.locator(".result mark").all_inner_texts() == ["dog"]
    opened.type("no mask")
    opened.see(".result", "")


def test_an_answer_is_marked_in_its_text(open_page: Open, server: Server) -> None:
    server.models = [model_of("answer", roles=["question", "text"], explains=False)]
    text = "\N{SMILING FACE WITH OPEN MOUTH}\N{SMILING FACE WITH OPEN MOUTH} Ada saw Rome."
    start = text.index("Ada")  # in characters, of which the first two take two units each
    found = {"answer": "Ada", "start": start, "end": start + 3, "probability": 0.75}
    nothing = {"answer": "", "start": None, "end": None, "probability": 0.5}
    server.answers["answer"] = lambda body: found if body["question"].startswith("Who") else nothing
    opened = open_page()
    opened.type("Who saw Rome?", "#question")
    opened.type(text)
    opened.see(".verdict", "Ada75%")
    assert shades(opened, "#text") == {"Ada": 100}
    opened.type("Why?", "#question")
    opened.see(".verdict", "The text has no answer.50%")
    assert shades(opened, "#text") == {}


def caption_item() -> Any:
    """An item of a caption, whose words looked at one patch each."""
    image = ExplainedImage(IMAGE, 16, False)
    weights = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7], [0.25] * 4], np.float32)
    named = {"patches": TokenSequence.named(image.names()), "output": TokenSequence.named(("a", "dog", "</s>"))}
    attention = AttentionWeights("cross", weights[None, None], "output", "patches")
    found = Explanation("caption", "transformer", "x", "a dog", named, (attention,), alignment=weights, image=image)
    return {"item": explorer_item(found)}


def test_the_words_of_a_caption_are_linked_with_the_image(open_page: Open, server: Server) -> None:
    server.models = [model_of("caption", roles=["image"])]
    others = [{"text": "a cat", "score": -2.0}]
    server.answers["caption"] = lambda body: {"text": "a dog", "score": -1.0, "complete": True, "alternatives": others}
    server.answers["explain"] = lambda body: caption_item()
    opened = open_page()
    choose_image(opened)
    opened.see(".words", "a dog")
    kind, _, data = server.bodies("caption")[0]["image"].partition(",")
    assert kind == "data:image/png;base64"
    assert np.array_equal(np.array(Image.open(BytesIO(base64.b64decode(data)))), IMAGE)
    opened.see(".alternatives mark", "cat")
    opened.count(".result canvas", 1)
    opened.page.locator(".words .word").nth(1).hover()
    opened.see(".readout", "dog looked at row 2, column 2 0.700 · row 1, column 1 0.100 · row 1, column 2 0.100")
    dim, clear = opened.page.locator(".result canvas").evaluate(
        "canvas => { const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); "
        "return [0.25, 0.75].map(at => data[4 * Math.floor(at * canvas.height * (canvas.width + 1)) + 3]); }"
    )
    assert dim > 150
    assert clear == 0
    opened.page.locator(".result canvas").hover(position={"x": 10, "y": 10})
    opened.see(".readout", "row 1, column 1 is where the model looked for a 0.700 · dog 0.100")


def test_classes_of_images_and_answers_about_them(open_page: Open, server: Server) -> None:
    roles = ["question", "image"]
    server.models = [
        model_of("answer", roles=roles, explains=False),
        {**model_of("classify", roles=["image"], explains=False), "id": "images"},
    ]
    shares = {"red": 0.7, "blue": 0.3}
    server.answers["answer"] = lambda body: {"answer": "red", "probability": 0.7, "probabilities": shares}
    server.answers["classify"] = lambda body: {"label": "blue", "probability": 0.3, "probabilities": shares}
    opened = open_page()
    opened.type("What colour?", "#question")
    choose_image(opened)
    opened.see(".verdict", "red")
    opened.page.locator("#model").select_option("images")
    choose_image(opened)
    opened.see(".verdict", "blue")
    file: Any = {"name": "x.txt", "mimeType": "text/plain", "buffer": b"x"}
    opened.page.locator("#image").set_input_files(files=file)
    opened.see(".refusal", "This is not an image: choose a PNG, JPEG or WebP file.")


def test_a_view_keeps_the_texts_when_the_model_is_changed(open_page: Open, server: Server) -> None:
    server.models = [model_of("translate"), {**model_of("regress", explains=False), "id": "number"}]
    server.answers["regress"] = lambda body: {"value": 3}
    opened = open_page("text=the dog")
    opened.see(".words", "der Hund")
    opened.page.locator("#model").select_option("number")
    opened.see(".verdict", "3")
    opened.page.wait_for_url("**/#model=number&text=the+dog")


def test_hostile_texts_run_nothing(open_page: Open, server: Server) -> None:
    hostile = "<img src=x onerror=alert(1)></script><script>alert(2)</script><svg onload=alert(3)>"

    def answer(body: Body) -> Body:
        word = {
            "before": "",
            "text": hostile,
            "probability": 0.1,
            "runners_up": [{"text": hostile, "probability": 0.1, "prefix": ""}],
        }
        sentence = {"source_words": [{"before": "", "text": hostile}], "words": [word], "links": [[1.0]]}
        other = {"text": f"{hostile} more", "score": -1.0}
        return {"text": hostile, "score": -1, "complete": True, "alternatives": [other], "sentences": [sentence]}

    server.models = [{**model_of("translate"), "id": hostile, "size": hostile}]
    server.answers["translate"] = answer
    server.streams["translate"] = lambda body: [{"type": "done", "results": [answer(body)]}]
    opened = open_page()
    opened.type(hostile)
    opened.page.get_by_role("button", name="Alternatives").click()
    opened.count(".alternatives li", 1)
    opened.page.locator(".words .word").click()
    opened.count(".runners-up", 1)
    assert opened.page.locator("img, svg, body script:not([type=module])").count() == 0
    server.status["translate"] = lambda headers: (400, {"message": hostile})
    opened.type(f"{hostile}!")
    opened.see("#text-refusal", hostile)
    opened.page.wait_for_timeout(200)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_does_not_scroll_sideways(open_page: Open, server: Server, scheme: str) -> None:
    server.models[0]["languages"] = ["de", "fr"]
    opened = open_page(
        f"text=the dog sees {'x' * 200}", viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True
    )
    opened.count(".doubtful", 1)
    opened.page.get_by_role("button", name="Alternatives").click()
    opened.page.locator(".words .word").nth(2).tap()
    opened.count(".runners-up", 1)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    ground = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(18, 21, 28)") == (scheme == "dark")
    panes = opened.page.locator(".panes > *").evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
    assert panes[0] < panes[1], "one below the other"


def test_the_theme_is_remembered(open_page: Open, server: Server) -> None:
    opened = open_page()
    opened.page.locator("#theme").select_option("dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert opened.page.evaluate(ground) == "rgb(18, 21, 28)"
    opened.page.reload()
    opened.count("#text", 1)
    assert opened.page.evaluate(ground) == "rgb(18, 21, 28)"
    opened.page.locator("#theme").select_option("auto")
    assert opened.page.evaluate(ground) == "rgb(252, 252, 251)"
