"""`heedful augment`: training data that a model makes of text: pairs, trees and labels."""

from typing import Annotated, Any, Final

import typer

from heedful.base.errors import UserError, counted
from heedful.cli import messages
from heedful.cli.answering.asked import AnsweringTexts
from heedful.cli.answering.cuts import Cuts
from heedful.cli.answering.made_rows import (
    Tally,
    check_new_output,
    labels_of,
    pairs_of,
    refuse_arrays,
    tags_of,
    trees_of,
    usable_sources,
)
from heedful.cli.options import (
    RawOption,
    Searching,
    ShortlistOption,
    ToOption,
    WithOption,
    json_option,
    n_best_option,
    option,
    with_option_groups,
)
from heedful.cli.output import STANDARD_OUTPUT
from heedful.config.tokenizer import check_kept_word

app = typer.Typer(help="Make training data with a model: pairs by back-translation, silver trees, pseudo-labels.")

_SENTENCES: Final = "one sentence per line, words separated by spaces"


@app.command()
@with_option_groups
def backtranslate(
    asked: AnsweringTexts,
    others: WithOption = None,
    tag: Annotated[
        str | None,
        option("A word before each translation, which tells a model that it is one: <bt>.", "--tag", metavar="WORD"),
    ] = None,
    to: ToOption = None,
    raw: RawOption = False,
    shortlist: ShortlistOption = False,
    n_best: Annotated[int | None, n_best_option("pairs of each text, with different sources")] = None,
    as_json: Annotated[bool, json_option("one object per pair, with source, target and score")] = False,
    *,
    search: Searching,
) -> None:
    """Translate texts of the target language back: pairs of a translation and its text, separated by a tab.

    MODEL translates in the other direction: its source is the target of the model that the pairs are for. Recipes read
    the pairs as `{ tsv = "pairs.tsv" }`. Blank lines, and translations that are empty or were cut at the maximum
    length, make no pairs.
    """
    if tag is not None:
        try:
            check_kept_word(tag, "a tag")
        except ValueError as error:
            raise UserError(f"--tag: {error}.") from None
    check_new_output(asked, "pairs are written")
    options = search.options(n_best) | {"to": to, "raw": raw, "shortlist": shortlist}
    asked.check_task("translate")
    sources = usable_sources(asked.sources(as_json))
    with asked.loading(sources) as place:
        from heedful.tasks.translate.model import Translator  # after the quick checks: importing torch takes seconds

        translator = Translator.load(*place, others or ())
    tally = Tally()
    asked.write("translating", sources, pairs_of(translator, tally, tag, options), as_json=as_json)
    _tell(asked, tally, "translations that are empty or were cut at the maximum length")
    if tag is not None and _to_a_file(asked):
        messages.note(f'next: train on {asked.output} too, with `tokenizer.keep = ["{tag}"]`.')


@app.command()
@with_option_groups
def parse(
    asked: AnsweringTexts,
    others: WithOption = None,
    as_json: Annotated[bool, json_option("one object per sentence, with words, tree, log probability, score")] = False,
    *,
    search: Searching,
) -> None:
    """Parse sentences into silver trees: one bracketed tree per line.

    Recipes read them as `{ trees = "silver.mrg" }`. Words are separated by spaces; blank lines make no trees.
    """
    check_new_output(asked, "trees are written")
    options = search.options(None)
    asked.check_task("parse")
    sources = usable_sources(asked.sources(as_json, on_each_line=_SENTENCES))
    with asked.loading(sources) as place:
        from heedful.tasks.parse.model import Parser  # after the quick checks: importing torch takes seconds

        parser = Parser.load(*place, others or ())
    tally = Tally()
    asked.write("parsing", sources, trees_of(parser, tally, options), as_json=as_json)
    _tell(asked, tally, "sentences without a tree")


@app.command()
@with_option_groups
def label(
    asked: AnsweringTexts,
    min_probability: Annotated[
        float,
        option(
            "Only rows whose labels have at least this probability, each of them.",
            "--min-probability",
            metavar="P",
            min=0.0,
            max=1.0,
        ),
    ] = 0.0,
    as_json: Annotated[bool, json_option("one object per row, with labels and probabilities")] = False,
) -> None:
    """Label texts or images with a classifier, or words with a tagger: pseudo-labels.

    A classifier writes each text and its label, separated by a tab, which recipes read as `{ tsv = "labelled.tsv",
    text = 1, label = 2 }`: of text pairs `second = 2, label = 3`, of images `image = 1, label = 2`. A tagger writes one
    word per line with its label, and a blank line after each sentence: `{ conll = "labelled.conll" }`. Of a model with
    several labels, the decision for or against each class has a probability.
    """
    check_new_output(asked, "labels are written next to their texts")
    asked.check_task("classify", "tag")
    tags = asked.recipe.rules.verb == "tag"
    sources = usable_sources(asked.sources(as_json, on_each_line=_SENTENCES if tags else "one text per line"))
    if asked.recipe.rules.images:
        refuse_arrays(sources)
    with asked.loading(sources) as place:
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds

        model: Any = load(*place)
    tally, cuts = Tally(), Cuts()
    folder = asked.output.parent if asked.output is not None and _to_a_file(asked) else None
    least = min_probability
    answers: Any = tags_of(model, tally, least) if tags else labels_of(model, tally, least, folder)
    asked.write("labelling", sources, cuts.counting(answers), as_json=as_json)
    cuts.tell(asked.recipe)
    _tell(asked, tally, f"labels of a probability of less than {min_probability:g}")


def _tell(asked: AnsweringTexts, tally: Tally, reason: str) -> None:
    """Say how many answers are no training data."""
    if tally.left_out and asked.output not in (None, STANDARD_OUTPUT):
        messages.note(f"{tally.left_out:,} of {counted(tally.answers, 'answer')} were left out: {reason}.")


def _to_a_file(asked: AnsweringTexts) -> bool:
    return asked.in_parts is None and asked.output not in (None, STANDARD_OUTPUT)
