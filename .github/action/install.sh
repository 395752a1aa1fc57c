#!/usr/bin/env bash
# Puts warpproof on PATH: the release VERSION if it is set, else an installed warpproof, else a build of this checkout.
set -euo pipefail

if command -v warpproof > /dev/null && [ -z "${VERSION:-}" ]; then
    echo "found warpproof: $(command -v warpproof)"
    warpproof --version
    exit
fi
bin=${RUNNER_TEMP:?}/warpproof-bin
mkdir -p "$bin"
if [ -n "${VERSION:-}" ]; then
    asset="warpproof-${VERSION#v}-$(uname -m)-linux.tar.gz"
    if ! gh release download "v${VERSION#v}" --repo warpproof/warpproof --pattern "$asset" --dir "$RUNNER_TEMP" --clobber; then
        echo "::error::no release v${VERSION#v} of warpproof has $asset; leave \`version\` out to build from source"
        exit 2
    fi
    tar -xzf "$RUNNER_TEMP/$asset" -C "$bin"
else
    cargo install --locked --path "${GITHUB_ACTION_PATH:?}/crates/warpproof" --root "$RUNNER_TEMP/warpproof-build"
    cp "$RUNNER_TEMP/warpproof-build/bin/warpproof" "$bin"
fi
echo "$bin" >> "${GITHUB_PATH:?}"
"$bin/warpproof" --version
