"""`heedful score MODEL [FILE|TEXT...]`: log probabilities of given translations, or of given texts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from heedful.base.errors import UserError, counted
from heedful.cli.answering.asked import AnsweringTexts
from heedful.cli.answering.inputs import Source
from heedful.cli.input import as_one_text, open_inputs
from heedful.cli.options import StrideOption, ToOption, WithOption, json_option, option, with_option_groups
from heedful.cli.output import Line, line_writer
from heedful.config.corpora.containers import AlignedFiles
from heedful.data.corpora.files import check_files
from heedful.data.corpora.formats.lines import Passed, locate, read_lines
from heedful.data.corpora.pairs import read_pairs
from heedful.tasks.shared.answering.answers import Answers, Given

if TYPE_CHECKING:
    from heedful.tasks.shared.sequences.token_scores import TokenScores

_EACH_LINE: Final = "one text per line, or a source and its translation, separated by a tab"
_EACH_CANDIDATE: Final = "a source and a candidate, separated by a tab, on each line"


@with_option_groups
def command(
    asked: AnsweringTexts,
    source: Annotated[str | None, option("File of sources: sentences.", metavar="FILE")] = None,
    target: Annotated[str | None, option("File of targets: the translations to score.", metavar="FILE")] = None,
    others: WithOption = None,
    to: ToOption = None,
    stride: StrideOption = None,
    whole: Annotated[
        bool, option("Take each file as one text, not as one per line (language models).", "--whole")
    ] = False,
    rerank: Annotated[
        bool, option("Translators: order n-best lists anew, and write the best of each.", "--rerank")
    ] = False,
    whole_lists: Annotated[
        bool, option("Write everything: with --rerank whole lists, best first, with their scores.", "--all")
    ] = False,
    weight: Annotated[float, option("With --rerank: weight of the lists' own scores, added to the model's.")] = 0.0,
    length_penalty: Annotated[
        float | None, option("Alpha of the length penalty; with --rerank (default: recipe's).", min=0)
    ] = None,
    tokens: Annotated[bool, option("Add every token with its log probability.", "--tokens")] = False,
    as_json: Annotated[bool, json_option("one object per line, tokens included")] = False,
) -> None:
    """Score given translations, or given texts with a language model, to filter corpora or to rescore n-best lists.

    Writes one line per pair or text: its log probability, and the mean per token (`</s>` counts). A text is a line of a
    file, an argument or a line of standard input. A pair is such a line with a tab between source and translation, or a
    line of --source with the same line of --target.

    With --rerank, each line is a candidate of another system: `source TAB text TAB score`, lines of one source
    together, or with --source in the form of Moses, `id ||| text ||| features ||| score`, the id counting the lines of
    --source from 0. Scores may be missing. Candidates are ordered by log P / length penalty + weight * score.
    """
    if as_json and tokens:
        raise UserError("--json has the tokens in every object: leave out --tokens.")
    never = {"--target": target, "--tokens": tokens, "--stride": stride, "--whole": whole, "--shard": asked.shard}
    only = {"--all": whole_lists, "--weight": weight, "--length-penalty": length_penalty is not None}
    if idle := _first(never if rerank else only):
        lists = "is not for --rerank, which reads lists of candidates" if rerank else "is for --rerank"
        raise UserError(f"{idle} {lists}: leave it out.")
    if as_json and whole_lists:
        raise UserError("--json has the whole list in every object: leave out --all.")
    asked.check_task("translate", "generate")
    language = asked.recipe.rules.scored == "texts"
    of_pairs = {"--rerank": rerank, "--source": source, "--target": target, "--with": others, "--to": to}
    if idle := _first(of_pairs if language else {"--stride": stride, "--whole": whole}):
        users = "translators" if language else "language models"
        raise UserError(f"{idle} is for {users}, which {asked.model} is not: leave it out.")
    excluded = {"--rerank": rerank, "--source": source, "--whole": whole}
    corpus = None if rerank else _corpus(source, target, asked)
    sources, entries = [], []
    if corpus is not None:
        files = [locate(name).path for name in corpus.files()]
        sources = [Source(corpus.title, partial(_pairs_of_corpus, corpus), files=files)]
    elif rerank and asked.data is None:
        entries = open_inputs(asked.inputs, asked.text, _EACH_CANDIDATE)
    else:
        sources = asked.sources(
            as_json,
            roles=("text",) if language else ("source", "target"),
            split=None if language else _pair_of_line,
            on_each_line=_EACH_LINE,
            others=excluded,
            plain=() if language else ("tsv",),
            change=as_one_text if whole else lambda entry: entry,
        )
    with asked.loading(sources) as place:
        from heedful.tasks.generate.model import TextGenerator  # after the quick checks: importing torch takes seconds
        from heedful.tasks.translate.model import Translator

        stream: Any  # scores texts or pairs
        if language:
            stream = partial(TextGenerator.load(*place, adapter=asked.adapter).score_stream, stride=stride)
        else:
            translator = Translator.load(*place, others or (), adapter=asked.adapter)
            stream = partial(translator.score_stream, to=to)

    def reranked() -> Iterator[Line]:
        from heedful.cli.nbest_lists import read_nbest_lists
        from heedful.tasks.translate.scoring import rerank

        lines = None if source is None else list(read_lines(replace(locate(source), hint="")))
        options = {"weight": weight, "length_penalty": length_penalty}
        number = 0
        for entry in entries:
            lists = read_nbest_lists(entry.located(), lines, source or "")
            score = partial(stream, ready=entry.ready, name=entry.name)
            for listed, ranked in rerank(score, translator.recipe.decode, lists, **options):
                number += 1
                if as_json:
                    yield {"line": number, "source": listed.source, "candidates": list(map(asdict, ranked))}
                else:
                    yield "\n".join(map(listed.line, ranked)) if whole_lists else ranked[0].text

    if not rerank:
        asked.write("scoring", sources, answers_of(stream, language, tokens), as_json=as_json)
        return
    line = None
    with line_writer(asked.output) as write:
        for line in reranked():
            write(line)
        if line is None:
            names = ", ".join(entry.name for entry in entries)
            raise UserError(f"{names}: no candidate, but --rerank needs at least one line.")


def answers_of(stream: Callable[..., Any], language: bool, tokens: bool = False) -> "Answers[TokenScores]":
    """Return how texts or pairs are scored by a stream of a model."""

    def fields(scored: "TokenScores") -> dict[str, Any]:
        return {
            "log_probability": scored.log_probability,
            "per_piece": scored.per_piece,
            "pieces": scored.pieces,
            "log_probabilities": scored.log_probabilities,
        }

    def line(scored: "TokenScores", given: Given) -> str:
        columns = [f"{scored.log_probability:.4f}", f"{scored.per_piece:.4f}"]
        return "\t".join([*columns, _tokens(scored)] if tokens else columns)

    columns = ("log_probability", "per_piece", *(("tokens",) if tokens else ()))
    return Answers(
        ("text",) if language else ("source", "target"),
        lambda values, where: values["text"] if language else (values["source"], values["target"]),
        stream,
        fields,
        columns,
        line,
        shown=lambda scored: {"tokens": _tokens(scored)},
    )


def _tokens(scored: "TokenScores") -> str:
    pairs = zip(scored.pieces, scored.log_probabilities, strict=True)
    return " ".join(f"{piece} {log_p:.4f}" for piece, log_p in pairs)


def _pair_of_line(line: str, where: str) -> dict[str, str]:
    """Return the source and the translation of a line, which a tab separates."""
    columns = line.split("\t")
    if len(columns) != 2:
        raise UserError(
            f"{where} has {counted(len(columns), 'column')}, but must have two: a source and its translation, "
            "separated by a tab."
        )
    return {"source": columns[0], "target": columns[1]}


def _pairs_of_corpus(corpus: AlignedFiles, passed: Passed) -> Iterator[Given]:
    for number, (source, target) in passed.over(enumerate(read_pairs(corpus), start=1)):
        yield Given({"source": source, "target": target}, f"{corpus.title}, line {number:,}", {"line": number})


def _first(options: Mapping[str, object]) -> str | None:
    """Return the first of the options that is given."""
    return next((option for option, value in options.items() if value), None)


def _corpus(source: str | None, target: str | None, asked: AnsweringTexts) -> AlignedFiles | None:
    """Return the corpus of --source and --target, if they are given."""
    if source is None and target is None:
        return None
    if asked.inputs or asked.text:
        raise UserError("--source and --target are the pairs to score: leave out the other files and texts.")
    if source is None or target is None:
        missing = "--source" if source is None else "--target"
        raise UserError(f"{missing} is missing: a translation is scored together with its source.")
    corpus = AlignedFiles(source=source, target=target)
    check_files(corpus, hinted=False)  # the hint is about recipes
    return corpus
