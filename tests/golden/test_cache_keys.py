"""Old caches stay valid, and old runs find their data: the keys of prepared data are what they were.

A key is a hash of everything that decides an entry. The names of classes, files and functions decide nothing: whoever
renames one, or reformats it, must leave these keys as they are. Where the content of an entry really changes, its
version number is raised, and the key here with it.
"""

import hashlib
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from rich.console import Console

import heedful
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.corpora.corpus import Corpus
from heedful.config.reading.load import load_recipe
from heedful.data.builtin.english_spanish import sentence_pairs  # the builtin generator
from heedful.data.cache import key_of  # hashes every key
from heedful.data.corpora.files import (
    content_key,  # what decides a corpus: a part of the keys of tokenizers and of tokens
)

TINY = 'width = 8\nheads = 2\nlayers = 1\ninner = 8\n[train]\nsteps = 1\ndevice = "cpu"\nprecision = "float32"\n'
TRANSLATOR = f'[model]\nfamily = "transformer"\n{TINY}'
BERT = f'[model]\nfamily = "bert"\n{TINY}'
CLASSIFIER = f"""[model]
family = "classifier"
encoder = {{ family = "recurrent", width = 8 }}
{TINY[TINY.index("[train]") :]}schedule = {{ kind = "constant", lr = 0.001 }}
"""  # with a schedule, defaults do not follow the size of the corpus
HIERARCHICAL = CLASSIFIER.replace(
    '"recurrent", width = 8', '"hierarchical", words = { width = 8 }, sentences = { width = 8 }'
)
WORDS = '[tokenizer]\nkind = "word"\n'

CORPORA = {  # what `data.train` says, and a model that reads it
    "pairs": ('{ source = "a.en", target = "a.de" }', TRANSLATOR),
    "pairs-to": ('{ source = "a.en", target = "a.de", lines = "1-2", to = "de" }', TRANSLATOR),
    "tsv": ('{ tsv = "a.tsv", source = 2, target = 3 }', TRANSLATOR),
    "jsonl": ('{ jsonl = "a.jsonl", source = "x", target = "y" }', TRANSLATOR),
    "builtin": ('{ builtin = "english-spanish", count = 5 }', TRANSLATOR),
    "tsv-texts": ('{ tsv = "a.tsv", label = 1, text = 2 }', CLASSIFIER),
    "tsv-documents": ('{ tsv = "a.tsv", label = 1, text = 2 }', HIERARCHICAL),
    "tsv-pairs-of-texts": ('{ tsv = "a.tsv", label = 1, text = 2, second = 3 }', CLASSIFIER),
    "jsonl-texts": ('{ jsonl = "a.jsonl", label = "l", text = "x", part = "0-8/9", sample = 3 }', CLASSIFIER),
    "plain-texts": ('{ text = "a.txt", documents = "blank_line" }', BERT),
}

