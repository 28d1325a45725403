"""`heedful augment` as a user sees it: rows that recipes read, in files and as batch jobs."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.cli.answering.batch_jobs import BUNDLES, Job, lines, small_parts, told
from tests.shared.refusals import like

from heedful.base.trees import read_tree
from heedful.cli.answering import on_ray
from heedful.cli.command import running
from heedful.cli.main import run
from heedful.config.reading.load import load_recipe
from heedful.tasks.loading import find_task

Capture = pytest.CaptureFixture[str]
__all__ = ["lines", "small_parts"]  # fixtures


def augment(kind: str, bundle: str, *words: str | Path | float) -> int:
    return run(["augment", kind, str(BUNDLES / bundle), "--device", "cpu", *map(str, words)])


def answers(verb: str, bundle: str, capsys: Capture, *words: str | Path) -> list[str]:
    """What the verb that only answers writes."""
    capsys.readouterr()
    assert run([verb, str(BUNDLES / bundle), "--device", "cpu", *map(str, words)]) == 0
    return capsys.readouterr().out.split("\n")


def texts_of(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.strip()]


# --- pairs ------------------------------------------------------------------------------------------------------------


def test_pairs_have_the_translation_with_its_tag_and_the_text(lines: Path, tmp_path: Path, capsys: Capture) -> None:
    pairs = tmp_path / "pairs.tsv"
    assert augment("backtranslate", "transformer", lines, "--tag", "<bt>", "-o", pairs) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1] == f'heedful: next: train on {pairs} too, with `tokenizer.keep = ["<bt>"]`.'
    translated = [line for line in answers("translate", "transformer", capsys, lines) if line]
    rows = [line.split("\t") for line in pairs.read_text().splitlines()]
    assert rows
    assert all(source.removeprefix("<bt> ") in translated and source.startswith("<bt> ") for source, _ in rows)
    assert [target for _, target in rows] == [text for text in texts_of(lines) if text in {row[1] for row in rows}]


def test_a_recipe_reads_pairs_as_they_are_and_its_vocabulary_has_the_tag(
    lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    assert augment("backtranslate", "transformer", lines, "--tag", "<bt>", "-o", tmp_path / "pairs.tsv") == 0
    (tmp_path / "real.tsv").write_text("the dog\tder Hund\na man\tein Mann\n" * 4)
    recipe = tmp_path / "my.toml"
    recipe.write_text(
        f'[data]\nfolder = "{tmp_path}"\nbatch_tokens = 64\n'
        'train = [{ tsv = "real.tsv" }, { tsv = "pairs.tsv", weight = 2.0 }]\n'
        '[tokenizer]\nsize = 300\nkeep = ["<bt>"]\n'
        '[model]\nfamily = "transformer"\nwidth = 16\nheads = 2\nlayers = 1\ninner = 16\n'
        '[train]\nsteps = 1\ndevice = "cpu"\nprecision = "float32"\n'
    )
    assert run(["train", str(recipe), "--out", str(tmp_path / "run")]) == 0
    loaded = load_recipe(str(recipe))
    prepared = find_task(loaded).prepare(loaded, None, lambda said: None)
    tokenizer = prepared.vocabularies["source"]
    (tag,) = tokenizer.kept
    assert tokenizer.encode("<bt> a dog")[0] == tag


def test_samples_are_pairs_of_one_text_each_once(tmp_path: Path, capsys: Capture) -> None:
    sample = ("--sample", "-n", 4, "--seed", 1, "--temperature", 0.2)
    assert augment("backtranslate", "transformer", *sample, "--text", "der Hund", "--text", " ") == 0
    rows = capsys.readouterr().out.splitlines()
    assert 1 <= len(rows) <= 4
    assert len(set(rows)) == len(rows)
    assert {row.split("\t")[1] for row in rows} == {"der Hund"}
    assert augment("backtranslate", "transformer", *sample, "--text", "der Hund", "--json") == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [f"{each['source']}\t{each['target']}" for each in objects] == rows


def test_translations_that_were_cut_make_no_pairs(lines: Path, tmp_path: Path, capsys: Capture) -> None:
    for form in ((), ("--json",)):
        pairs = tmp_path / f"pairs{len(form)}"
        assert augment("backtranslate", "transformer", lines, "--max-extra", 1, *form, "-o", pairs) == 0
        assert len(pairs.read_text().splitlines()) < len(texts_of(lines))
        assert "" not in pairs.read_text().split("\n")[:-1]
        assert capsys.readouterr().err == like(
            "heedful: ... of 9 answers were left out: translations that are empty or were cut at the maximum length.\n"
        )


def test_texts_of_a_table_are_a_column_of_it(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "news.csv").write_text('id,german\n1,"der Hund,\tein Tier"\n2,\n')
    data = ("--data", tmp_path / "news.csv", "--set", "data.source=german")
    assert augment("backtranslate", "transformer", *data) == 0
    (row,) = capsys.readouterr().out.splitlines()
    assert row.split("\t")[1:] == ["der Hund, ein Tier"]


# --- trees and labels -------------------------------------------------------------------------------------------------


def test_silver_trees_are_those_of_the_parser_without_blank_lines(lines: Path, tmp_path: Path, capsys: Capture) -> None:
    silver = tmp_path / "silver.mrg"
    assert augment("parse", "parser", lines, "-o", silver) == 0
    assert silver.read_text().splitlines() == [line for line in answers("parse", "parser", capsys, lines) if line]
    trees = [read_tree(line, "") for line in silver.read_text().splitlines()]
    assert [" ".join(tree.words) for tree in trees] == texts_of(lines)


def test_texts_are_written_next_to_labels_that_are_probable_enough(
    lines: Path, tmp_path: Path, capsys: Capture
) -> None:
    found = [line.split("\t") for line in answers("classify", "classifier-bag", capsys, lines) if line]
    shares = sorted(float(share) for _, share in found)
    least = (shares[3] + shares[4]) / 2
    labelled = tmp_path / "labelled.tsv"
    assert augment("label", "classifier-bag", lines, "--min-probability", least, "-o", labelled) == 0
    rows = [line.split("\t") for line in labelled.read_text().splitlines()]
    expected = [
        [text, label] for text, (label, share) in zip(texts_of(lines), found, strict=True) if float(share) > least
    ]
    assert rows == expected
    assert len(rows) == len(found) - 4
    assert capsys.readouterr().err == (
        f"heedful: 4 of 9 answers were left out: labels of a probability of less than {least:g}.\n"
    )


def test_of_several_labels_each_decision_is_probable_enough(lines: Path, capsys: Capture) -> None:
    several = "classifier-bert-several"
    assert augment("label", several, lines, "--json") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    certain = [min(max(share, 1 - share) for share in each["probabilities"].values()) for each in found]
    least = sorted(certain)[len(certain) // 2]
    assert augment("label", several, lines, "--min-probability", least) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    kept = [each for each, share in zip(found, certain, strict=True) if share >= least]
    assert rows == [[each["text"], ",".join(each["labels"])] for each in kept]


def test_a_tagger_writes_sentences_whose_every_label_is_probable_enough(lines: Path, capsys: Capture) -> None:
    assert augment("label", "tagger-transformer", lines, "--json") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    least = sorted(min(each["probabilities"]) for each in found)[4]
    assert augment("label", "tagger-transformer", lines, "--min-probability", least) == 0
    kept = [each for each in found if min(each["probabilities"]) >= least]
    assert 0 < len(kept) < len(found)
    expected = [
        "".join(f"{word}\t{label}\n" for word, label in zip(each["words"], each["labels"], strict=True))
        for each in kept
    ]
    assert capsys.readouterr().out == "".join(f"{sentence}\n" for sentence in expected)


def test_images_are_named_from_the_folder_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows").mkdir()
    (tmp_path / "images").mkdir()
    Image.new("RGB", (8, 8)).save("images/a.png")
    (tmp_path / "images/b.png").write_bytes(b"nothing")
    assert augment("label", "images-vit", "images", "-o", "rows/labelled.tsv") == 2
    (row,) = (tmp_path / "rows/labelled.tsv").read_text().splitlines()
    assert row.startswith("../images/a.png\t")


# --- batch jobs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "bundle", "more"),
    [
        ("backtranslate", "transformer", ("--tag", "<bt>", "--max-extra", "5", "--sample", "--seed", "3")),
        ("parse", "parser", ()),
        ("label", "tagger-transformer", ("--min-probability", "0.4")),
        ("label", "classifier-bag", ("--min-probability", "0.6", "--json")),
    ],
)
def test_parts_of_workers_are_what_one_command_writes(
    kind: str, bundle: str, more: Sequence[str], lines: Path, tmp_path: Path
) -> None:
    words = ("augment", kind, str(BUNDLES / bundle), "--device", "cpu", str(lines), *more)
    job = Job(tmp_path / "rows", words)
    job.work("2/2")
    job.work("1/2")
    assert len(job.parts()) == 4
    whole = job.undisturbed()
    assert job.joined() == whole != b""
    (job.folder / "part-000001").unlink()
    job.work("1/1")
    assert job.joined() == whole


def test_a_job_of_another_kind_or_tag_is_refused(lines: Path, tmp_path: Path, capsys: Capture) -> None:
    job = ("--shard", "1/2", "-o", tmp_path / "rows")
    assert augment("backtranslate", "transformer", lines, *job) == 0
    assert augment("backtranslate", "transformer", lines, "--tag", "<bt>", *job) == 2
    assert told(capsys) == like(f"{tmp_path / 'rows'} has another job: --tag is not given there, and <bt> here: ...")
    assert run(["translate", str(BUNDLES / "transformer"), "--device", "cpu", str(lines), *map(str, job)]) == 2
    assert told(capsys) == like("... has another job: the verb is augment backtranslate there, and translate here: ...")


def test_a_worker_on_ray_is_given_the_verb_of_augment() -> None:
    words = ("augment", "label", "--ray=auto", "model", "texts")
    with running(words=words, verb="augment label"):
        assert on_ray._words_of_workers() == ["augment", "label", "--shard=1/1", "model", "texts"]


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_what_cannot_be_made_is_refused_in_one_line(lines: Path, tmp_path: Path, capsys: Capture) -> None:
    empty, there = tmp_path / "empty.txt", tmp_path / "there.tsv"
    empty.write_text("\n  \n")
    there.write_text("old")
    translator = BUNDLES / "transformer"
    for words, message in (
        (
            ("backtranslate", "transformer", empty),
            f"{empty}: there is no text to make data of: give a file with a text on each line.",
        ),
        (("label", "transformer", lines), f"{translator} is a model that translates: use `heedful translate`."),
        (("backtranslate", "parser", lines), "... is a model that parses: ..."),
        (("parse", "transformer", lines), "... is a model that translates: ..."),
        (
            ("label", "classifier-bag", lines, "-o", there),
            f"{there} is there already: choose another --output, or remove it.",
        ),
        (
            ("label", "classifier-bag", lines, "--min-probability", "1.5"),
            "Invalid value for '--min-probability': must be at most 1. See `heedful augment label --help`.",
        ),
        (
            ("backtranslate", "transformer", lines, "--tag", "two words"),
            "--tag: 'two words' cannot be a tag: use up to 64 ...",
        ),
        (("backtranslate", "transformer", lines, "--tag", "<s>"), "--tag: '<s>' cannot be a tag, ..."),
        (
            ("parse", "parser", "--data", lines, "--format", "csv"),
            "--format is for the rows of --data, but trees are written: leave it out.",
        ),
        (("backtranslate", "transformer", lines, "--top-k", "5"), "--top-k applies to sampling: add --sample."),
    ):
        assert augment(*words) == 2
        assert told(capsys) == like(message)
    assert there.read_text() == "old"


def test_images_of_arrays_have_no_names_to_write(tmp_path: Path, capsys: Capture) -> None:
    import numpy as np

    np.savez(tmp_path / "x.npz", x=np.zeros((2, 8, 8, 3), np.uint8), y=np.zeros(2, np.int64))
    assert augment("label", "images-vit", "--data", tmp_path / "x.npz") == 2
    assert told(capsys) == (
        f"{tmp_path / 'x.npz'} has images without files, which rows could not name: give image files."
    )
