#!/bin/sh
# Resolve requirements.lock for vLLM's CPU build, with hashes, for Linux on x86-64.
# torch is left out: env.sh installs its CPU build by name, since which index has it differs by machine.
# torchvision, torchaudio, torchcodec and triton are left out: vLLM uses none of them for text on a CPU, the
# first three fail to import beside the CPU build of torch, and triton alone is 1 GB.
# Needs uv (pip install uv) and an index, or UV_FIND_LINKS, that has the CPU build of torch.
set -eu
cd "$(dirname "$0")"
without=$(mktemp)
trap 'rm -f "$without"' EXIT
for package in torchvision torchaudio torchcodec triton; do
    echo "$package ; sys_platform == 'never'"
done >"$without"
"${UV:-uv}" pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
    --generate-hashes --no-emit-index-url --no-annotate --no-header \
    --override "$without" --no-emit-package torch \
    requirements.in --output-file requirements.lock ${UPGRADE:+--upgrade}
