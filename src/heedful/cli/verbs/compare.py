"""`heedful compare A B`: which of two models is better, and whether the difference is more than chance."""

from collections import Counter
from typing import Annotated, Literal

import typer

from heedful.base.errors import UserError
from heedful.base.files import expand_user
from heedful.cli.messages import note
from heedful.cli.options import (
    DecodingOptions,
    DeviceOption,
    OutputOption,
    PrecisionOption,
    TestSourceOption,
    TestTargetOption,
    ToOption,
    with_option_groups,
)
from heedful.cli.output import check_output, progress_bar, write_result

BleuTokenize = Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"]


@with_option_groups
def command(
    a: Annotated[
        str, typer.Argument(metavar="A", help="Folder of a model, file of translations, or several runs: x,y,z.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The other side, likewise.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Translators and captioners: bleu, chrf, ter, exact_match, edit_distance, per, wer; language models: "
            "bits_per_byte, word_perplexity; parsers: f1, exact_match, precision, recall; taggers and classifiers: "
            "accuracy, f1; readers: exact_match, f1; repeatable, the first decides.",
        ),
    ] = None,
    source: TestSourceOption = None,
    target: TestTargetOption = None,
    to: ToOption = None,
    split: Annotated[
        Literal["valid", "test"] | None,
        typer.Option("--split", help="Which corpora of the recipes to use (default: test)."),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus", metavar="NAME", help="Which of these corpora, by name or number (default: the first)."
        ),
    ] = None,
    bleu_tokenize: Annotated[
        BleuTokenize | None,
        typer.Option("--bleu-tokenize", help="Tokenizer of BLEU (default: that of the recipes; 13a for files)."),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=100, help="Number of draws in each test.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed of the draws.")] = 12345,
    examples: Annotated[
        int, typer.Option("--examples", min=0, help="Number of sentences to show in each direction.")
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    *,
    decoding: DecodingOptions,
) -> None:
    """Compare two models of one task, or files of translations: scores, tests, and where they differ.

    A side is the folder of a model, a file of translations (one per line), or several training runs of one system,
    separated by commas. Models translate the test set of their recipe, or --source; files alone need --target.

    A side is called better if paired bootstrap and approximate randomisation both give p < 0.05, the 95% interval of
    the difference excludes zero and, with several runs on both sides, Welch's t-test over the runs gives p < 0.05.

    Language models are compared by how well they predict the documents of the test set of their recipes. Captioners,
    parsers, taggers, classifiers and readers are compared by their evaluations, item by item: parsers by labelled F1.
    """
    check_output(output)
    from heedful.cli.reports.comparison import json_of, text_of
    from heedful.lab.comparison_request import ComparisonRequest, SentenceFiles, read_run, refuse_without_references

    if not target:
        refuse_without_references(source, to)
    side_a, side_b = _names(a, "A"), _names(b, "B")
    runs = {name: read_run(name) for name in (*side_a, *side_b)}
    request = ComparisonRequest(
        {name: runs[name] for name in side_a},
        {name: runs[name] for name in side_b},
        SentenceFiles(source, target, to or "") if target else None,
        metric,
        split,
        corpus,
        bleu_tokenize,
        samples,
        seed,
        examples,
        device,
        precision,
        decoding,
        lambda message: note(f"{message}."),
        progress_bar,
    )
    if request.models:
        from heedful.lab.compare_models import compare_models  # importing torch takes seconds

        found, title = compare_models(request)
    else:
        found, title = request.compare_translations()
    write_result((json_of if as_json else text_of)(found, title), output)


def _names(side: str, label: str) -> list[str]:
    """Return the runs of a side; `~` is expanded in each, as a shell expands only the first."""
    names = [str(expand_user(part)) if part.startswith("~") else part for part in map(str.strip, side.split(","))]
    if not all(names):
        raise UserError(f"{label} is `{side}`, which has an empty name: put commas only between names.")
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice:
        raise UserError(f"{label} names {twice} twice: the runs of a side must be different.")
    return names
