"""What every verb shares: help without torch, exit codes, and one line for every error that is no bug."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest
import typer
from tests.shared.refusals import refuses

import heedful
from heedful.base.errors import MachineError, Stopped, UserError, UserErrors
from heedful.cli import main, messages

PROBE = "heedful.cli.probe"


class OutOfMemoryError(RuntimeError):
    """Stands for torch's, which is known by its name alone."""


@pytest.fixture(autouse=True)
def _on_a_wide_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def plain(text: str) -> str:
    """Take out the colours, which some CI systems force."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def python(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Install a function as the verb `probe`."""

    def install(command: Callable[..., Any]) -> None:
        module = ModuleType(PROBE)
        module.command = command  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, PROBE, module)
        monkeypatch.setattr(main, "VERBS", {**main.VERBS, "probe": (PROBE, "Probe.")})

    return install


def raising(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


# --- help and verbs -----------------------------------------------------------------------------------------------


def test_help_lists_every_verb_without_loading_torch_or_a_verb() -> None:
    code = (
        "import sys\nfrom heedful.cli.main import run\n"
        "assert run(['--help']) == 0\n"
        "verbs = {f'heedful.cli.verbs.{verb}' for verb in ('config', 'train')}\n"
        "loaded = {'torch', 'heedful.config', *verbs} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    shown = python(code)
    assert shown.returncode == 0, shown.stderr
    for verb, (_, line) in main.VERBS.items():
        assert f" {verb} " in plain(shown.stdout)
        assert line in plain(shown.stdout)


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([]) == 0
    assert "Usage: heedful" in plain(capsys.readouterr().out)


def test_the_help_of_a_verb_has_its_own_parameters(
    probe: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def command(depth: Annotated[int, typer.Option(help="How deep.")] = 1) -> None:
        """Probe the depths."""

    probe(command)
    assert main.run(["probe", "--help"]) == 0
    shown = plain(capsys.readouterr().out)
    assert "Usage: heedful probe" in shown
    assert "Probe the depths." in shown
    assert "--depth" in shown
    assert "How deep (default: 1)." in shown


def test_a_verb_gets_its_arguments(probe: Callable[..., None]) -> None:
    seen = []

    def command(name: str, depth: Annotated[int, typer.Option()] = 1) -> None:
        seen.append((name, depth))

    probe(command)
    assert main.run(["probe", "x", "--depth", "3"]) == 0
    assert seen == [("x", 3)]


def test_a_verb_may_say_its_exit_code(probe: Callable[..., None]) -> None:
    probe(raising(typer.Exit(7)))
    assert main.run(["probe"]) == 7


@pytest.mark.parametrize("verb", main.VERBS)
def test_every_verb_of_the_table_has_a_command_or_an_app(verb: str) -> None:
    assert main.command_of(verb).name == verb


def test_the_paragraphs_of_a_help_flow_at_any_width(
    probe: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command() -> None:
        """Probe the depths.

        One, two, three,
        four, five.
        """

    probe(command)
    for width in ("30", "80"):
        monkeypatch.setenv("COLUMNS", width)
        assert main.run(["probe", "--help"]) == 0
        assert "One, two, three, four, five." in [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_h_is_help_for_every_verb(probe: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    probe(raising(typer.Exit(0)))
    for arguments in ([], ["probe"], ["config"], ["config", "show"]):
        assert main.run([*arguments, "-h"]) == 0
        short = plain(capsys.readouterr().out)
        assert main.run([*arguments, "--help"]) == 0
        assert plain(capsys.readouterr().out) == short


@pytest.mark.parametrize("verb", main.VERBS)
def test_flags_and_arguments_are_shown_without_a_type(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([verb, "--help"]) == 0
    shown = plain(capsys.readouterr().out)
    assert "--help" in shown
    assert "bool" not in shown.lower()
    assert "list[" not in shown


@pytest.mark.parametrize("arguments", [["-q", "probe"], ["probe", "-q"], ["--quiet", "probe"], ["probe", "--quiet"]])
def test_quiet_drops_notes_but_no_warnings(
    probe: Callable[..., None], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    def command() -> None:
        messages.note("a note.")
        messages.warn("a warning.")
        print("a result")

    probe(command)
    assert main.run(["probe"]) == 0
    assert capsys.readouterr() == ("a result\n", "heedful: a note.\nheedful: a warning.\n")
    assert main.run(arguments) == 0
    assert capsys.readouterr() == ("a result\n", "heedful: a warning.\n")


@pytest.mark.parametrize("arguments", [["-v", "probe"], ["probe", "--verbose"]])
def test_verbose_shows_time_memory_and_the_traceback_of_an_error(
    probe: Callable[..., None], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    probe(lambda: None)
    assert main.run(arguments) == 0
    assert re.fullmatch(r"heedful: [\d.]+ s in all, [\d,]+ MiB of memory at the peak\.\n", capsys.readouterr().err)
    probe(raising(UserError("a.txt: no such file.")))
    assert main.run(arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last):\n")
    assert shown.endswith("heedful: error: a.txt: no such file.\n")


def test_quiet_and_verbose_contradict_each_other(
    probe: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    probe(lambda: None)
    assert main.run(["-q", "probe", "-v"]) == 2
    assert capsys.readouterr().err.endswith(
        "heedful: error: --quiet and --verbose contradict each other: leave one out.\n"
    )


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"heedful {heedful.__version__}\n"


# --- mistakes on the command line ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["trian"], "`trian` is not a verb of heedful. Did you mean `train`?"),
        (["--", "-x"], "`-x` is not a verb of heedful. Known: init, train, translate,"),
        (["--versoin"], "No such option: --versoin (Possible options: --verbose, --version). See `heedful --help`."),
        (["translate", "x", "--beam", "0"], "Invalid value for '--beam': must be at least 1. See `heedful translate"),
        (["translate", "x", "--beam", "x"], "Invalid value for '--beam': must be a whole number. See `heedful transl"),
        (["evaluate", "x", "--split", "y"], "Invalid value for '--split': 'y' is not one of 'valid', 'test'. See `hee"),
        (["config", "chek"], "No such command 'chek'. Did you mean 'check', 'schema'? See `heedful config --help`."),
        (["config", "check"], "Missing argument 'RECIPE'. See `heedful config check --help`."),
        (
            ["config", "check", "x", "--sett", "a=1"],
            "No such option: --sett (Possible options: --quiet, --set). See `heedful config check --help`.",
        ),
    ],
)
def test_a_mistyped_command_line_is_one_line_with_the_way_out(
    capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    assert main.run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"heedful: error: {line}")
    assert shown.err.count("\n") == 1


# --- errors of a verb ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UserError("a.txt: no such file."), 2, "heedful: error: a.txt: no such file.\n"),
        (UserErrors(["one", "two"]), 2, "heedful: 2 errors:\n  one\n  two\n"),
        (MachineError("the disk is full."), 3, "heedful: error: the disk is full.\n"),
        (Stopped("stopped, saved at step 9.", 15), 143, "heedful: stopped, saved at step 9.\n"),
        (KeyboardInterrupt(), 130, "heedful: interrupted.\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "runs/x"),
            3,
            "heedful: error: runs/x: the disk is full: free some space and run the same command again "
            "(with --resume if it was training).\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "runs/x"),
            3,
            "heedful: error: runs/x: no permission: choose another folder or change the permissions.\n",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "runs/x"),
            3,
            "heedful: error: runs/x: the file system is read-only: choose another folder.\n",
        ),
        (
            MemoryError(),
            3,
            "heedful: error: the machine's memory is full: split long texts, or use a machine with more memory.\n",
        ),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried"),
            3,
            "heedful: error: the machine's memory is full: split long texts, or use a machine with more memory.\n",
        ),
        (
            OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
            3,
            "heedful: error: the GPU's memory is full: split long texts, or use a machine with more memory.\n",
        ),
    ],
)
def test_an_error_that_is_no_bug_is_its_line_and_its_exit_code(
    probe: Callable[..., None], capsys: pytest.CaptureFixture[str], error: BaseException, code: int, text: str
) -> None:
    probe(raising(error))
    assert main.run(["probe"]) == code
    assert capsys.readouterr() == ("", text)


@pytest.mark.parametrize(
    ("verb", "way_out"),
    [
        ("train", "lower `data.batch_tokens` (and raise `train.accumulate` by the same factor), or make the model"),
        ("translate", "lower --batch-tokens or --beam."),
    ],
)
def test_a_full_memory_names_the_option_that_fills_it(
    probe: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    way_out: str,
) -> None:
    probe(raising(OutOfMemoryError("CUDA out of memory.")))
    monkeypatch.setattr(main, "VERBS", {verb: (PROBE, "Probe.")})
    assert main.run([verb]) == 3
    assert f"heedful: error: the GPU's memory is full: {way_out}" in capsys.readouterr().err


@pytest.mark.parametrize("error", [ValueError("x"), RuntimeError("x"), FileNotFoundError(errno.ENOENT, "x", "y")])
def test_a_bug_is_not_hidden(probe: Callable[..., None], error: Exception) -> None:
    probe(raising(error))
    with pytest.raises(type(error)):
        main.run(["probe"])


def test_a_bug_ends_with_a_traceback_and_1() -> None:
    code = (
        "import sys\nfrom heedful.cli import main\n"
        "main.VERBS = {'bug': ('no.such.module', 'Crash.')}\n"
        "sys.argv = ['heedful', 'bug']\nmain.main()"
    )
    shown = python(code)
    assert shown.returncode == 1
    assert shown.stderr.startswith("Traceback (most recent call last):\n")
    assert shown.stderr.endswith("ModuleNotFoundError: No module named 'no'\n")


# --- the process --------------------------------------------------------------------------------------------------


def test_python_m_heedful_is_the_command(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "heedful", "config", "check", "my.toml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (shown.returncode, shown.stdout, shown.stderr) == (2, "", "heedful: error: my.toml: no such file.\n")


@pytest.mark.parametrize("arguments", [["recipes", "list"], ["--help"], ["train", "--help"]])
def test_a_reader_that_goes_away_ends_it_quietly(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # the last flush is what can go wrong
    reader, writer = os.pipe()
    os.close(reader)
    shown = subprocess.run(
        [sys.executable, "-m", "heedful", *arguments], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (shown.returncode, shown.stderr) == (141, "")


def test_an_error_that_nobody_reads_keeps_its_exit_code() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    shown = subprocess.run([sys.executable, "-m", "heedful", "trian"], stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    assert (shown.returncode, shown.stdout) == (2, b"")


def test_leaving_for_another_reason_is_not_hidden(probe: Callable[..., None]) -> None:
    probe(raising(SystemExit(5)))
    with refuses("...5...", SystemExit):
        main.run(["probe"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_disk_behind_standard_output_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with Path("/dev/full").open("w") as full:
        shown = subprocess.run(
            [sys.executable, "-m", "heedful", "recipes", "list"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert shown.returncode == 3
    assert shown.stderr == (
        "heedful: error: standard output: the disk is full: free some space and run the same command again "
        "(with --resume if it was training).\n"
    )


def test_results_are_utf8_whatever_the_language_of_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[data]\ntrain = { source = "größe☃.en", target = "b" }\n', encoding="utf-8")
    shown = subprocess.run(
        [sys.executable, "-m", "heedful", "config", "show", str(tmp_path / "a.toml")],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=True,
    )
    assert "größe☃.en" in shown.stdout.decode()


def test_an_old_option_of_one_verb_is_its_own_in_others_and_nothing_after_two_dashes(
    probe: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def command(text: Annotated[str, typer.Option("--text", "-t")], words: list[str]) -> None:
        seen.append((text, words))

    probe(command)
    assert main.run(["probe", "-t", "a", "--", "answer", "--picture"]) == 0
    assert seen == [("a", ["answer", "--picture"])]
    assert capsys.readouterr().err == ""
