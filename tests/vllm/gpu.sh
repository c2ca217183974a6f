#!/bin/sh
# Run tests/vllm/gpu.py, or gpu_sweep.py, on a GPU machine that may have no network: tests/vllm/gpu.sh KIT OUT [gpu_sweep]
# KIT holds site.tar.xz (vLLM and what it needs that the machine lacks, unpacked as site/), and may hold overlay/
# (packages to lay over it), modelinfos/ (a cache of vLLM's) and wheels/ (what the gateway needs besides). Where vLLM
# and the gateway are installed already, run python -m tests.vllm.gpu directly.
set -eu
kit=$1
out=$2
what=${3:-gpu}
place=${TMPDIR:-/tmp}/specroute-gpu
mkdir -p "$place" "$out"
if [ ! -d "$place/site" ]; then
    tar -C "$place" -xJf "$kit/site.tar.xz"
    [ ! -d "$kit/overlay" ] || cp -r "$kit/overlay/." "$place/site/"
    # Its entry point would load a plugin that patches vLLM.
    rm -rf "$place"/site/arctic_inference-*.dist-info
    if [ -d "$kit/modelinfos" ]; then
        mkdir -p "$HOME/.cache/vllm"
        cp -r "$kit/modelinfos" "$HOME/.cache/vllm/"
    fi
    python3 -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$place/own" "$kit"/wheels/*.whl
    python3 -m compileall -q -j 0 "$place/site" >/dev/null || true
fi
# FlashInfer is no part of the kit, and without the variable the sampler's import of it fails.
export PYTHONPATH="$place/site:$place/own" VLLM_USE_FLASHINFER_SAMPLER=0 HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
status=0
# In time for the logs to be kept where a machine is lent for ten minutes.
timeout 530 python3 -m "tests.vllm.$what" --out "$place/out" || status=$?
tar -C "$place/out" --exclude=./checkpoints -czf "$out/logs.tar.gz" .
[ ! -f "$place/out/gpu.json" ] || cp "$place/out/gpu.json" "$out/"
exit $status
