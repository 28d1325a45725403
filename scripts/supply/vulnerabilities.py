"""Looks up known vulnerabilities of all installed packages with pip-audit, in an environment of its own.

    python -m scripts.supply.vulnerabilities

Exit code 1 where there are any. Where pip-audit cannot be installed, or cannot reach its database, one line says so.
"""

import json
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

PATIENCE = 600  # seconds


def main() -> int:
    """Print one line per vulnerability."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        tools = Path(folder) / "bin"
        install = [str(tools / "pip"), "install", "--quiet", "--disable-pip-version-check", "pip-audit"]
        if subprocess.run(install, stderr=subprocess.DEVNULL, timeout=PATIENCE).returncode:
            return _skip("pip-audit could not be installed")
        looked_at = [str(tools / "pip-audit"), "--path", sysconfig.get_path("purelib"), "--format", "json"]
        looked = subprocess.run(looked_at, capture_output=True, text=True, timeout=PATIENCE)
    try:
        packages = json.loads(looked.stdout)["dependencies"]
    except (ValueError, KeyError):
        return _skip("pip-audit could not reach its database")
    known = [(package, flaw) for package in packages for flaw in package.get("vulns", ())]
    for package, flaw in known:
        mended = ", ".join(flaw["fix_versions"]) or "no version"
        print(f"{package['name']} {package['version']}: {flaw['id']}, mended in {mended}")
    print(f"vulnerabilities: {len(packages)} packages, {len(known)} known")
    return 1 if known else 0


def _skip(reason: str) -> int:
    print(f"vulnerabilities: not looked up, as {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
