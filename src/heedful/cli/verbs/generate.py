"""`heedful generate MODEL [FILE|TEXT...]`: texts that continue prompts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final

from heedful.base.errors import UserError, counted
from heedful.base.options import options_of
from heedful.cli import messages
from heedful.cli.answering.asked import Answering
from heedful.cli.input import InputLines, as_one_text, open_inputs
from heedful.cli.options import Group, InputsArgument, json_option, n_best_option, option, with_option_groups
from heedful.cli.output import line_progress, write_part
from heedful.tasks.generate.generation import GenerateOptions, Generation
from heedful.tasks.shared.answering.answers import Answers, Given

if TYPE_CHECKING:
    from heedful.tasks.generate.model import TextGenerator

_SAMPLING: Final = ("temperature", "top_k", "top_p", "min_p", "seed")
_SEARCH: Final = tuple(name for name in options_of(GenerateOptions) if name not in (*_SAMPLING, "samples"))
_BETWEEN: Final = "---"  # the line between two texts


@with_option_groups
def command(
    asked: Answering,
    inputs: InputsArgument = None,
    prompt: Annotated[
        list[str] | None,
        option("A text, to be continued; repeatable.", "--prompt", "-p", "--text", "-t", metavar="TEXT"),
    ] = None,
    whole: Annotated[
        bool, option("Take each file as one text, with its line breaks, not as one per line.", "--whole")
    ] = False,
    only_new: Annotated[bool, option("Write only what follows the prompts.", "--only-new")] = False,
    n_best: Annotated[int | None, n_best_option("texts per prompt, sampled ones or those of a beam")] = None,
    as_json: Annotated[
        bool, json_option("one object per text, with tokens, log probabilities and why it ended")
    ] = False,
    *,
    sampling: Annotated[GenerateOptions, Group(GenerateOptions, "Sampling", _SAMPLING)],
    search: Annotated[GenerateOptions, Group(GenerateOptions, "Search and endings", _SEARCH)],
) -> None:
    """Continue prompts with a language model: texts, the lines of files, or lines that are typed, until Ctrl-D.

    A single text appears word by word, after its prompt; several texts are separated by a line of three dashes. When a
    text becomes longer than the model's window, the window slides: the model reads the last half of it again, and
    continues.
    """
    if as_json and only_new:
        raise UserError("--json has the prompt as a key of its own: leave out --only-new.")
    asked.check_task("generate")
    others = {"other files": inputs, "--prompt": prompt, "--whole": whole, "--only-new": only_new}
    data = asked.data_source(asked.recipe.rules.inputs, as_json, {**others, "--n-best": n_best})
    entries = [] if data else open_inputs(inputs, prompt, "one prompt per line", None if whole else ())
    entries = [as_one_text(entry) for entry in entries] if whole else entries
    sources = asked.lines(entries, lambda line, where: {"text": line}) if data is None else [data]
    with asked.loading(sources) as place:
        from heedful.tasks.generate.model import TextGenerator  # after the quick checks: importing torch takes seconds

        generator = TextGenerator.load(*place, adapter=asked.adapter)
    work = _Generating(generator, {**sampling, **search, "samples": n_best}, with_prompt=not only_new)
    if data is not None or as_json or asked.output is not None:
        asked.write("generating", sources, work.answers(), as_json=as_json)
    else:
        with line_progress("generating", [entry.count for entry in entries]):
            for entry in entries:
                work.show(entry)
    if work.strange:
        messages.note(
            f"{counted(work.strange, 'prompt')} with characters or words that are not in the vocabulary: the model "
            "reads them as <unk>."
        )
    if work.slid:
        messages.note(
            f"the window slid past the model's {generator.window:,} positions: it no longer saw the start of the text."
        )


class _Generating:
    """Generates as one command asks.

    `slid` says whether a text was longer than the model's window, `strange` counts prompts with unknown characters.
    """

    def __init__(self, generator: "TextGenerator", options: GenerateOptions, with_prompt: bool) -> None:
        self._generator, self._options = generator, options
        self._with_prompt, self._written = with_prompt, 0
        self.slid, self.strange = False, 0

    def answers(self) -> "Answers[Sequence[Generation]]":
        """Return how the language model continues prompts, each with one text or several."""
        return Answers(
            ("text",),
            lambda values, where: values["text"],
            lambda prompts, **told: (texts for _, texts in self._found(prompts, **told)),
            lambda texts: {"continuation": texts[0].text, **_fields(texts[0])},
            ("continuation",),
            self._lines,
            each=lambda texts: [[text] for text in texts],
            called={"text": "prompt"},
            formerly={"text": "continuation"},
        )

    def _lines(self, texts: Sequence[Generation], given: Given) -> str:
        self._written = given.number - 1
        return "\n".join(self._plain(given.values["text"], text.text) for text in texts)

    def _found(
        self, prompts: Iterable[str], *, ready: Callable[[], bool], name: str, first: int = 1
    ) -> Iterator[tuple[str, list[Generation]]]:
        """Yield each prompt with its texts; `first` is the number of the first one."""
        from heedful.tasks.shared.answering.streaming import answer_stream

        def generated(part: Sequence[str], number: int) -> list[tuple[str, list[Generation]]]:
            number += first - 1
            texts = self._generator.generate_detailed(part, name=name, first=number, **self._options)
            return list(zip(part, texts, strict=True))

        for prompt, texts in answer_stream(prompts, generated, ready=ready):
            self.strange += self._generator.has_unknown(prompt)
            self.slid = self.slid or any(text.slid for text in texts)
            yield prompt, texts

    def show(self, entry: InputLines) -> None:
        """Write texts to standard output: a single one as it grows, several when all of them are there."""
        from heedful.tasks.shared.answering.streaming import CHUNK, chunks

        number = 1
        for part in chunks(entry.lines(), 1 if entry.typed else CHUNK, entry.ready):
            if entry.typed and not part[0].strip():
                continue
            if len(part) == 1 and (self._options["samples"] or 1) == 1:
                self._stream(part[0], entry, number)
            else:
                for prompt, texts in self._found(part, ready=entry.ready, name=entry.name, first=number):
                    for text in texts:
                        write_part(f"{self._plain(prompt, text.text)}\n")
            number += len(part)

    def _stream(self, prompt: str, entry: InputLines, number: int) -> None:
        options = self._options
        self.strange += self._generator.has_unknown(prompt)
        if entry.typed:  # a prompt that is typed again has another answer
            options = {**options, "seed": (options.get("seed") or 0) + number - 1}
        stream = self._generator.generate_stream(prompt, name=entry.name, first=number, **options)
        last = "" if entry.typed else self._plain(prompt, "")
        for part in chain([last] if last else [], stream):
            write_part(part)
            last = part
        write_part("" if last.endswith("\n") else "\n")
        self.slid = self.slid or stream.slid

    def _plain(self, prompt: str, text: str) -> str:
        """Return a text after its prompt, and after a line that separates it from the text before it."""
        between = f"{_BETWEEN}\n" if self._written else ""
        self._written += 1
        return f"{between}{prompt if self._with_prompt else ''}{text}"


def _fields(found: Generation) -> dict[str, object]:
    """Return what is known of a text besides itself, as fields of a JSON object."""
    known = {name: value for name, value in asdict(found).items() if name != "text"}
    return {**known, "log_probability": found.log_probability}
