"""`heedful explain MODEL TEXT...`: a page that shows what a model attended to."""

from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from heedful.base.errors import UserError
from heedful.base.files import expand_user
from heedful.cli import messages
from heedful.cli.input import image_inputs, open_inputs, sees_images
from heedful.cli.options import (
    DeviceOption,
    InputsArgument,
    ModelArgument,
    PrecisionOption,
    TextOption,
    ToOption,
    json_option,
    option,
    page_option,
)
from heedful.cli.output import check_output, line_writer, write_page
from heedful.config.reading.bundle_config import read_config
from heedful.data.corpora.texts import text_of_line

if TYPE_CHECKING:
    from heedful.explain.explanation import Explanation

PAGE: Final = Path("explain.html")
KINDS: Final = ("encoder", "question", "decoder", "cross")
_MOST: Final = 100  # texts of a page

QuestionOption = Annotated[
    str | None,
    option("A question, about the text or image, for models that answer.", "--question", "-Q", metavar="QUESTION"),
]


def command(
    model: ModelArgument,
    inputs: InputsArgument = None,
    text: TextOption = None,
    question: QuestionOption = None,
    target: Annotated[
        str | None, option("Target text: explain this, not the model's own.", "--target-text", metavar="TEXT")
    ] = None,
    to: ToOption = None,
    top: Annotated[int, option("Number of tokens: runners-up of each that is predicted.", metavar="N", min=0)] = 5,
    gradients: Annotated[
        bool, option("Also show how much each input token influences a prediction.", "--gradients/--no-gradients")
    ] = True,
    silence: Annotated[
        list[str] | None,
        option(
            "What if: also explain each text without a head, such as cross:1:2, counted from 1; repeatable.",
            metavar="KIND:LAYER:HEAD",
        ),
    ] = None,
    swap: Annotated[
        list[str] | None,
        option(
            "What if: also explain each text with another word; repeatable. An empty NEW leaves the word out.",
            metavar="OLD=NEW",
        ),
    ] = None,
    attribution: Annotated[
        str | None,
        option(
            "Also show what each input token adds to log P of each output: integrated, gradient or erasure.",
            "--attribute",
            metavar="KIND",
        ),
    ] = None,
    against: Annotated[
        str | None,
        option("With --attribute, explain why the output is not this text or label.", metavar="OUTPUT"),
    ] = None,
    lens: Annotated[
        bool, option("Also show what a Transformer would predict if its layers ended earlier.", "--lens")
    ] = False,
    patch: Annotated[
        str | None,
        option(
            "Also show which states make the difference to another text with as many tokens.",
            "--patch",
            metavar="TEXT",
        ),
    ] = None,
    search: Annotated[
        bool, option("Also show the beam search as a tree, where there is one.", "--search/--no-search")
    ] = True,
    gates: Annotated[
        bool | None,
        option(
            "Gates of recurrent models (default: on the page, but not in --json).",
            "--gates/--no-gates",
            show_default=False,
        ),
    ] = None,
    states: Annotated[
        bool, option("With --json, also the hidden states of every layer of a Transformer.", "--states")
    ] = False,
    as_map: Annotated[
        bool, option("Write a map of the vectors of several texts instead, at least 3: close texts are alike.", "--map")
    ] = False,
    as_json: Annotated[bool, json_option("instead of a page one object per text, with all weights, exactly")] = False,
    as_svg: Annotated[
        bool, option("Write one image of a single text instead of a page: every layer and head.", "--svg")
    ] = False,
    output: Annotated[Path | None, page_option(f"default: {PAGE}")] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Show how a model read a text: the weights of every layer and head, token probabilities, the alignment.

    The page is one file that needs no network: open it in a browser. Models of all tasks are explained. A model of
    pairs reads two texts per line, separated by a tab; models that read images take their files, and show attention
    over the image; those that answer need --question.
    """
    if as_json and as_svg:
        raise UserError("--json and --svg are two forms of the same: leave out one of them.")
    if states and (as_map or not as_json):
        raise UserError("--states adds to the objects of --json: add --json, and leave out --map.")
    page = not (as_json or as_svg)
    if page and output is None:
        output = PAGE
    check_output(output)
    heads = [_head(one) for one in silence or ()]
    read_config(expand_user(model))  # so that a model that is not there is named before a text that is not
    imaged = sees_images(model)
    lines = _lines(inputs, text, imaged)
    swapped = dict(_swap(one) for one in swap or ())
    if as_svg and (heads or swapped):
        name = "--silence" if heads else "--swap"
        raise UserError(f"--svg draws one explanation, and {name} adds another: leave out one of them.")
    if imaged and swapped:
        raise UserError("--swap changes words of a text, but this model reads images: leave it out.")
    if target is not None and swapped:
        raise UserError(
            "--swap shows what else the model would write, and --target-text fixes it: leave out one of them."
        )
    if as_svg and len(lines) > 1 and not as_map:
        raise UserError(f"--svg draws one text, but there are {len(lines):,}: give one, or leave out --svg.")
    measured = _Measured(attribution, against, lens, patch, target, to)
    if measured.asked and (as_svg or as_map or swapped):
        raise UserError(
            "--attribute, --lens and --patch add to a page or to --json: leave out --svg, --map and --swap."
        )
    if against is not None and attribution is None:
        raise UserError("--against is what an attribution compares with: add --attribute integrated.")
    if as_map and imaged:
        raise UserError("--map is of texts, but this model reads images: leave it out.")
    if target is not None and len(lines) > 1 and not as_map:
        raise UserError(f"--target-text is the translation of one text, but there are {len(lines):,}: give one.")
    with messages.busy(f"loading {model}"):
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds

        loaded: Any = load(model, "cpu" if heads and not as_map else device, precision)
    name = Path(model).resolve().name
    if as_map:
        with messages.busy("mapping"):
            vectors = loaded.embed([line for line, _ in lines], to=to)
        _write_map(vectors, name, [line for line, _ in lines], as_json, as_svg, output)
        return
    asked = {"question": question, "target": target, "to": to, "top": top, "gradients": gradients, "search": search}

    def explain() -> "list[Explanation]":
        """Explain each text or image, and again with other words if there are any."""
        after = [explain_line(loaded, line, where, **asked, swapped=swapped or None) for line, where in lines]
        found = [one for each in after for one in (each.before, each) if one is not None]
        if not measured.asked:
            return found
        return [measured.add(loaded, one, *line) for one, line in zip(found, lines, strict=True)]

    with messages.busy("explaining"):
        if measured.asked:
            measured.check(loaded)
        check_options(loaded, question, None if measured.asked else target, to)
        found = explain()
    if heads:
        change = "without " + ", ".join(f"{kind} layer {layer + 1} head {head + 1}" for kind, layer, head in heads)
        with loaded.silenced(*heads):
            changed = explain()
        pairs = zip(found, changed, strict=True)  # a swapped word is named too
        found = [
            one
            for before, after in pairs
            for one in (before, replace(after, change=", ".join(filter(None, (before.change, change))), before=before))
        ]
    if as_json:
        with line_writer(output) as write:
            for one in found:
                write(one.to_json(gates=bool(gates), states=states))
        return
    from heedful.explain.pages.images import attention_svg
    from heedful.explain.pages.page import explorer_page

    write_page(explorer_page(found, name, gates is not False) if page else attention_svg(found[0]), output)


class _Measured(NamedTuple):
    """What is asked besides an explanation: an attribution, the lens, patches."""

    attribution: str | None
    against: str | None
    lens: bool
    patch: str | None
    target: str | None
    to: str | None

    @property
    def asked(self) -> bool:
        """Whether anything is."""
        return self.attribution is not None or self.lens or self.patch is not None

    def check(self, model: Any) -> None:
        """Refuse models of tasks that have none of these."""
        if not hasattr(model, "attribute"):
            raise UserError(
                "--attribute, --lens and --patch are for translators, language models, masked language models, "
                f"classifiers and regressors of texts, but the task of this model is `{model.recipe.rules.name}`: "
                "leave them out."
            )

    def add(self, model: Any, found: "Explanation", line: str, where: str) -> "Explanation":
        """Return the explanation of a line with what is asked."""
        text, more = _given(model, line, where), {"to": self.to}
        made = []
        if self.attribution is not None:
            made.append(model.attribute(text, self.target, kind=self.attribution, against=self.against, **more))
        if self.lens:
            made.append(model.lens(text, self.target, **more))
        if self.patch is not None:
            made.append(model.patch(text, _given(model, self.patch, "--patch"), self.target, **more))
        return replace(found, measured=tuple(made))


def _given(model: Any, line: str, where: str) -> str | tuple[str, str]:
    """Return a text, or the two texts of a line where the model reads pairs."""
    read = text_of_line(line, model.paired, where) if hasattr(model, "paired") else None
    return line if read is None or read.second is None else (read.text, read.second)


def _head(given: str) -> Any:
    """Return the kind, layer and head of an option, counted from 0."""
    kind, *numbers = given.split(":")
    if kind not in KINDS or len(numbers) != 2 or not all(number.isdecimal() and int(number) > 0 for number in numbers):
        raise UserError(
            f"--silence {given}: give a kind ({', '.join(KINDS)}), a layer and a head, counted from 1, such as "
            "cross:1:2."
        )
    return kind, int(numbers[0]) - 1, int(numbers[1]) - 1


def _write_map(vectors: Any, name: str, texts: list[str], as_json: bool, as_svg: bool, output: Path | None) -> None:
    """Write the map of texts: as a page, as an image, or as one JSON object per text."""
    from heedful.explain.pages.images import map_page, map_svg, map_vectors

    found = map_vectors(vectors)
    if as_json:
        with line_writer(output) as write:
            for text, (x, y) in zip(texts, found.positions.tolist(), strict=True):
                write({"text": text, "x": x, "y": y})
        return
    write_page(map_svg(found, texts) if as_svg else map_page(found, texts, name), output)


def _swap(given: str) -> tuple[str, str]:
    """Return a word and what replaces it."""
    old, equals, new = given.partition("=")
    if not equals or not old.strip():
        raise UserError(f"--swap {given}: give a word of the text and another, such as dog=cat.")
    return old, new


def _lines(inputs: list[str] | None, text: list[str] | None, imaged: bool) -> list[tuple[str, str]]:
    """Return texts, or the paths of images, each with its name in messages; blank lines are left out."""
    if imaged:
        found = [(str(path), str(path)) for path in image_inputs(inputs, text)]
    else:
        located = (each for entry in open_inputs(inputs, text) for each in entry.located())
        found = [(line, where) for line, where in located if line.strip()]
    if not found:
        raise UserError('There is no text: give one, as in `heedful explain MODEL "some text"`.')
    if len(found) > _MOST:
        what = "images" if imaged else "texts"
        raise UserError(f"There are {len(found):,} {what}, but a page holds at most {_MOST}: give fewer.")
    return found


def explain_line(model: Any, line: str, where: str, **options: Any) -> "Explanation":
    """Explain a line of text or an image, with those of the options that models of its task have.

    A model that reads pairs gets both texts of the line.
    """
    takes = signature(model.explain).parameters
    read = text_of_line(line, model.paired, where) if hasattr(model, "paired") else None
    inputs = [line] if read is None else [read.text, read.second]
    found: Explanation = model.explain(*inputs, **{name: options[name] for name in options if name in takes})
    return found


def check_options(model: Any, question: str | None, target: str | None, to: str | None = None) -> None:
    """Refuse what a model of this task does not take, or the lack of a question that it needs."""
    task = model.recipe.rules.name
    if not hasattr(model, "explain"):
        raise UserError(f"Models of the task `{task}` are not explained.")
    takes = signature(model.explain).parameters
    for name, value in (("target-text", target), ("to", to)):
        if value is not None and name.partition("-")[0] not in takes:
            raise UserError(f"--{name} is for translators, but the task of this model is `{task}`: leave it out.")
    if "question" in takes and question is None:
        raise UserError('This model answers questions: add one, as in --question "Who found the keys?".')
    if "question" not in takes and question is not None:
        raise UserError(f"--question is for models that answer, but the task of this model is `{task}`: leave it out.")
