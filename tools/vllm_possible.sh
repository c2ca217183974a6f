#!/bin/sh
# Can vLLM's CPU build be installed and run here? Exit 0, or 1 with the reason on standard output.
set -u
cd "$(dirname "$0")/.."
no() {
    echo "$1"
    exit 1
}
[ "$(uname -m)" = x86_64 ] || no "the CPU build is for x86_64, this is $(uname -m)"
grep -q avx512f /proc/cpuinfo || no "the CPU build needs AVX-512"
[ "$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)" -ge 8 ] || no "fewer than 8 GiB of memory are free"
[ "$(df -Pk . | awk 'NR == 2 {print int($4 / 1048576)}')" -ge 8 ] || no "fewer than 8 GiB of disk are free"
[ -e .venv-vllm/.stamp ] && exit 0
torch=$(sed -n 's/^torch=\([^ ]*\).*/\1/p' tests/vllm/env.sh)
python3 -m pip --disable-pip-version-check install --quiet --dry-run --no-deps --ignore-installed "torch==$torch+cpu" \
    >/dev/null 2>&1 || no "pip finds no torch $torch+cpu: name an index that has it in PIP_EXTRA_INDEX_URL"