CONTENT = {
    "pairs": "31e6747bfc65033b0eb49327c9f1d1334e327367a5cc868b76fc91547ce87b10",
    "pairs-to": "a507965c3bab390366cbdf4a2327b29e7886293e0a43860fcb17e92749f5050b",
    "tsv": "f9ed5452095721df220cb0cdd5ba02d7bad852fe4c8c6fa6d349344ee5fa6018",
    "jsonl": "3cca8cedd79a02b8dd7d7c7f80c39e8c72c158cfbccd3479255342a32c01c942",
    "builtin": "019218408f8d2d28159dd0d40b9edcd7e3588881f4260e9d9d02df5ec768823f",
    "tsv-texts": "7da44e8807a71f777b357b6e39829422930ecd816412254d28e2d18814dc7448",
    "tsv-documents": "7da44e8807a71f777b357b6e39829422930ecd816412254d28e2d18814dc7448",
    "tsv-pairs-of-texts": "dd2f5254990bb046f57d7c7ef216f6cd3d9e34dc78c7f8a568572e42c817de89",
    "jsonl-texts": "e4791e2286da6345e7b4dd213d33bb266cf9627efe8c1ae3aa564d933f8ef5a9",
    "plain-texts": "6e5fa4546f39afe27876761f8c9fd53624822a2c262737ad2a4bf0d9b9af99e7",
}
TOKENIZERS = {
    "pairs": ["c951ed5a5b76494258cc3e901287175405a67abda9349f62a3eb9ec70b454fe9"],
    "pairs-to": ["63d0f644118b87c1b08f5db269fce1bf42fda8dfbc8a4eabd5a9278e437dd845"],
    "tsv": ["b9b3810f7026753d06ab040dbb06cb25ad3e13776abb56073cfffab8d78729fb"],
    "jsonl": ["da89f2ab308b855a9830919656b40b0301c02e35da08fce86a4977f16ab21f1f"],
    "builtin": ["266e41d39002a7f07840de519ca34f9556c67514a4ac4494de8e8c409f222408"],
    "tsv-texts": ["3572ebaef8b9d364137911567c42740893fac8408bc420a7cfe1a4bad25ba763"],
    "tsv-documents": ["3572ebaef8b9d364137911567c42740893fac8408bc420a7cfe1a4bad25ba763"],
    "tsv-pairs-of-texts": ["8c4752e8a338dbddf395da7dd4f5467bb426fe3a28d9397814b5c1d4021e5619"],
    "jsonl-texts": ["e203c8eceeecb18d524963a42bc78f24918e7ae62c29f3f3643fd5c93d7eefd9"],
    "plain-texts": ["3d0403a861c541e0c7620a5d5de285eda97f13bff4e8b6631a923dbb5f3ff4a0"],
}
TOKENS = {
    "pairs": ["fb3d21e636f0c14c48353bdbe2481f903747a4e3404640ab486a65ecf8807325"],
    "pairs-to": ["fd04535b43d66bd5da6cdbaeadff55a4d127cd3198e235ca20f63c85d0f59705"],
    "tsv": ["fa4c61a45ae48b7e9812538c9c1ee0a63113c85946210d6c88c2ee12f0eb880a"],
    "jsonl": ["85626c38e0225d90471bfabcff005d81a4851ce097e0f18916ccf446dd0da622"],
    "builtin": ["bde49dea3c176be7657a480ce9fcd2c0072c8963592929a4cfb63a18d9dff9af"],
    "tsv-texts": ["7e2ecb1c5207a931317c8c1c4fcac5a3b2893ec19ae1a39e0d178514627a383d"],
    "tsv-documents": ["a813e6b125edafb39d0a5c347fceaf1fcf9ecc25a8674fa8cf94f0a2865188e9"],
    "tsv-pairs-of-texts": ["bd0189d8d1ec3213e815d00854242a78d4a4ff448b28153681503abdc101def1"],
    "jsonl-texts": ["e3a61056fa6d866a56e6aaca86e8ba9ecb1e1f879b07cbeee6e2ddb4989a9ed6"],
    "plain-texts": ["3ac2a55f552c594ecc48fdd690b9a4ca1d2dc4be97eeb4ae44c0110bbb177ec4"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tiny corpora in the current folder, and an empty cache."""
    rows = [("yes", "the dog runs", "der Hund läuft"), ("no", "the cat runs", "die Katze läuft"), ("yes", "go", "geh")]
    files = {
        "a.en": "".join(f"{row[1]}\n" for row in rows),
        "a.de": "".join(f"{row[2]}\n" for row in rows),
        "a.tsv": "".join("\t".join(row) + "\n" for row in rows),
        "a.jsonl": "".join(f'{{"l": "{row[0]}", "x": "{row[1]}", "y": "{row[2]}"}}\n' for row in rows),
        "a.conll": "the DET\nDog NOUN\n\nit PRON\nruns VERB\n",
        "a.trees": "(S (NP (D the) (N dog)) (V runs))\n(S (N dogs) (V run))\n",
        "q.jsonl": '{"question": "who runs ?", "text": "the dog runs", "answer": "dog", "start": 4}\n',
        "a.txt": "The dog runs. It is fast.\n\nThe cat runs. It is not.\n\nWe go. They stay. All sleep.\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def recipe_of(name: str, folder: Path, tokenizer: str = WORDS) -> Path:
    """The recipe of a corpus in a file."""
    corpus, model = CORPORA[name]
    path = folder / "recipe.toml"
    path.write_text(f"[data]\nmax_length = 64\nbatch_tokens = 64\ntrain = {corpus}\n{tokenizer}{model}")
    return path


def entries(kind: str, folder: Path) -> list[str]:
    """The keys of what the cache holds."""
    return sorted(entry.name for entry in (folder / "cache" / kind).iterdir() if entry.is_dir())


@pytest.mark.parametrize("name", CORPORA)
def test_the_content_key_of_a_corpus_is_what_it_was(name: str, folder: Path) -> None:
    corpus = load_recipe(recipe_of(name, folder)).data.train[0]
    assert key_of(content_key(corpus)) == CONTENT[name]


# A corpus of every container with every kind of rows, with few keys and with all: its kind and options in cache keys.
CONTAINERS = [json.loads(line) for line in Path(__file__).with_name("corpus_keys.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("frozen", CONTAINERS)
def test_the_kind_and_the_options_of_a_corpus_are_what_they_were(frozen: dict[str, Any]) -> None:
    corpus: Corpus = TypeAdapter(AnyCorpus).validate_python(frozen["corpus"])
    assert (corpus.frozen_kind, corpus.options()) == (frozen["kind"], frozen["options"])
    assert corpus.model_dump(mode="json") == frozen["saved"]  # in bundles
    assert TypeAdapter(AnyCorpus).validate_python(frozen["saved"]) == corpus


@pytest.mark.parametrize("name", CORPORA)
def test_the_cache_keys_of_a_training_are_what_they_were(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made in `TokenizerTraining.tokenizer` and `build_store`."""
    monkeypatch.setattr("tokenizers.__version__", "0.0.0")  # a part of a tokenizer's key
    heedful.train(recipe_of(name, folder), folder / "run", console=Console(file=StringIO()))
    assert entries("tokenizers", folder) == TOKENIZERS[name]
    assert entries("tokens", folder) == TOKENS[name]


KINDS = {
    "byte_bpe": '[tokenizer]\nkind = "byte_bpe"\nsize = 270\n',
    "bpe": '[tokenizer]\nkind = "bpe"\nsize = 50\n',
    "wordpiece": '[tokenizer]\nkind = "wordpiece"\nsize = 50\n',
    "unigram": '[tokenizer]\nkind = "unigram"\nsize = 40\nsample = 1000\n',
    "word": '[tokenizer]\nkind = "word"\nsize = 40\nmin_count = 1\n',
    "char": '[tokenizer]\nkind = "char"\njoint = false\n',
}
OF_KINDS = {
    "byte_bpe": ["1095ff87ce856ef5c02c688169c8e8499bb6d35c53df383a1a3f95f0d96f8507"],
    "bpe": ["19ccb78ac592aa1235431ea7e1ec93ece482032cd34026e1de0806b185154bb6"],
    "wordpiece": ["95c4c0f6991e1415814ee51cda65c2ccbfa0949ce9df4f50e23395ab25b623e2"],
    "unigram": ["00a6f78df3ac1bf0fd70e9525ccf449ddab4171559298214e02c1a5a14e6763b"],
    "word": ["17733f30c437cd5720d04a373d9606c1c0f924a455f978b79571a47251cdc928"],
    "char": [
        "7f5776241588e1d2ed4b7ef60c620a13a5bc8d5f0525aee60a70a4f4355b8e32",
        "95c7e50dede90134328ad1f1dc6790c683722844094bee4533d22b1af10d15d0",
    ],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_cache_keys_of_tokenizers_are_what_they_were(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made in `TokenizerTraining.tokenizer`; the form of texts is a part of them."""
    monkeypatch.setattr("tokenizers.__version__", "0.0.0")
    recipe = recipe_of("pairs", folder, KINDS[kind])
    recipe.write_text(recipe.read_text().replace("max_length", "nfc = true\nlowercase = true\nmax_length"))
    if kind == "char":  # two vocabularies, two keys
        recipe.write_text(recipe.read_text().replace("width", 'tie = "none"\nwidth'))
    heedful.train(recipe, folder / "run", console=Console(file=StringIO()))
    assert entries("tokenizers", folder) == OF_KINDS[kind]


TAGGER = CLASSIFIER.replace('"classifier"', '"tagger"')
LETTERS = 'letters = { family = "recurrent", width = 4 }\n'
LAYER, STEPS = "width = 8, heads = 2, layers = 1, inner = 8", TINY[TINY.index("[train]") :]
IMAGES = CLASSIFIER.replace('"recurrent", width = 8', '"convolutional", width = 4, stages = 2, depth = 1')
TASKS = {  # what `data.train` says, and a model that reads it
    "trees": ('{ trees = "a.trees" }', TRANSLATOR.replace("width", 'tie = "none"\nwidth')),
    "running-text": (
        '{ text = "a.txt", documents = "blank_line" }',
        f'[model]\nfamily = "language"\ndecoder = {{ family = "transformer", {LAYER} }}\n{STEPS}',
    ),
    "letters-of-documents": (
        '{ tsv = "a.tsv", label = 1, text = 2 }',
        HIERARCHICAL.replace("sentences =", f"{LETTERS.strip()}, sentences ="),
    ),
    "several-labels": (
        '{ tsv = "a.tsv", label = 1, text = 2 }',
        CLASSIFIER.replace('"classifier"', '"classifier"\nlabels = "several"'),
    ),
    "tagged": ('{ conll = "a.conll" }', TAGGER),
    "tagged-letters": ('{ conll = "a.conll" }', TAGGER.replace("[train]", f"{LETTERS}[train]")),
    "questions": ('{ jsonl = "q.jsonl", question = "question" }', CLASSIFIER.replace('"classifier"', '"reader"')),
    "images": ('{ builtin = "scenes", count = 4 }', IMAGES.replace('"classifier"', '"image_classifier"')),
    "images-of-one-size": (
        '{ builtin = "scenes", count = 4 }\nimages = { height = 8, width = 8, fit = "crop" }',
        IMAGES.replace('"classifier"', '"image_classifier"\nlabels = "several"'),
    ),
    "captions": (
        '{ builtin = "scenes", count = 4 }',
        IMAGES.replace('"classifier"', '"captioner"\ndecoder = { family = "recurrent", width = 4 }'),
    ),
    "image-questions": (
        '{ builtin = "scenes", count = 4, questions = 2 }',
        IMAGES.replace('"classifier"', '"image_answerer"\nquestion = { family = "recurrent", width = 4 }'),
    ),
}
PREPARED = {
    "trees": {
        "tokenizers": [
            "3fa79b0cf79318d9ec0e9164b1f8cec1a9933c8fcda2b16b53d82d8d55c0fdf0",
            "b51ade843d0a94cff69fc83d31435904caff2a33a8480f33a00070e2a930b3a9",
        ],
        "tokens": ["12fada2b6937dd699dea74fdb3e819c6f00dbbf868ee2caa11b605e3681b77d4"],
    },
    "running-text": {
        "tokenizers": ["4eec88913e6ca5399230331c5da5331df7eb5fb87b1d4bdadeba72fddd1b87b8"],
        "tokens": ["f19617af9252d93f73ca01e0dc8c48808316ed2c21d8ad2a15e48848ffb01293"],
    },
    "letters-of-documents": {
        "tokenizers": ["3572ebaef8b9d364137911567c42740893fac8408bc420a7cfe1a4bad25ba763"],
        "tokens": ["c4588fff8a89ed467f387161f6d687d7b109a90776c121c0d2311d1d39c5a9e1"],
    },
    "several-labels": {
        "tokenizers": ["3572ebaef8b9d364137911567c42740893fac8408bc420a7cfe1a4bad25ba763"],
        "tokens": ["f685d964450a86423211c9c419e2a9d821f04fd65ef70246ab00b2e431419545"],
    },
    "tagged": {
        "tokenizers": ["631e1800b8aea04a326e0aa7f26865425869d6cdb3378331ad8e3d074178b2fd"],
        "tokens": ["f651f9a829fe6ece4f6969b04c6f60609f87c0a01f07624e18aed54b54cb0046"],
    },
    "tagged-letters": {
        "tokenizers": ["631e1800b8aea04a326e0aa7f26865425869d6cdb3378331ad8e3d074178b2fd"],
        "tokens": ["87a8844e063945f84299a9a6f4eb5b017434156ea26da84be3fd51f17d885738"],
    },
    "questions": {
        "tokenizers": ["1e31db436be2575dae64bfb2fed6d27cc023153deb06ac3f15495f6d83bf3e73"],
        "tokens": ["1f6d16312b63f5e8d2b3081e2c16b7f79bcdacb3de556365c98fa9fbaa4ca2bd"],
    },
    "images": {"pictures": ["58800147520f674578587e9fd427560bc338c1513cf3822546f8a3928721b2e7"]},
    "images-of-one-size": {"pictures": ["3c91945db16d7771ef6df2e090438d8ef3eb811faabed21c4a8e65d6dfc16d1c"]},
    "captions": {
        "pictures": ["7f2fc7ef91b36aac0c1c98cfe4bbd0cab90979989dbff39209ab8c2b30f57c59"],
        "tokenizers": ["dd6188b2a85ae7c131444f5dc0c67dcc60843d1ce8781ec0f3230cae8e49391e"],
        "tokens": ["763dd529d9dcb00736ffadc8f1913942dd39b56703ab2ac0865177704bffba56"],
    },
    "image-questions": {
        "pictures": ["2b282229d1564097153cca0ebbf4997cfd5d01583f352ac3feb5794c43083b8a"],
        "tokenizers": ["92859c4b2d1c9c514396e16efff1b0e4a15c53b24366a20f3ac4583ceda079a9"],
    },
}


@pytest.mark.parametrize("name", TASKS)
def test_the_cache_keys_of_every_task_are_what_they_were(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by the builder of stores from what each task says of its rows."""
    monkeypatch.setattr("tokenizers.__version__", "0.0.0")
    corpus, model = TASKS[name]
    path = folder / "recipe.toml"
    tokenizer = {
        "images": "",
        "images-of-one-size": "",
        "trees": f'{WORDS}joint = false\ntarget = {{ kind = "word" }}\n',
    }.get(name, WORDS)
    task = 'task = "parse"\n' if name == "trees" else ""
    path.write_text(f"{task}[data]\nbatch_tokens = 4096\ntrain = {corpus}\n{tokenizer}{model}")
    heedful.train(path, folder / "run", console=Console(file=StringIO()))
    made = {kind.name: entries(kind.name, folder) for kind in sorted((folder / "cache").iterdir())}
    assert made == PREPARED[name]


def test_a_key_is_the_sha256_of_sorted_json() -> None:
    assert key_of({"b": [1, None], "a": "ä"}) == hashlib.sha256(b'{"a": "\\u00e4", "b": [1, null]}').hexdigest()


@pytest.mark.parametrize(
    ("part", "digest"),
    [
        ("train", "c14715e26428421fdbea0bd7021d9b602472b2d392403896625aded389788854"),
        ("valid", "526fb714f7be18078e98c95682edd2af253b578a1ed56f171b8905a4d98cf562"),
        ("test", "327b2ed8699d28e624ad24ddf7d982ffb1a3c6f344b27dd8340a678d4d745930"),
    ],
)
def test_the_builtin_generator_makes_the_sentences_it_made(part: str, digest: str) -> None:
    """Its content key is a hash of its source today. Other sentences need another key; the same sentences do not."""
    lines = "".join(f"{source}\t{target}\n" for source, target in sentence_pairs(part, 2000))
    assert hashlib.sha256(lines.encode()).hexdigest() == digest
