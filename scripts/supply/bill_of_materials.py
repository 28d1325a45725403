"""Writes the bill of materials of a release: every package that Heedful needs, as installed here, as CycloneDX JSON.

    python -m scripts.supply.bill_of_materials [FOLDER]       # dist/heedful-VERSION.cdx.json

Packages of the extras `track` and `hf` are marked as optional. The same packages give the same bytes.
"""

import json
import sys
import uuid
from collections.abc import Mapping
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from scripts.supply.packages import licence, needed_packages

FORMAT = {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6"}


def bill_of_materials() -> dict[str, Any]:
    """Return the bill of materials of the installed Heedful."""
    heedful, needed = distribution("heedful"), needed_packages()
    components = [
        {**_component(package.found), "scope": "optional" if package.optional else "required"} for package in needed
    ]
    references = {canonicalize_name(package.found.name): _reference(package.found) for package in needed}
    everything = [heedful, *(package.found for package in needed)]
    dependencies = [{"ref": _reference(package), "dependsOn": _direct(package, references)} for package in everything]
    content = {"metadata": {"component": {**_component(heedful), "type": "application"}}, "components": components}
    # Named by its content, so that the same packages give the same bytes.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([content, dependencies], sort_keys=True))
    return {**FORMAT, "serialNumber": f"urn:uuid:{serial}", "version": 1, **content, "dependencies": dependencies}


def _component(package: Distribution) -> dict[str, Any]:
    reference = _reference(package)
    return {
        "type": "library",
        "bom-ref": reference,
        "name": package.name,
        "version": package.version,
        "purl": reference,
        "licenses": [{"expression": licence(package)}],
    }


def _reference(package: Distribution) -> str:
    """Return the name of a package as a package URL."""
    return f"pkg:pypi/{canonicalize_name(package.name)}@{package.version.replace('+', '%2B')}"


def _direct(package: Distribution, references: Mapping[NormalizedName, str]) -> list[str]:
    named = {canonicalize_name(Requirement(line).name) for line in package.requires or ()}
    return sorted(references[name] for name in named if name in references)


def main() -> None:
    """Write the file, and say where."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"heedful-{distribution('heedful').version}.cdx.json"
    bill = bill_of_materials()
    path.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    print(f"{path}: {len(bill['components'])} packages")


if __name__ == "__main__":
    main()
