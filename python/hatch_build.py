"""Adds the version of the workspace, and the programs named by WARPPROOF_PROGRAMS, to the wheel."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class Version(MetadataHookInterface):
    """Reads the version from the workspace's Cargo.toml."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root).parent / "Cargo.toml").read_text()
        found = re.search(r'^\[workspace\.package\]\n(?:[^\[]*\n)?version = "([^"]+)"', text, re.MULTILINE)
        if found is None:
            raise RuntimeError("Cargo.toml has no version in [workspace.package]")
        metadata["version"] = found.group(1)


class Programs(BuildHookInterface[Any]):
    """Puts `warpproof`, `libcuda.so.1` and `libwarpproof_attention.so` into the package.

    WARPPROOF_PROGRAMS names the directory that has them. WARPPROOF_WHEEL_TAG is the platform for which they were built, such as
    manylinux_2_28_x86_64. `cargo xtask python` and `cargo xtask dist` set both.
    """

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        programs = Path(os.environ.get("WARPPROOF_PROGRAMS", ""))
        tag = os.environ.get("WARPPROOF_WHEEL_TAG", "")
        if not tag or not (programs / "warpproof").is_file():
            raise RuntimeError("build the wheel with `cargo xtask dist` or `cargo xtask python`, which build the programs first")
        for name in ("warpproof", "libcuda.so.1", "libwarpproof_attention.so"):
            build_data["force_include"][str(programs / name)] = f"warpproof/_bin/{name}"
        # Licenses of the crates in the programs; `cargo xtask python`, whose wheel is not distributed, has none.
        if (programs / "LICENSE-THIRD-PARTY").is_file():
            build_data["force_include"][str(programs / "LICENSE-THIRD-PARTY")] = "warpproof/_bin/LICENSE-THIRD-PARTY"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"


def get_metadata_hook() -> type[MetadataHookInterface]:
    return Version


def get_build_hook() -> type[BuildHookInterface[Any]]:
    return Programs
