#!/bin/sh
# Resolve requirements.lock (what runs) and requirements-test.lock (what tests and checks) with hashes.
# Index addresses stay out of the files. Needs uv: pip install uv.
set -eu
cd "$(dirname "$0")/.."
uv=${UV:-uv}
compile() {
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-annotate --no-header "$@"
}
compile pyproject.toml --extra demo --group build --output-file requirements.lock ${UPGRADE:+--upgrade}
compile pyproject.toml --extra demo --extra litellm --group build --group test --group lint --constraint requirements.lock \
    --output-file requirements-test.lock
