# For the `run` scripts: where a program keeps what it installs and builds, and how wheels get there.
# ECOSYSTEM_TARGET names another place than `target/ecosystem` of the checkout.

directory=${ECOSYSTEM_TARGET:-../../target/ecosystem}/$(basename "$PWD")
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

# Installs the wheels of requirements.txt, once for each text of it. A driver in LD_LIBRARY_PATH is none of pip's business.
install_wheels() {
    cmp -s requirements.txt "$directory/installed.txt" && return
    rm -rf "$directory/bin" "$directory/lib" "$directory/cuda"
    python3 -m venv "$directory"
    "$directory/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.txt
    cp requirements.txt "$directory/installed.txt"
}
