"""What Heedful is built on: licences, bill of materials, lowest versions (`make audit`, `sbom`, `test-lowest`)."""

import json
import re
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from packaging.version import Version
from scripts.supply import licences, vulnerabilities
from scripts.supply.bill_of_materials import bill_of_materials
from scripts.supply.lowest import constraints, lowest_versions
from scripts.supply.packages import licence
from scripts.supply.release import differing

ROOT = Path(__file__).parents[2]


def test_the_security_rules_of_an_audit_find_nothing() -> None:
    """Rules that pyproject.toml ignores are named again: `--select` alone takes them back, so that it always failed."""
    (words,) = re.findall(r"^\t\$\(BIN\)/ruff (check .*\bS\b.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    command = [sys.executable, "-P", "-m", "ruff", *words.split(), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_all_installed_packages_have_licences_of_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert licences.main() == 0, capsys.readouterr().out
    assert re.fullmatch(r"licences: \d+ packages, 0 under a licence that is not in the list\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("MPL-2.0 AND MIT", True),
        ("GPL-3.0-only OR Apache-2.0", True),
        ("MIT AND (GPL-2.0-only OR BSD-3-Clause)", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-2.0-only", False),
        ("none stated", False),
    ],
)
def test_an_expression_is_allowed_if_licences_of_the_list_meet_it(expression: str, allowed: bool) -> None:
    assert licences.is_allowed(expression) is allowed


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("License-Expression: Apache-2.0 OR MIT", "Apache-2.0 OR MIT"),
        ("License: BSD 2-Clause License", "BSD-2-Clause"),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: ISC License (ISCL)", "ISC"),
        ("License: GNU GPL 3", "GNU GPL 3"),
        ("License: limited", "limited"),  # and not MIT
        ("Summary: x", "none stated"),
    ],
)
def test_a_licence_is_read_from_what_a_package_says(said: str, understood: str, tmp_path: Path) -> None:
    folder = tmp_path / "x-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: x\nVersion: 1\n{said}\n")
    assert licence(Distribution.at(folder)) == understood


def test_a_package_under_another_licence_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(licences, "ALLOWED", licences.ALLOWED - {"CNRI-Python"})
    assert licences.main() == 1
    assert "CNRI-Python is not in ALLOWED of scripts/supply/licences.py." in capsys.readouterr().out


def test_the_bill_of_materials_names_every_package_that_is_needed_and_nothing_else() -> None:
    bill = bill_of_materials()
    scopes = {component["name"].lower(): component["scope"] for component in bill["components"]}
    assert scopes["torch"] == scopes["safetensors"] == "required"
    assert scopes["transformers"] == scopes["tensorboard"] == "optional"
    assert "pytest" not in scopes
    references = {component["bom-ref"] for component in [bill["metadata"]["component"], *bill["components"]]}
    assert {row["ref"] for row in bill["dependencies"]} == references
    assert all(set(row["dependsOn"]) <= references for row in bill["dependencies"])
    assert json.dumps(bill) == json.dumps(bill_of_materials())


def test_every_dependency_has_a_lowest_version_that_is_not_above_the_tested_one() -> None:
    lowest = lowest_versions()
    tested = dict(re.findall(r"^([\w-]+)==(.+)$", (ROOT / "constraints.txt").read_text(), re.M))
    assert set(lowest) <= set(tested), "constraints.txt pins what users get"
    for name, version in lowest.items():
        assert Version(version) <= Version(tested[name]), name


def test_constraints_are_the_lowest_versions_and_the_usual_tools() -> None:
    lines = constraints(["torch=2.13.0"]).splitlines()
    assert "torch==2.13.0" in lines
    assert f"filelock=={lowest_versions()['filelock']}" in lines
    assert [line for line in lines if line.startswith("pytest==")]
    assert len({line.partition("==")[0] for line in lines}) == len(lines)


def test_vulnerabilities_that_cannot_be_looked_up_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("scripts.supply.vulnerabilities.venv.create", lambda *arguments, **options: None)
    monkeypatch.setattr(
        "scripts.supply.vulnerabilities.subprocess.run", lambda *a, **o: type("Done", (), {"returncode": 1})
    )
    assert vulnerabilities.main() == 0
    assert capsys.readouterr().out == "vulnerabilities: not looked up, as pip-audit could not be installed\n"


def test_two_builds_are_equal_if_they_have_the_same_files_with_the_same_bytes(tmp_path: Path) -> None:
    files = []
    for number, texts in enumerate([{"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}]):
        (tmp_path / str(number)).mkdir()
        for name, text in texts.items():
            (tmp_path / str(number) / name).write_text(text)
        files.append({name: tmp_path / str(number) / name for name in texts})
    assert differing(files[0], files[0]) == []
    assert differing(*files) == ["b", "c"]
