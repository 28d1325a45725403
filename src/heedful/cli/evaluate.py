"""`heedful evaluate MODEL`: BLEU, chrF and perplexity on test sets."""

import json
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from heedful.cli.searching import (
    BatchTokensOption,
    BeamOption,
    DeviceOption,
    LengthPenaltyOption,
    MaxExtraOption,
    ModelArgument,
    PrecisionOption,
    one_line,
    sentence_progress,
)
from heedful.config.schema import AnyCorpus, Recipe, TextCorpus
from heedful.errors import UserError
from heedful.files import write_bytes

if TYPE_CHECKING:
    from heedful.api.evaluation import Evaluation
    from heedful.api.model import Model, Options


def command(
    model: ModelArgument,
    source: Annotated[str | None, typer.Option("--source", metavar="FILE", help="Sentences to translate.")] = None,
    target: Annotated[str | None, typer.Option("--target", metavar="FILE", help="Their references.")] = None,
    split: Annotated[
        Literal["valid", "test"] | None,
        typer.Option("--split", help="The recipe's corpora to use (default: test)."),
    ] = None,
    beam: BeamOption = None,
    length_penalty: LengthPenaltyOption = None,
    max_extra: MaxExtraOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    record: Annotated[
        str | None, typer.Option("--record", metavar="NAME", help="Also write benchmarks/results/NAME.json.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Also write the translations, one a line.")
    ] = None,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Translate a test set and score it: BLEU and chrF with their signatures, and the perplexity of the references.

    The test set is the recipe's `data.test`, or --source and --target.
    """
    given = _given(source, target, split)
    if output and output.is_dir():
        raise UserError(f"{output}: this is a folder, but must be a file.")
    from heedful.api.model import load  # after the quick checks: it takes seconds
    from heedful.evaluate import record as records

    if record:
        records.result_file(record)
    translator = load(model, device, precision)
    recipe = translator.recipe
    corpora = given or _of_recipe(recipe, split or "test", model)
    folder = "" if given else recipe.data.folder
    options: Options = {
        "beam": beam,
        "length_penalty": length_penalty,
        "max_extra": max_extra,
        "batch_tokens": batch_tokens,
    }
    results = _evaluate(translator, corpora, folder, options)
    print(_as_json(model, results) if as_json else _as_text(results))
    if output:
        _write_translations(output, results)
    if record:
        command_line = shlex.join(["heedful", *sys.argv[1:]])
        path = records.record(record, _figures(results), command=command_line, seeds=[recipe.train.seed])
        print(f"heedful: recorded in {path}.", file=sys.stderr)


# --- corpora ------------------------------------------------------------------------------------------------------


def _given(source: str | None, target: str | None, split: str | None) -> tuple[TextCorpus, ...]:
    """The corpus of the command line, or nothing."""
    if source is None and target is None:
        return ()
    if source is None or target is None:
        missing = "--source" if source is None else "--target"
        raise UserError(f"{missing} is missing: sentences need references, and references need sentences.")
    if split:
        raise UserError("--split chooses among the recipe's corpora: leave it out beside --source and --target.")
    return (TextCorpus(source=str(Path(source).absolute()), target=str(Path(target).absolute())),)


def _of_recipe(recipe: Recipe, split: str, model: str) -> tuple[AnyCorpus, ...]:
    corpora: tuple[AnyCorpus, ...] = getattr(recipe.data, split)
    if not corpora:
        raise UserError(f"{model}: its recipe has no `data.{split}`: give --source and --target.")
    return corpora


def _evaluate(
    translator: "Model", corpora: Sequence[AnyCorpus], folder: str, options: "Options"
) -> list["tuple[str, Evaluation]"]:
    """Score every corpus; each has its name, or its number."""
    from heedful.api.evaluation import evaluate
    from heedful.data.readers import check_files, corpus_name, read_pairs

    for corpus in corpora:
        check_files(corpus, folder)  # all of them, before anything long begins
    results = []
    for number, corpus in enumerate(corpora, start=1):
        pairs = list(read_pairs(corpus, folder, translator.recipe.data.nfc))
        sources, references = [source for source, _ in pairs], [target for _, target in pairs]
        with sentence_progress(len(pairs)) as progress:
            evaluation = evaluate(
                translator, sources, references, name=corpus_name(corpus), progress=progress, **options
            )
        results.append((corpus.name or str(number), evaluation))
    return results


# --- results ------------------------------------------------------------------------------------------------------


def _figures(results: Sequence["tuple[str, Evaluation]"]) -> dict[str, float]:
    """The first corpus's figures by their own names, those of the others with the corpus's name behind."""
    figures: dict[str, float] = {}
    for place, (name, result) in enumerate(results):
        behind = f"_{name}" if place else ""
        figures[f"bleu{behind}"] = round(result.bleu.score, 4)
        figures[f"chrf{behind}"] = round(result.chrf.score, 4)
        figures[f"exact_match{behind}"] = round(result.exact / result.sentences, 4)
        figures[f"perplexity{behind}"] = round(result.perplexity, 4)
    return figures


def _as_text(results: Sequence["tuple[str, Evaluation]"]) -> str:
    blocks = []
    for name, result in results:
        title = f"{name}\n" if len(results) > 1 else ""
        cut = f", {result.cut:,} of them cut at the maximum length" if result.cut else ""
        blocks.append(
            f"{title}"
            f"BLEU        {result.bleu.score:7.2f}  {result.bleu.signature}\n"
            f"chrF        {result.chrf.score:7.2f}  {result.chrf.signature}\n"
            f"exact       {100 * result.exact / result.sentences:6.2f}%  {result.exact:,} of {result.sentences:,}\n"
            f"perplexity  {result.perplexity:7.2f}  over {result.likelihood.tokens:,} target tokens\n"
            f"{result.sentences:,} sentences{cut} in {result.seconds:.1f} s, "
            f"{result.tokens_per_second:,.0f} tokens/s"
        )
    return "\n\n".join(blocks)


def _as_json(model: str, results: Sequence["tuple[str, Evaluation]"]) -> str:
    corpora = [
        {
            "name": name,
            "sentences": result.sentences,
            "bleu": {"score": result.bleu.score, "signature": result.bleu.signature},
            "chrf": {"score": result.chrf.score, "signature": result.chrf.signature},
            "exact_match": result.exact / result.sentences,
            "perplexity": result.perplexity if math.isfinite(result.perplexity) else None,
            "target_tokens": result.likelihood.tokens,
            "cut": result.cut,
            "seconds": round(result.seconds, 3),
            "tokens_per_second": round(result.tokens_per_second, 1),
        }
        for name, result in results
    ]
    return json.dumps({"model": model, "corpora": corpora}, ensure_ascii=False)


def _write_translations(output: Path, results: Sequence["tuple[str, Evaluation]"]) -> None:
    """One file a corpus; where there are several, each has the corpus's name before its suffix."""
    for name, result in results:
        path = output if len(results) == 1 else output.with_name(f"{output.stem}.{name}{output.suffix}")
        write_bytes(path, "".join(one_line(text) + "\n" for text in result.translations).encode())
