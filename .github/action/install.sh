#!/usr/bin/env bash
# Puts warpproof on PATH. VERSION is a release to download, `source` to build this checkout, or empty: then an installed warpproof
# is used, or the release with the version of this checkout is downloaded.
set -euo pipefail

if [ -z "${VERSION:-}" ] && command -v warpproof > /dev/null; then
    echo "found warpproof: $(command -v warpproof)"
    warpproof --version
    exit
fi
bin=${RUNNER_TEMP:?}/warpproof-bin
mkdir -p "$bin"
if [ "${VERSION:-}" = source ]; then
    cargo install --locked --path "${GITHUB_ACTION_PATH:?}/crates/warpproof" --root "$RUNNER_TEMP/warpproof-build"
    cp "$RUNNER_TEMP/warpproof-build/bin/warpproof" "$bin"
else
    version=${VERSION#v}
    [ -n "$version" ] || version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "${GITHUB_ACTION_PATH:?}/Cargo.toml" | head -n 1)
    asset="warpproof-$version-$(uname -m)-linux.tar.gz"
    if ! gh release download "v$version" --repo warpproof/warpproof --pattern "$asset" --pattern SHA256SUMS \
        --dir "$RUNNER_TEMP" --clobber || [ ! -f "$RUNNER_TEMP/$asset" ]; then
        echo "::error::no release v$version of warpproof has $asset; set \`version: source\` to build from source"
        exit 2
    fi
    # A file without a line in SHA256SUMS fails too.
    if ! (cd "$RUNNER_TEMP" && grep -F "  $asset" SHA256SUMS | sha256sum --check --strict -); then
        echo "::error::the SHA-256 of $asset is not the one in SHA256SUMS of release v$version"
        exit 2
    fi
    tar -xzf "$RUNNER_TEMP/$asset" -C "$bin"
fi
echo "$bin" >> "${GITHUB_PATH:?}"
"$bin/warpproof" --version
