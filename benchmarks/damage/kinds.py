"""Everything that Heedful reads, by kind: small sound inputs, and the command lines that read them.

A new reader adds a row to `KINDS`; what fits a file is found by its name (`damaging.py`). Models and runs are those of
tests/golden, everything else is made here. An input is its kind and its seeds, "table:17" or "table:17.4": the first
seed chooses a sound input and damages it, each further one damages the result again.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.damage.damaging import mutate
from benchmarks.damage.imported_folders import write_bert, write_gpt2, write_llama, write_marian, write_vit
from benchmarks.damage.limited_runs import Work
from benchmarks.damage.small_corpora import SOURCES, TARGETS, SmallCorpus, picture, small_corpora

from heedful.base.errors import UserError
from heedful.config.reading.load import load_recipe, recipe_to_toml
from heedful.data.tokenize.tokenizer import Tokenizer

ROOT: Final = Path(__file__).parents[2]
GOLDEN: Final = ROOT / "tests/golden"
Commands = list[list[str]]
FEW: Final = ("--set", "train.steps=2")
SHORT: Final = ("--beam", "2", "--max-extra", "4")


@dataclass(frozen=True)
class Sound:
    """A sound input: a folder, the files that are damaged, what reads it, and how hashes are set right."""

    folder: Path
    damaged: str  # a glob
    uses: Sequence[Commands]  # one is run; the first succeeds if nothing is damaged
    seal: Callable[[Path], None] = lambda folder: None


class Inputs:
    """The sound inputs, made when they are first asked for, in a folder that is theirs."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._made: dict[str, list[Sound]] = {}

    def of(self, kind: str) -> Sequence[Sound]:
        """Return the sound inputs of a kind."""
        if kind not in self._made:
            self._made[kind] = list(KINDS[kind](self._home / kind))
        return self._made[kind]

    def work(self, name: str) -> Work:
        """Return the input of this name."""
        kind, _, seeds = name.partition(":")
        first, *others = seeds.split(".")
        sounds = self.of(kind)

        def make(folder: Path) -> Commands:
            chance = Random(f"{kind}:{first}")
            sound = chance.choice(sounds)
            shutil.copytree(sound.folder, folder, dirs_exist_ok=True)
            for more in (chance, *(Random(f"{kind}:{seed}") for seed in others)):
                paths = folder.glob(sound.damaged)
                files = sorted(path for path in paths if path.is_symlink() or not path.is_dir())
                for path in more.sample(files, min(len(files), more.choice((1, 1, 1, 2)))):
                    mutate(more, path)
            if chance.random() < 0.6:
                sound.seal(folder)
            return chance.choice(sound.uses)

        return Work(name, make)

    def rehearse(self) -> None:
        """Train once in this process, so that its children have imported whatever is imported late."""
        from heedful.cli.main import run

        folder = self._home / "rehearsal"
        _write_corpus(folder, next(iter(small_corpora())))
        with _inside(folder), Path(os.devnull).open("w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
            run(["doctor", "recipe.toml", "--quick"])
            run(["train", "recipe.toml", "--out", "out", *FEW])

    def sound(self, kinds: Sequence[str]) -> Iterator[Work]:
        """Yield every input of some kinds as it is, which must be accepted."""
        for kind in kinds:
            for number, sound in enumerate(self.of(kind)):

                def make(folder: Path, sound: Sound = sound) -> Commands:
                    shutil.copytree(sound.folder, folder, dirs_exist_ok=True)
                    return sound.uses[0]

                yield Work(f"{kind}-sound:{number}", make)


# --- recipes and studies ----------------------------------------------------------------------------------------------


def _recipes(home: Path) -> Iterator[Sound]:
    for run in sorted((GOLDEN / "runs").iterdir()):
        folder = home / run.name
        shutil.copytree(run, folder, ignore=shutil.ignore_patterns("run", "whole.jsonl"))
        if run.name != "transformer":  # with every key
            (folder / "recipe.toml").write_text(recipe_to_toml(load_recipe(folder / "recipe.toml")))
        train = ["train", "recipe.toml", "--out", "out", *FEW]
        check, show = ["config", "check", "recipe.toml"], ["config", "show", "recipe.toml"]
        yield Sound(folder, "recipe.toml", [[check], [train], [check], [show], [["doctor", "recipe.toml", "--quick"]]])
    for recipe in sorted((ROOT / "recipes").glob("*.toml")):
        folder = home / recipe.stem
        folder.mkdir(parents=True)
        shutil.copy(recipe, folder / "recipe.toml")
        yield Sound(folder, "recipe.toml", [[["config", "show", "recipe.toml"]]])


def _studies(home: Path) -> Iterator[Sound]:
    """Yield shipped studies, of which only the file is read, and one that has been run."""
    from rich.console import Console

    from heedful.lab.study.cell import run_cell
    from heedful.lab.study.definition import read_study
    from heedful.lab.study.running import Ready, StudyRun
    from heedful.lab.study.side_by_side import Task

    folder = home / "run"
    shutil.copytree(GOLDEN / "runs/classifier", folder, ignore=shutil.ignore_patterns("run", "whole.jsonl"))
    (folder / "study.toml").write_text(
        'base = "recipe.toml"\nseeds = [1]\nset = ["train.steps=2"]\ntitle = "Widths"\n'
        '[[cells]]\nname = "batches"\nset = ["data.batch_tokens=100"]\n'
        '[grid]\n"train.clip_norm" = [0.5, 2.0]\n'
    )

    def run_here(tasks: Sequence[Task], ready: Ready) -> None:
        for task in tasks:
            run_cell(Path(task.command[-1]), Console(quiet=True))
            ready(task, None)

    with _inside(folder):
        StudyRun(read_study(Path("study.toml")), Path("out")).run(run_here)
        for cell in Path("out/cells").iterdir():
            shutil.rmtree(cell / "run")
    page = ["study", "study.toml", "--out", "out", "--page"]
    yield Sound(folder, "study.toml", [[page]])
    yield Sound(folder, "out/study.json", [[page]])
    yield Sound(folder, "out/study.json", [[page]])
    for study in ("attention", "schedules"):
        folder = home / study
        folder.mkdir()
        shutil.copy(ROOT / f"studies/{study}.toml", folder / "study.toml")
        yield Sound(folder, "study.toml", [[["study", "--list"]], [["study", "study.toml", "--page"]]])


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder, with a cache inside of it."""
    before, cache = Path.cwd(), os.environ.get("HEEDFUL_CACHE")
    os.chdir(folder)
    os.environ["HEEDFUL_CACHE"] = str(folder / "cache")
    try:
        yield
    finally:
        os.chdir(before)
        if cache is None:
            del os.environ["HEEDFUL_CACHE"]
        else:
            os.environ["HEEDFUL_CACHE"] = cache


# --- models -----------------------------------------------------------------------------------------------------------


def _bundles(home: Path) -> Iterator[Sound]:
    for bundle in sorted(path for path in (GOLDEN / "bundles").iterdir() if path.is_dir()):
        folder = home / bundle.name
        shutil.copytree(bundle, folder / "model")
        _write_questions(folder)
        uses = _of_bundle(bundle.name)
        more = [[["tokens", "model", "source.txt"]]] if (bundle / "tokenizer.json").exists() else []
        yield Sound(folder, "model/*[!d]", [uses, uses, uses, *more], _seal_bundle)  # not README.md


def _write_questions(folder: Path) -> None:
    for name, lines in (("source.txt", SOURCES), ("target.txt", TARGETS)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(SOURCES, TARGETS, strict=True)))
    (folder / "masks.txt").write_text("The [MASK] sees a house.\nA bird [MASK] the [MASK].\n")
    (folder / "image.png").write_bytes(picture(".png"))


def _of_bundle(name: str) -> Commands:
    kind = name.partition("-")[0]
    texts = "pairs.tsv" if name.endswith("pairs") else "source.txt"
    match kind:
        case "bert":
            return [["fill", "model", "masks.txt"], ["embed", "model", "source.txt"]]
        case "classifier" | "regressor" | "tagger" | "parser":
            verb = {"classifier": "classify", "regressor": "regress", "tagger": "tag", "parser": "parse"}[kind]
            return [[verb, "model", texts]]
        case "images":
            return [["regress" if name == "images-numbers" else "classify", "model", "image.png"]]
        case "captions":
            return [["caption", "model", "image.png", *SHORT]]
        case "answers":
            return [["answer", "model", "--question", "what colour is it ?", "--image", "image.png"]]
        case "reader":
            return [["answer", "model", "--question", "who sees a house?", "--context", "source.txt"]]
        case "language":
            return [["generate", "model", "source.txt", "--max-tokens", "4"]]
        case _:
            to = ["--to", "de"] if name == "transformer-languages" else []
            files = ["--source", "source.txt", "--target", "target.txt"]
            return [["translate", "model", "source.txt", *to, *SHORT], ["score", "model", *to, *files]]


def _checkpoints(home: Path) -> Iterator[Sound]:
    for run in sorted((GOLDEN / "runs").iterdir()):
        folder = home / run.name
        shutil.copytree(run, folder)
        resume = ["train", "recipe.toml", "--out", "run", "--resume", "--set", "train.steps=12"]
        uses = [[resume], [resume], [["average", "run", "--out", "mean", "--last", "2"]]]
        yield Sound(folder, "run/**/*[!dl]", uses, _seal_checkpoint)


def _logs(home: Path) -> Iterator[Sound]:
    """Yield runs whose logs are damaged: a report reads them, and training adds to them."""
    for run in ("classifier", "transformer"):
        folder = home / run
        shutil.copytree(GOLDEN / "runs" / run, folder)
        log = (folder / "run/metrics.jsonl").read_text()
        norms = [{"step": step, "kind": "norms", "norms": {"encoder": 1.0}} for step in (1, 2)]
        samples = [{"step": 10, "samples": [{"source": "a", "output": "b", "reference": "c"}]}]
        for name, rows in (("instruments", norms), ("samples", samples)):
            (folder / f"run/{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        assert log
        report = [["report", "run", "-o", "report.html"]]
        resume = [["train", "recipe.toml", "--out", "run", "--resume", "--set", "train.steps=11"]]
        yield Sound(folder, "run/*.jsonl", [report, report, [["report", "run", "--json"]], resume])


def _imported(home: Path) -> Iterator[Sound]:
    for name, write, use in (
        ("marian", write_marian, ["translate", "model", "source.txt", *SHORT]),
        ("bert", write_bert, ["fill", "model", "masks.txt"]),
        ("gpt2", write_gpt2, ["generate", "model", "source.txt", "--max-tokens", "4"]),
        ("llama", write_llama, ["generate", "model", "source.txt", "--max-tokens", "4"]),
        ("vit", write_vit, ["classify", "model", "image.png"]),
    ):
        write(home / name / "theirs")
        _write_questions(home / name)
        yield Sound(home / name, "theirs/*", [[["import", "theirs", "--out", "model"], use]])


# --- data -------------------------------------------------------------------------------------------------------------


def _corpora(kind: str) -> Callable[[Path], Iterator[Sound]]:
    def made(home: Path) -> Iterator[Sound]:
        for number, corpus in enumerate(corpus for corpus in small_corpora() if corpus.kind == kind):
            folder = home / str(number)
            _write_corpus(folder, corpus)
            yield Sound(folder, "**/c.*", _of_corpus(corpus))

    return made


def _write_corpus(folder: Path, corpus: SmallCorpus) -> None:
    for name, data in corpus.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "recipe.toml").write_text(corpus.recipe)


def _of_corpus(corpus: SmallCorpus) -> Sequence[Commands]:
    train = ["train", "recipe.toml", "--out", "out", *FEW]
    sized = [
        ["--set", f'tokenizer={{ kind = "{kind}", size = {300 if kind == "byte_bpe" else 120} }}']
        for kind in (("byte_bpe", "bpe", "wordpiece", "unigram", "word", "char") if corpus.tokenizer else ())
    ]
    files = [name for name in corpus.files if "/" not in name][:2] or ["photos"]
    doctor, check = [["doctor", "recipe.toml", "--quick"]], [["config", "check", "recipe.toml"]]
    first = [["init", *files, "-o", "first.toml"]]
    return [check, *([[*train, *more]] for more in sized or [[]]), *[doctor] * 2, check, *[first] * 5]


def _answered(home: Path) -> Iterator[Sound]:
    """Yield tables, lists and files of words that a trained model is given."""
    folder = home / "classifier"
    shutil.copytree(GOLDEN / "bundles/classifier-transformer", folder / "model")
    rows = "".join(f"{n},{line.rstrip('.?')}\n" for n, line in enumerate(SOURCES))
    (folder / "c.csv").write_text(f"id,text\n{rows}")
    (folder / "c.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in SOURCES))
    (folder / "c.txt").write_text("".join(f"{line}\n" for line in SOURCES))
    tables = [[["classify", "model", "--data", f"c.{end}", "--set", "data.text=text"]] for end in ("csv", "jsonl")]
    yield Sound(folder, "c.*", [*tables, [["classify", "model", "c.txt"]], [["embed", "model", "c.txt"]]])
    folder = home / "translator"
    shutil.copytree(GOLDEN / "bundles/transformer", folder / "model")
    (folder / "c.nbest").write_text("".join(f"{n} ||| {t} ||| x ||| -1.0\n" for n in range(3) for t in TARGETS))
    for name, lines in (("c.source", SOURCES), ("c.target", TARGETS)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    files = ["--source", "c.source", "--target", "c.target"]
    yield Sound(
        folder,
        "c.*",
        [
            [["score", "model", *files]],
            [["score", "model", "--source", "c.source", "--rerank", "c.nbest"]],
            [["translate", "model", "c.source", *SHORT]],
            [["evaluate", "model", *files, *SHORT]],
            [["compare", "c.target", "c.source", *files, "--samples", "100"]],
        ],
    )
    folder = home / "image"
    shutil.copytree(GOLDEN / "bundles/images-vit", folder / "model")
    for end in (".png", ".jpg", ".webp"):
        (folder / f"c{end}").write_bytes(picture(end))
        yield Sound(folder, f"c{end}", [[["classify", "model", f"c{end}"]]])


def _caches(home: Path) -> Iterator[Sound]:
    """Yield prepared corpora: what is damaged is made again."""
    from heedful.cli.main import run

    for corpus in (corpus for corpus in small_corpora() if corpus.files.keys() & {"c.en", "c.conll", "c.npz"}):
        folder = home / str(len(corpus.table))
        _write_corpus(folder, corpus)
        train = ["--quiet", "train", "recipe.toml", *FEW, "--set", "train.report=false", "--out"]
        with _inside(folder):
            assert run([*train, "before"]) == 0
        shutil.rmtree(folder / "before")
        yield Sound(folder, "cache/**/*", [[[*train, "out"]], [["cache", "list"]], [[*train, "out"]]])


KINDS: Final[Mapping[str, Callable[[Path], Iterator[Sound]]]] = {
    "recipe": _recipes,
    "study": _studies,
    "bundle": _bundles,
    "checkpoint": _checkpoints,
    "log": _logs,
    "imported": _imported,
    "archive": _corpora("archive"),
    "table": _corpora("table"),
    "memory": _corpora("memory"),
    "words": _corpora("words"),
    "image": _corpora("image"),
    "array": _corpora("array"),
    "answered": _answered,
    "cache": _caches,
}


# --- hashes -----------------------------------------------------------------------------------------------------------


def _seal_bundle(folder: Path) -> None:
    """State the hashes of the tokenizers as they are now, as somebody does who means to deceive."""
    if not (folder / "model/config.json").is_file():
        return
    try:
        config = json.loads((folder / "model/config.json").read_bytes())
        for name in config["tokenizers"]:
            file = folder / "model" / name
            if file.is_file():
                config["tokenizers"][name] = hashlib.sha256(_as_written(file.read_bytes())).hexdigest()
        (folder / "model/config.json").write_text(json.dumps(config))
    except (ValueError, TypeError, KeyError, OSError, AttributeError, RecursionError):
        return


def _as_written(data: bytes) -> bytes:
    """Return a tokenizer as its library writes it, where Heedful lets it read it."""
    try:
        return Tokenizer.from_json(data, "tokenizer.json").to_json()
    except UserError:
        return data


def _seal_checkpoint(folder: Path) -> None:
    for manifest in folder.glob("run/checkpoints/*/manifest.json"):
        names = [path for path in manifest.parent.iterdir() if path.is_file() and path != manifest]
        if manifest.is_file() and not manifest.is_symlink() and all(path.stat().st_size < 1 << 30 for path in names):
            hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in names}
            manifest.write_text(json.dumps(hashes))
