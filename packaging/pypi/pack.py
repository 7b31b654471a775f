"""Packs a wheel with the native program, and the source package for every other platform.

    python3 packaging/pypi/pack.py --platform linux-x64 --binary target/release/kubecrier --out dist

The program is a script of the wheel: pip and uv put it onto the path as it is, so that nothing
stands between it and its client. The source package cannot be installed; it says what to do.
The same bytes for the same binary: all times are fixed.
"""

import argparse
import base64
import gzip
import hashlib
import io
import re
import sys
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "kubecrier"
# The first moment that a zip can name.
TIME = (1980, 1, 1, 0, 0, 0)
# The oldest macOS that Rust builds for.
PLATFORMS = {
    "linux-x64": "manylinux_2_{glibc}_x86_64",
    "linux-arm64": "manylinux_2_{glibc}_aarch64",
    "darwin-x64": "macosx_10_12_x86_64",
    "darwin-arm64": "macosx_11_0_arm64",
}
# The oldest glibc that Rust builds for.
GLIBC_MIN = 17


def version():
    """The version of the workspace: the only place that has it."""
    text = (HERE / "../../Cargo.toml").read_text()
    return re.search(r'(?m)^version = "([^"]+)"$', text).group(1)


def metadata():
    return "\n".join(
        [
            "Metadata-Version: 2.1",
            f"Name: {NAME}",
            f"Version: {version()}",
            "Summary: The Kubernetes MCP server that tells an AI agent what just happened in a cluster",
            "Home-page: https://github.com/kubecrier/kubecrier",
            "License: Apache-2.0",
            "Keywords: mcp,kubernetes,events,agents",
            "Description-Content-Type: text/markdown",
            "",
            (HERE / "README.md").read_text(),
        ]
    )


def oldest_glibc(program):
    """The minor version of the oldest glibc that has all that the program asks for."""
    needed = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", program)]
    return max([GLIBC_MIN, *needed])


def wheel(platform, binary, out):
    program = binary.read_bytes()
    tag = PLATFORMS[platform].format(glibc=oldest_glibc(program))
    info = f"{NAME}-{version()}.dist-info"
    about = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
    files = [
        (f"{NAME}-{version()}.data/scripts/{NAME}", program, 0o755),
        (f"{info}/METADATA", metadata().encode(), 0o644),
        (f"{info}/WHEEL", about.encode(), 0o644),
        (f"{info}/licenses/LICENSE", (HERE / "../../LICENSE").read_bytes(), 0o644),
    ]
    record = ""
    for name, content, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644))
    path = out / f"{NAME}-{version()}-py3-none-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in files:
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content)
    return path


def sdist(platform, binary, out):
    root = f"{NAME}-{version()}"
    # Other platforms than Linux do not know which glibc it needs there.
    is_linux = platform.startswith("linux-")
    glibc = f"glibc 2.{oldest_glibc(binary.read_bytes())} or newer" if is_linux else "a recent glibc"
    project = (HERE / "sdist/pyproject.toml").read_text().replace("VERSION", version())
    files = {
        "LICENSE": (HERE / "../../LICENSE").read_text(),
        "PKG-INFO": metadata(),
        "README.md": (HERE / "README.md").read_text(),
        "no_program.py": (HERE / "sdist/no_program.py").read_text().replace("GLIBC", glibc),
        "pyproject.toml": project,
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    path = out / f"{root}.tar.gz"
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return path


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--platform", choices=PLATFORMS, required=True)
    arguments.add_argument("--binary", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for pack in [wheel, sdist]:
        path = pack(given.platform, given.binary, given.out)
        sys.stdout.write(f"{path.name}\n")


if __name__ == "__main__":
    main()
