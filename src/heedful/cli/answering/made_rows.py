"""Training data that models make: pairs, trees and labelled texts, one row per line, as recipes read them."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from heedful.base.columns import one_column
from heedful.base.errors import UserError
from heedful.cli.answering.inputs import Inputs, Source
from heedful.cli.output import STANDARD_OUTPUT
from heedful.data.corpora.formats.lines import Passed
from heedful.tasks.shared.answering.answers import Answers, Given

if TYPE_CHECKING:
    from heedful.tasks.classify.classification import Classification
    from heedful.tasks.tag.model import Tagging
    from heedful.tasks.translate.model import Translation, Translator

Found = TypeVar("Found")


@dataclass
class Tally:
    """How many answers a model gave, and how many of them are no training data."""

    answers: int = 0
    left_out: int = 0

    def counting(self, answers: Answers[Found], usable: Callable[[Found], bool]) -> Answers[Found]:
        """Return how a model answers, with nothing in place of an answer that is not usable, nor of a blank input."""

        def stream(*given: Any, **options: Any) -> Iterator[Found]:
            for found in answers.stream(*given, **options):
                self.answers, self.left_out = self.answers + 1, self.left_out + (not usable(found))
                yield found

        return replace(
            answers,
            stream=stream,
            line=lambda found, given: answers.line(found, given) if usable(found) else "",
            each=lambda found: answers.each(found) if usable(found) else (),
            blank=None,
        )


# --- what data is made of ---------------------------------------------------------------------------------------------


def check_new_output(asked: Inputs, rows_are_kept: str) -> None:
    """Refuse an output that would be overwritten, and options of rows: `rows_are_kept` says what is written instead."""
    output = asked.output
    if asked.in_parts is None and output is not None and output != STANDARD_OUTPUT and output.exists():
        raise UserError(f"{output} is there already: choose another --output, or remove it.")
    if asked.format is not None:
        raise UserError(f"--format is for the rows of --data, but {rows_are_kept}: leave it out.")


def usable_sources(sources: Sequence[Source]) -> list[Source]:
    """Return sources without their blank inputs, whose rows are not written again; refuse those of files without text.

    What a model cannot read is left out, and named at the end.
    """

    def of(source: Source) -> Source:
        def inputs(passed: Passed) -> Iterator[Given]:
            for given in source.inputs(passed):
                given.skip = given.skip or any(_is_blank(value) for value in given.values.values())
                yield given

        return replace(source, inputs=inputs, rows=None, tolerant=True)

    usable = [of(source) for source in sources]
    if usable and all(source.files and not _has_text(source.inputs(Passed())) for source in usable):
        names = ", ".join(source.name for source in usable)
        raise UserError(f"{names}: there is no text to make data of: give a file with a text on each line.")
    return usable


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str | list) and not " ".join(value).strip())


def _has_text(inputs: Iterable[Given]) -> bool:
    return any(not given.skip for given in inputs)


# --- kinds of data ----------------------------------------------------------------------------------------------------


def pairs_of(
    translator: "Translator", tally: Tally, tag: str | None, options: Mapping[str, Any]
) -> "Answers[Sequence[Translation]]":
    """Return pairs of a translation, with a tag before it, and the text that it is of.

    Translations that are empty or were cut at the maximum length are not usable, and of equal ones there is one.
    """
    before = "" if tag is None else f"{tag} "

    def usable(found: "Sequence[Translation]") -> "list[Translation]":
        return list({each.text: each for each in found if each.complete and each.text.strip()}.values())

    def line(found: "Sequence[Translation]", given: Given) -> str:
        target = one_column(given.values["source"])
        return "\n".join(f"{before}{one_column(each.text)}\t{target}" for each in usable(found))

    answers = Answers[Sequence["Translation"]](
        ("source",),
        lambda values, where: values["source"],
        lambda sources, **told: translator.stream_detailed(sources, **told, **options),
        lambda found: {"source": f"{before}{found[0].text}", "score": found[0].score},
        ("source",),
        line,
        takes=("ready", "name", "progress"),
        each=lambda found: [[each] for each in usable(found)],
        called={"source": "target"},  # the role of the text in training
    )
    return tally.counting(answers, lambda found: bool(usable(found)))


def refuse_arrays(sources: Sequence[Source]) -> None:
    """Refuse images without a path, which their labels could not be written next to."""
    for source in sources:
        first = next(iter(source.inputs(Passed())), None)
        if first is not None and not isinstance(first.values.get("image", ""), str | Path):
            raise UserError(f"{source.name} has images without files, which rows could not name: give image files.")


def labels_of(classifier: Any, tally: Tally, least: float, folder: Path | None = None) -> "Answers[Classification]":
    """Return texts or images, each with its label or labels, where these have at least the probability `least`.

    Of several labels, the decision for or against each class has a probability. Paths of images are those from the
    folder of the rows, where that is known: recipes look for them there.
    """

    def written(value: object) -> str:
        is_inner = isinstance(value, Path) and not value.is_absolute() and folder is not None
        return one_column(os.path.relpath(str(value), folder) if is_inner else str(value))

    from heedful.tasks.classify.answers import answers_of

    def usable(found: "Classification") -> bool:
        shares = found.probabilities.values()
        certainty = min((max(share, 1 - share) for share in shares), default=0.0) if classifier.several else None
        return bool(shares) and (max(shares) if certainty is None else certainty) >= least

    def line(found: "Classification", given: Given) -> str:
        labels = ",".join(map(one_column, found.labels))
        return "\t".join([*map(written, given.values.values()), labels])

    return tally.counting(replace(answers_of(classifier), line=line), usable)


def tags_of(tagger: Any, tally: Tally, least: float) -> "Answers[Tagging]":
    """Return sentences with their labels, one word per line, where each label has at least the probability `least`."""
    from heedful.tasks.tag.answers import answers_of

    return tally.counting(answers_of(tagger), lambda found: bool(found.words) and min(found.probabilities) >= least)


def trees_of(parser: Any, tally: Tally, options: Mapping[str, Any]) -> Answers[Any]:
    """Return the trees of sentences, one per line."""
    from heedful.tasks.parse.answers import answers_of

    return tally.counting(answers_of(parser, **options), lambda found: found[0].tree is not None)
