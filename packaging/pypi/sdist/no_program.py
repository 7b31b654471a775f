"""Runs where there is no wheel for the platform: says so, and what to do."""

import platform
import sys

# "glibc 2.31" where this machine has one.
LIBC = " ".join(platform.libc_ver()).strip()
MESSAGE = (
    f"kubecrier has no program for {platform.system()} {platform.machine()}{LIBC and ' with '}{LIBC}, only for "
    "Linux (GLIBC) and macOS on x86_64 and arm64; build it with Rust: https://github.com/kubecrier/kubecrier#readme"
)


def _stop(*_arguments, **_options):
    sys.exit(MESSAGE)


get_requires_for_build_wheel = prepare_metadata_for_build_wheel = build_wheel = _stop
get_requires_for_build_sdist = build_sdist = _stop
