"""Packs an MCPB bundle, which desktop clients install with a click.

    python3 packaging/mcpb/pack.py --platform linux-x64 --binary target/release/kubecrier --out dist

The same bytes for the same binary: all times are fixed.
"""

import argparse
import re
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The first moment that a zip can name.
TIME = (1980, 1, 1, 0, 0, 0)


def version():
    """The version of the workspace: the only place that has it."""
    text = (HERE / "../../Cargo.toml").read_text()
    return re.search(r'(?m)^version = "([^"]+)"$', text).group(1)


def bundle(platform, binary, out):
    system = platform.split("-")[0]
    manifest = (HERE / "manifest.json").read_text()
    manifest = manifest.replace('"VERSION"', f'"{version()}"').replace('"PLATFORM"', f'"{system}"')
    files = [
        ("manifest.json", manifest.encode(), 0o644),
        ("server/kubecrier", binary.read_bytes(), 0o755),
        ("LICENSE", (HERE / "../../LICENSE").read_bytes(), 0o644),
    ]
    path = out / f"kubecrier-{version()}-{platform}.mcpb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in files:
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content)
    return path


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--platform", required=True)
    arguments.add_argument("--binary", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"{bundle(given.platform, given.binary, given.out).name}\n")


if __name__ == "__main__":
    main()
