# For the `run` scripts: the directory in which a program is installed and built, and a function that installs wheels.
# ECOSYSTEM_TARGET replaces `target/ecosystem` of the checkout.

directory=${ECOSYSTEM_TARGET:-../../target/ecosystem}/$(basename "$PWD")
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

# Installs the wheels of requirements.txt, again if the file has changed.
install_wheels() {
    cmp -s requirements.txt "$directory/installed.txt" && return
    rm -rf "$directory/bin" "$directory/lib" "$directory/cuda"
    python3 -m venv "$directory"
    "$directory/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.txt
    cp requirements.txt "$directory/installed.txt"
}
