"""What a worker of a batch job refuses, and what it says of inputs without an answer."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.cli.answering.batch_jobs import BUNDLES, LINES, Job, job_of, lines, small_parts, told
from tests.shared.refusals import like, refuses

from heedful.cli.answering.parts_folder import PartsFolder
from heedful.cli.help import value_name
from heedful.cli.main import VERBS, command_of, run
from heedful.models.bundle import read_bundle, write_weights

Capture = pytest.CaptureFixture[str]
__all__ = ["lines", "small_parts"]  # fixtures


def classify(tmp_path: Path, lines: Path, *words: str) -> Job:
    return job_of(tmp_path / "out", "classify", "classifier-bag", lines, *words)


# --- inputs without an answer -----------------------------------------------------------------------------------------


@pytest.fixture
def images(tmp_path: Path) -> Path:
    random, folder = np.random.default_rng(1), tmp_path / "images"
    folder.mkdir()
    for number in range(5):
        Image.fromarray(random.integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    (folder / "1.png").write_bytes(b"\x89PNG and nothing")
    return folder


def test_images_that_cannot_be_read_are_told_by_every_run_of_their_worker(
    images: Path, tmp_path: Path, capsys: Capture
) -> None:
    job = job_of(tmp_path / "out", "classify", "images-vit", images)
    assert job.undisturbed(code=2)
    message = told(capsys)
    assert "1.png" in message
    for _ in range(2):
        job.work("1/2", code=2)
        assert told(capsys) == message
    job.work("2/2")
    assert job.joined() == (tmp_path / "whole-out").read_bytes()
    (images / "9.png").write_bytes((images / "0.png").read_bytes())
    job.work(code=2)
    assert told(capsys) == like(f"{job.folder} has another job: the size of images is ...")


def test_an_input_that_ends_a_run_ends_its_worker_with_the_line_of_the_file(
    lines: Path, tmp_path: Path, capsys: Capture
) -> None:
    long = " ".join(["dog"] * 60)
    lines.write_text("".join(f"{line} [MASK]\n" for line in [*LINES[:2], "a", "b", long, *LINES[3:]]))
    job = job_of(tmp_path / "out", "fill", "bert", lines)
    job.work(code=2)
    assert told(capsys) == like(f"{lines}, line 5 has ...")
    assert list(job.parts()) == ["part-000000"]


# --- refusals ---------------------------------------------------------------------------------------------------------

OTHER = "give the inputs, the model and the options of that job, or choose another --output."


def test_another_input_model_option_or_device_is_refused(
    lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    model = tmp_path / "model"
    shutil.copytree(BUNDLES / "classifier-bag", model)
    job = Job(tmp_path / "out", ("classify", str(model), str(lines)))
    job.work("1/2")
    capsys.readouterr()

    def refused(*words: str) -> str:
        Job(job.folder, words or job.words).work("2/2", code=2)
        return told(capsys)

    has = f"{job.folder} has another job:"
    assert refused(*job.words, "--json") == f"{has} --json is not given there, and true here: {OTHER}"
    assert refused("embed", str(model), str(lines)) == f"{has} the verb is classify there, and embed here: {OTHER}"
    more = ", ".join([str(lines)] * 2)
    shown = more if len(more) <= 60 else f"{more[:60]}..."
    assert refused(*job.words, str(lines)) == like(f"{has} the input is ... there, and {shown} here: {OTHER}")
    with monkeypatch.context() as patched:
        patched.setattr("heedful.cli.answering.asked.Answering._find_place", lambda self: {"device": "cuda"})
        assert refused() == f"{has} the device is cpu there, and cuda here: {OTHER}"
    assert refused(*job.words, "--precision", "bfloat16") == like(f"{has} the precision is float32 there, and bf...")
    text = lines.read_text()
    lines.write_text(text.replace("dog", "cat"))
    assert refused() == like(f"{has} the sha256 of {lines} is ... there, and ... here: {OTHER}")
    lines.write_text(text + "more\n")
    size = len(text.encode())
    assert refused() == like(f"{has} the size of {lines} is {size} there, and {size + 5} here: ...")
    lines.write_text(text)
    config = model / "config.json"
    config.write_text(config.read_text().replace('"heedful": "', '"heedful": "0'))
    assert refused() == like(f"{has} the sha256 of the model's config.json is ...")
    shutil.copy(BUNDLES / "classifier-bag" / "config.json", config)
    job.work("2/2")


def test_other_weights_terms_and_models_of_an_ensemble_are_refused(
    lines: Path, tmp_path: Path, capsys: Capture
) -> None:
    model, terms = tmp_path / "model", tmp_path / "terms.tsv"
    shutil.copytree(BUNDLES / "transformer", model)
    terms.write_text("dog\tHund\n")
    words = ["translate", str(BUNDLES / "transformer"), str(lines), "--max-extra", "2", "--terms", str(terms)]
    job = Job(tmp_path / "out", (*words, "--with", str(model)))
    job.work("1/2")
    terms.write_text("cat\tKatze\n")
    job.work("2/2", code=2)
    assert told(capsys) == like(f"{job.folder} has another job: --terms is ...")
    terms.write_text("dog\tHund\n")
    bundle = read_bundle(model)
    next(iter(bundle.model.parameters())).data.add_(1)
    write_weights(model, bundle.model)
    job.work("2/2", code=2)
    assert told(capsys) == like(f"{job.folder} has another job: --with is ...")


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1/0", "1", "a/b", "1/2/3", "-1/2", ""])
def test_a_share_that_is_none_is_refused(shard: str, lines: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["classify", str(BUNDLES / "classifier-bag"), str(lines), f"--shard={shard}", "-o", str(tmp_path)]) == 2
    assert told(capsys) == f"--shard is `{shard}`, but must be I/N, worker I of N, counted from 1: such as 2/8."


def test_what_cannot_be_done_in_parts_is_refused(lines: Path, tmp_path: Path, capsys: Capture) -> None:
    def refused(verb: str, bundle: str, *words: str | Path) -> str:
        assert run([verb, str(BUNDLES / bundle), "--shard", "1/2", *map(str, words)]) == 2
        return told(capsys)

    out = tmp_path / "out"
    named = "--shard writes its parts into a folder: name it by --output FOLDER."
    assert refused("classify", "classifier-bag", lines) == named
    assert refused("classify", "classifier-bag", lines, "-o", "-") == named
    assert refused("classify", "classifier-bag", lines, "-o", lines) == like(f"{lines}: a file exists where ...")
    files = f"{tmp_path} has files, but no manifest.json of a batch job: choose another --output."
    assert refused("classify", "classifier-bag", lines, "-o", tmp_path) == files
    again = "A batch job reads its input more than once, which {} cannot be: name a file."
    assert refused("classify", "classifier-bag", "a text", "-o", out) == again.format("texts")
    assert refused("classify", "classifier-bag", "-o", out) == again.format("standard input")
    assert refused("generate", "language-transformer", lines, "-p", "a", "-o", out) == again.format("texts")
    assert refused("answer", "reader", "-c", "Anna is here.", "-Q", "Who?", "-o", out) == again.format("--question")
    assert refused("score", "transformer", lines, "--rerank", "-o", out) == like("--shard is not for --rerank, ...")
    assert refused("embed", "classifier-bag", lines, "-o", tmp_path / "it.npy") == (
        f"{tmp_path / 'it.npy'} holds an array, which parts cannot be joined to: leave out --shard, or .npy."
    )
    both = "--ray has workers of its own, which share all parts: leave out --shard."
    assert refused("classify", "classifier-bag", lines, "-o", out, "--ray") == both
    assert not out.exists()


def test_a_manifest_that_is_damaged_or_of_another_version_is_refused(
    lines: Path, tmp_path: Path, capsys: Capture
) -> None:
    job = classify(tmp_path, lines)
    job.work("1/2")
    path = job.folder / "manifest.json"
    content = json.loads(path.read_text())
    counts = "(ValueError: numbers of inputs)"
    for damaged, reason in (
        ({**content, "counts": [1, 2]}, counts),
        ({**content, "counts": [-5]}, counts),
        ({**content, "size": 0}, counts),
        ({}, "(KeyError: 'format')"),
        ([], "(TypeError: ...)"),
        ({**content, "more": 1}, "(TypeError: ...)"),
    ):
        path.write_text(json.dumps(damaged))
        job.work(code=2)
        assert told(capsys) == like(f"{path} is damaged {reason}: remove the folder, and begin again.")
    path.write_text(json.dumps({**content, "format": 2}))
    job.work(code=2)
    assert told(capsys) == (
        f"{path} has format 2, but this Heedful reads format 1: use the version that wrote it "
        f"({content['made_by']['heedful']})."
    )


def test_only_a_folder_with_a_manifest_is_one_of_a_batch_job(tmp_path: Path) -> None:
    with refuses(f"{tmp_path} has no manifest.json: it is not the folder of a batch job."):
        _ = PartsFolder(tmp_path).manifest


# --- options ----------------------------------------------------------------------------------------------------------

# Options whose values are names of files: `cli/answering/batch_job.py` says what of them decides answers.
FILES = {"--data", "--output", "--terms", "--with", "--source", "--target", "--context", "--image", "--adapter"}


def test_every_verb_that_answers_has_parts_and_no_option_names_a_file_that_a_job_forgets() -> None:
    verbs = {verb: command_of(verb) for verb in VERBS}
    in_parts = {verb: one for verb, one in verbs.items() if any("--shard" in each.opts for each in one.params)}
    answering = {"translate", "classify", "regress", "caption", "answer", "tag", "parse", "generate", "fill", "score"}
    assert {*in_parts} == answering | {"embed"}
    for verb, command in in_parts.items():
        options = [each for each in command.params if each.param_type_name == "option"]
        named = {
            flag
            for each in options
            if value_name(each) in ("FILE", "FOLDER", "MODEL", "FILE|TEXT")
            for flag in each.opts
        }
        assert {flag for flag in named if flag.startswith("--")} <= FILES, verb
