"""A folder with everything that the pages' examples name: text files, recipes, and tiny models trained once."""

import gzip
import json
import random
import shutil
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.docs.blocks import ROOT
from tests.shared.taggers import tagged_sentences, write_conll

import heedful
from heedful.data.builtin.reports import report_questions

WORDS = {"a": "ein", "dog": "Hund", "man": "Mann", "runs": "rennt", "reads": "liest", "small": "kleiner", "the": "der"}
OPINIONS = {"pos": ("great", "lovely"), "neg": ("dull", "awful")}
QUICK = 'device = "cpu"\nprecision = "float32"\nsteps = 4\n'
RECIPES = {
    "my": """
[data]
train = { source = "train.en.gz", target = "train.de.gz" }
valid = { source = "valid.en", target = "valid.de" }
test = { source = "test.en", target = "test.de" }
[tokenizer]
kind = "word"
[model]
width = 16
heads = 2
layers = 1
inner = 32
[decode]
max_extra = 4
[train]
checkpoint_every = 1
keep_checkpoints = 10
""",
    "fine": """
[data]
train = { source = "domain.en", target = "domain.de" }
[train]
start_from = "runs/general"
schedule = { kind = "constant", lr = 0.0001 }
""",
    "bert": """
[data]
train = { text = "train.txt" }
valid = { text = "valid.txt" }
max_length = 32
[tokenizer]
kind = "word"
[model]
family = "bert"
width = 16
heads = 2
layers = 2
inner = 32
[train]
""",
    "text": """
[data]
train = { text = "train.txt", documents = "file" }
valid = { text = "valid.txt", documents = "file" }
borders = "open"
max_length = 64
[tokenizer]
kind = "char"
[model]
family = "language"
decoder = { family = "transformer", width = 16, heads = 2, layers = 1, inner = 32 }
[train]
""",
    "han": """
[data]
train = { tsv = "train.tsv", label = 1, text = 2 }
[tokenizer]
kind = "word"
[model]
family = "classifier"
encoder = { family = "hierarchical", words = { width = 8, embedding = 8 }, sentences = { width = 8 } }
[train]
""",
    "topics": """
[data]
train = { tsv = "topics.tsv", label = 1, text = 2 }
[tokenizer]
kind = "word"
[model]
family = "classifier"
labels = "several"
encoder = { family = "transformer", width = 16, heads = 2, layers = 1, inner = 32 }
[train]
""",
    "regressor": """
[data]
train = { tsv = "ratings.tsv", number = 1, text = 2 }
test = { tsv = "ratings.tsv", number = 1, text = 2 }
[tokenizer]
kind = "word"
[model]
family = "regressor"
encoder = { family = "bag", width = 4, buckets = 64 }
[train]
""",
    "nli": """
[data]
train = { tsv = "pairs.tsv", label = 1, text = 2, second = 3 }
[tokenizer]
kind = "word"
[model]
family = "classifier"
encoder = { family = "transformer", width = 16, heads = 2, layers = 1, inner = 32 }
[train]
""",
}
COPIES = [
    "general", "reverse", "seed-1", "seed-2", "seed-3", "post", "pre",
    *(f"{name}-{number}" for name in ("post", "pre", "lc", "a", "b") for number in (1, 2, 3)),
]  # fmt: skip


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """The folder, as every page finds it."""
    home = tmp_path_factory.mktemp("docs")
    _write_texts(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("HEEDFUL_CACHE", str(home / "cache"))
        for name, recipe in RECIPES.items():
            Path(f"{name}.toml").write_text(recipe + QUICK)
        _train("my", "m30k", "train.steps=10")
        for copy in COPIES:
            shutil.copytree("runs/m30k", f"runs/{copy}")
        for seed in (1, 2):
            _train("fine", f"fine-{seed}", f"train.seed={seed}")
        for name in ("bert", "text", "han", "topics", "nli", "regressor"):
            _train(name, name)
        shutil.copytree("runs/regressor", "runs/other-regressor")
        for name in set(RECIPES) - {"my"}:  # what the pages themselves write
            Path(f"{name}.toml").unlink()
    return home


@pytest.fixture
def folder(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the current folder."""
    copy = shutil.copytree(made_once, tmp_path / "folder")
    (copy / "benchmarks/results").mkdir(parents=True)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("HEEDFUL_CACHE", str(copy / "cache"))
    assert ROOT not in copy.parents
    return copy


def _train(recipe: str, run: str, *overrides: str) -> None:
    heedful.train(f"{recipe}.toml", f"runs/{run}", overrides, console=Console(file=StringIO()))


def _write_texts(home: Path) -> None:
    for name, count in (("train", 60), ("valid", 6), ("test", 8), ("text", 3), ("domain", 20)):
        sources = _sentences(count, name)
        _write(home / f"{name}.en", sources)
        _write(home / f"{name}.de", [" ".join(WORDS[word] for word in line.split()) for line in sources])
    for side in ("en", "de"):
        (home / f"train.{side}.gz").write_bytes(gzip.compress((home / f"train.{side}").read_bytes()))
    targets = (home / "test.de").read_text().splitlines()
    _write(home / "theirs.de", targets[1:] + targets[:1])
    _write(home / "ours.de", targets)
    _write(home / "terms.tsv", ["dog\tHund", "small dog\tkleiner Hund"])
    (home / "films").mkdir()
    for name, count in (("train", 60), ("valid", 12), ("test", 12)):
        rows = _reviews(count, name)
        _write(home / f"{name}.tsv", rows)
        _write(home / f"films/{name}.tsv", rows)
    (home / "reviews.tsv.gz").write_bytes(gzip.compress((home / "train.tsv").read_bytes()))
    for number, name in enumerate(("train", "valid", "test")):
        write_conll(home / f"{name}.conll", tagged_sentences(20, number))
    for number, name in enumerate(("train", "valid", "test")):
        _write(home / f"{name}.trees", _trees(number))
    _write(home / "sentences.txt", ["the old dog sees a cat", "", "a bird likes the house"])
    _write(home / "ratings.tsv", [f"{len(line)}\t{line}" for line in _sentences(20, "ratings")])
    _write(home / "topics.tsv", [f"law,money\t{line}" for line in _sentences(20, "topics")])
    _write(home / "pairs.tsv", [f"{label}\t{line}\t{line}" for label in "yn" for line in _sentences(20, "pairs")])
    _write(home / "texts.txt", ["The film was great.", "", "The plot was dull."])
    _write(home / "reviews.csv", ["id,text", '1,"The film was great, and long."', "2,The plot was dull."])
    _write(home / "table.csv", ["id,english", "1,a dog runs", "2,the man reads"])
    write_conll(home / "new.conll", tagged_sentences(3, 7))
    _write(home / "prompts.txt", ["the man", "a dog"])
    said = {"tomato": ("T AH M EY T OW", "T AH M AA T OW"), "cat": ("K AE T",), "dog": ("D AO G",), "a": ("AH", "EY")}
    for name in ("words.tsv", "words.valid.tsv", "words.test.tsv"):
        _write(home / name, [f"{word}\t{variant}" for word, variants in said.items() for variant in variants])
    _write(home / "nbest.txt", [f"0 ||| {text} ||| a= 1 ||| -0.5" for text in ("ein Hund", "der Mann")])
    _write(home / "nbest.tsv", [f"a dog\t{text}\t-0.5" for text in ("ein Hund", "der Mann")])
    asked = report_questions("train", 200)
    questions = [{"question": question, "text": text, "answer": answers} for question, text, answers, _ in asked]
    _write(home / "questions.jsonl", [json.dumps(question) for question in questions])
    _write(home / "report.txt", ["Clara found the map in the cave.", "Emil was at home."])
    _write(home / "news.txt", _sentences(2, "news"))
    for name in ("train", "valid"):
        documents = ["\n".join(f"{line}." for line in _sentences(6, f"{name}{number}")) for number in range(12)]
        (home / f"{name}.txt").write_text("\n\n".join(documents) + "\n")


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def _sentences(count: int, seed: str) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(list(WORDS), k=chance.randint(2, 6))) for _ in range(count)]


def _trees(number: int) -> list[str]:
    nouns, verbs = ("dog", "cat", "bird", "man"), ("sees", "likes", "hears", "follows", "greets")
    trees = [
        f"(ROOT (S (NP-SBJ (DT the) (JJ {size}) (NN {who})) (VP (VBZ {does}) (NP (DT a) (NN {whom})))))"
        for size in ("old", "small") for who in nouns for does in verbs for whom in nouns if who != whom
    ]  # fmt: skip
    return trees[number::3]


def _reviews(count: int, seed: str) -> list[str]:
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        label = chance.choice(list(OPINIONS))
        noun, opinion = chance.choice(("film", "plot")), chance.choice(OPINIONS[label])
        rows.append(f"{label}\tThe {noun} was {opinion}. The {chance.choice(('cast', 'score'))} was {opinion}.")
    return rows
