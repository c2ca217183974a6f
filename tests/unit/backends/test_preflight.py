from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backends.flags import listed
from backends.machine import Engine, Gpu, Machine
from backends.methods import methods
from backends.preflight import Finding, preflight
from backends.recipes import recipes
from backends.spec import LaunchSpec, from_recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

CERTIFICATE = Path(__file__).parents[2] / "fixtures/tls/localhost.pem"
SIGNED = CERTIFICATE.with_name("signed.pem")
KNOWN = frozenset(one.engine for one in methods().values() if one.engine)
ENGINE = Engine("python", "0.32.0", "rocm", KNOWN, frozenset({"arctic_inference"}))
GPUS = tuple(Gpu(index, "AMD Instinct MI300X gfx942", 196_592, 300) for index in range(8))
MACHINE = Machine("rocm", ENGINE, GPUS)
ASKED = replace(MACHINE, engine=replace(ENGINE, version="0.33.0", flags=listed()))
CUDA = Machine("cuda", replace(ENGINE, platform="cuda"))
CPU = Machine("cpu", replace(ENGINE, platform="cpu", version="0.33.0"))
BASE = LaunchSpec("base", "t/arget", "t", port=8000)

TARGET = {
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 2048,
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "max_position_embeddings": 4096,
    "num_nextn_predict_layers": 2,
}
DRAFT = {
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 2048,
    "hidden_size": 64,
    "max_position_embeddings": 8192,
}
EAGLE3 = {"architectures": ["LlamaForCausalLMEagle3"], "vocab_size": 2048, "hidden_size": 128}
DFLASH = {
    "architectures": ["DFlashDraftModel"],
    "vocab_size": 2048,
    "hidden_size": 128,
    "block_size": 8,
    "dflash_config": {"target_layer_ids": [0, 3]},
}
DSPARK = {**DFLASH, "architectures": ["Qwen3DSparkModel"], "block_size": 7}
MEDUSA = {"architectures": ["MedusaModel"], "vocab_size": 2048, "hidden_size": 128, "num_heads": 3}


def checkpoint(folder: Path, config: dict[str, Any]) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(folder)


def server(method: str, draft_tokens: int = 0, draft: str | None = None, **more: Any) -> LaunchSpec:
    return LaunchSpec("s", more.pop("target", "t/arget"), "t", method, draft_tokens, draft, **more)


def found(spec: LaunchSpec, machine: Machine = MACHINE, *others: LaunchSpec) -> list[str]:
    """What is said of a server, but for what could not be looked at."""
    return [
        str(one).removeprefix(f"{spec.name}: ") for one in told(spec, machine, *others) if not one.unchecked
    ]


def checked(specs: Sequence[LaunchSpec], machine: Machine) -> list[str]:
    return [str(one) for one in preflight(specs, machine) if not one.unchecked]


def told(spec: LaunchSpec, machine: Machine = MACHINE, *others: LaunchSpec) -> list[Finding]:
    findings = preflight([*(others or (replace(BASE, target=spec.target),)), spec], machine)
    return [one for one in findings if one.server == spec.name]


def vllm(version: str, *lacking: str) -> Machine:
    return replace(MACHINE, engine=replace(ENGINE, version=version, methods=KNOWN - {*lacking}))


# What needs no checkpoint. Each is one mistake and one message, all of it.
BAD: list[tuple[str, LaunchSpec, Machine, str]] = [
    (
        "unknown method", server("dflesh", 7, "d/raft"), MACHINE,
        "there is no method 'dflesh'; did you mean 'dflash'?",
    ),
    (
        "method spelt as vLLM's alias", server("gemma4_mtp", 4, "d/raft"), MACHINE,
        "there is no method 'gemma4_mtp'; did you mean 'gemma4-mtp'?",
    ),
    (
        "no such method in this vLLM", server("dspark", 7, "d/raft"), vllm("0.22.0", "dspark"),
        ("vLLM 0.22.0 has no method dspark; use vLLM 0.24.0 or newer\n"
        "warning: vLLM 0.22.0 does not tell the acceptance of each request; use vLLM 0.29.0 or newer"),
    ),
    (
        "too old on this platform", server("dflash", 7, "d/raft"), vllm("0.20.0"),
        ("dflash is known on rocm from vLLM 0.22.1 on, and this is 0.20.0; use vLLM 0.22.1 or newer\n"
        "warning: vLLM 0.20.0 does not tell the acceptance of each request; use vLLM 0.29.0 or newer"),
    ),
    (
        "dspark on a CPU", server("dspark", 7, "d/raft"), CPU,
        "dspark does not run on cpu: the model runner for CPU does not support it; run it on rocm or cuda",
    ),
    (
        "suffix without its package", server("suffix", 8), replace(MACHINE, engine=replace(ENGINE, modules=frozenset())),
        ("suffix needs the package arctic_inference, which vLLM's environment lacks; "
        "run python -m pip install arctic-inference==0.1.1"),
    ),
    (
        "no draft", server("eagle3", 3), MACHINE,
        "eagle3 needs a draft checkpoint; add 'draft: ID' or the path of a folder",
    ),
    (
        "draft beside native MTP", server("mtp", 2, "d/raft"), MACHINE,
        "mtp drafts with the target's own layers, and a draft is named; remove 'draft'",
    ),
    (
        "Gemma's assistant as native MTP", server("mtp", 4, "google/gemma-4-31B-it-assistant"), MACHINE,
        ("mtp drafts with the target's own layers, and a draft is named; "
        "for a Gemma 4 assistant write 'method: gemma4-mtp'"),
    ),
    (
        "draft for a lookup", server("ngram", 4, "d/raft"), MACHINE,
        "ngram has no draft, and one is named; remove 'draft', or name the method",
    ),
    (
        "draft without a method", server("none", 0, "d/raft"), MACHINE,
        "none has no draft, and one is named; remove 'draft', or name the method",
    ),
    (
        "N without a method", server("none", 3), MACHINE,
        "without speculation there are no draft tokens, and 3 are asked for; remove 'draft_tokens', or name the method",
    ),
    (
        "no N", server("mtp"), MACHINE,
        "mtp needs its number of draft tokens; add 'draft_tokens: 1', then sweep 1, 2, 3, 4, 5, 6, 7",
    ),
    (
        "no N for a block", server("dflash", 0, "d/raft"), MACHINE,
        "dflash needs its number of draft tokens; add 'draft_tokens: 7', then sweep 3, 7, 11, 15",
    ),
    (
        "N of the whole block", server("dflash", 16, "d/raft", block_size=16), MACHINE,
        "16 draft tokens do not fit a block of 16, of which one is the anchor; set draft_tokens to 15 at most",
    ),
    (
        "N past the trained block", server("dspark", 11, "d/raft", block_size=7), MACHINE,
        "11 draft tokens are past the block of 7 that the draft was trained with; set draft_tokens to 7 at most",
    ),
    (
        "speculative config without speculation", server("none", speculative={"moe_backend": "triton"}), MACHINE,
        "a server without speculation has no speculative config; remove 'speculative'",
    ),
    (
        "N twice", server("ngram", 4, speculative={"num_speculative_tokens": 5}), MACHINE,
        "num_speculative_tokens is written twice; remove it from 'speculative' and set 'draft_tokens'",
    ),
    (
        "method twice", server("ngram", 4, speculative={"method": "suffix"}), MACHINE,
        "method is written twice; remove it from 'speculative' and set 'method'",
    ),
    (
        "draft twice", server("eagle3", 3, "d/raft", speculative={"model": "d/raft"}), MACHINE,
        "model is written twice; remove it from 'speculative' and set 'draft'",
    ),
    (
        "a key that no method has", server("ngram", 4, speculative={"prompt_lookup_mx": 4}), MACHINE,
        "ngram takes no prompt_lookup_mx in its speculative config; did you mean 'prompt_lookup_max'?",
    ),
    (
        "a key of another method", server("eagle3", 3, "d/raft", speculative={"dspark_draft_topk": 4}), MACHINE,
        ("eagle3 takes no dspark_draft_topk in its speculative config; keys: attention_backend, code_revision, "
        "disable_eagle_block_drop, disable_padded_drafter_batch, draft_load_config, draft_sample_method, "
        "draft_tensor_parallel_size, enable_adaptive_verification, enforce_eager, kv_cache_dtype, max_model_len, moe_backend, "
        "num_speculative_tokens_per_batch_size, parallel_drafting, quantization, rejection_sample_method, "
        "revision, use_local_argmax_reduction"),
    ),
    (
        "the target's parallelism in the draft's config", server("eagle3", 3, "d/raft", speculative={"tensor_parallel_size": 1}), MACHINE,
        "vLLM refuses tensor_parallel_size in the speculative config; write draft_tensor_parallel_size",
    ),
    (
        "draft over half of the GPUs",
        server("eagle3", 3, "d/raft", tensor_parallel=4, speculative={"draft_tensor_parallel_size": 2}), MACHINE,
        "the draft cannot be spread over 2 GPUs beside a target on 4; set draft_tensor_parallel_size to 1 or 4",
    ),
    (
        "draft over more GPUs than the target", server("eagle3", 3, "d/raft", speculative={"draft_tensor_parallel_size": 2}), MACHINE,
        "the draft cannot be spread over 2 GPUs beside a target on 1; set draft_tensor_parallel_size to 1",
    ),
    (
        "synthetic acceptance", server("eagle3", 3, "d/raft", speculative={"rejection_sample_method": "synthetic"}), MACHINE,
        "synthetic rejection makes acceptance up, and with it the text; write standard or block",
    ),
    (
        "synthetic rates", server("eagle3", 3, "d/raft", speculative={"synthetic_acceptance_length": 2.4}), MACHINE,
        ("synthetic_acceptance_length makes acceptance up, and with it the text; "
        "remove synthetic_acceptance_length: it is for benchmarks of engines"),
    ),
    (
        "unknown way to sample drafts", server("eagle3", 3, "d/raft", speculative={"draft_sample_method": "random"}), MACHINE,
        "draft_sample_method cannot be 'random'; write greedy or probabilistic",
    ),
    (
        "sampled drafts of another vocabulary",
        server("draft-model", 3, "d/raft", speculative={"use_heterogeneous_vocab": True, "draft_sample_method": "probabilistic"}), MACHINE,
        "drafts of another vocabulary are sampled greedily only; remove draft_sample_method",
    ),
    (
        "lookup bounds the wrong way round", server("ngram", 4, speculative={"prompt_lookup_min": 5}), MACHINE,
        "prompt_lookup_min 5 is above prompt_lookup_max 4; make prompt_lookup_max the larger one",
    ),
    (
        "lookup of nothing", server("ngram", 4, speculative={"prompt_lookup_min": 0}), MACHINE,
        "prompt_lookup_min is 0; write a whole number from 1 on",
    ),
    (
        "suffix tree without depth", server("suffix", 8, speculative={"suffix_decoding_max_tree_depth": 0}), MACHINE,
        "suffix_decoding_max_tree_depth is 0; write 1 or more",
    ),
    (
        "suffix cache below zero", server("suffix", 8, speculative={"suffix_decoding_max_cached_requests": -1}), MACHINE,
        "suffix_decoding_max_cached_requests is -1; write 0 or more",
    ),
    (
        "suffix factor below zero", server("suffix", 8, speculative={"suffix_decoding_max_spec_factor": -0.5}), MACHINE,
        "suffix_decoding_max_spec_factor is -0.5; write 0 or more",
    ),
    (
        "suffix probability above one", server("suffix", 8, speculative={"suffix_decoding_min_token_prob": 2}), MACHINE,
        "suffix_decoding_min_token_prob is 2; write a number from 0 to 1",
    ),
    (
        "schedule of another shape", server("eagle3", 3, "d/raft", speculative={"num_speculative_tokens_per_batch_size": [[1, 64]]}), MACHINE,
        ("num_speculative_tokens_per_batch_size is no list of three whole numbers each; "
        "write [[1, 64, 3], [65, 512, 0]]: first and last batch size, draft tokens"),
    ),
    (
        "schedule that begins late", server("eagle3", 3, "d/raft", speculative={"num_speculative_tokens_per_batch_size": [[2, 64, 3]]}), MACHINE,
        "the schedule begins at batch size 2; begin at 1",
    ),
    (
        "schedule with a gap",
        server("eagle3", 3, "d/raft", speculative={"num_speculative_tokens_per_batch_size": [[1, 64, 3], [66, 128, 1]]}), MACHINE,
        ("warning: the schedule says nothing of batch sizes 65 to 65; "
        "say it, unless 3 draft tokens are meant, with which vLLM goes on"),
    ),
    (
        "schedule with an overlap",
        server("eagle3", 3, "d/raft", speculative={"num_speculative_tokens_per_batch_size": [[1, 64, 3], [64, 128, 1]]}), MACHINE,
        "the schedule has batch size 64 twice; begin the later range at 65",
    ),
    (
        "range the wrong way round", server("eagle3", 3, "d/raft", speculative={"num_speculative_tokens_per_batch_size": [[1, 0, 3]]}), MACHINE,
        ("the schedule ends a range at 0 that begins at 1; "
        "write [[1, 64, 3], [65, 512, 0]]: first and last batch size, draft tokens"),
    ),
    (
        "schedule above N", server("eagle3", 3, "d/raft", speculative={"num_speculative_tokens_per_batch_size": [[1, 64, 5]]}), MACHINE,
        "the schedule asks for 5 draft tokens at batch size 1; write 0 to 3, or raise draft_tokens",
    ),
    (
        "schedule that is not tested", server("mtp", 3, speculative={"num_speculative_tokens_per_batch_size": [[1, 64, 3]]}), MACHINE,
        "warning: vLLM is not tested with a schedule for mtp; watch its acceptance, or remove the schedule",
    ),
    (
        "schedule with data parallelism",
        server("eagle3", 3, "d/raft", args={"data-parallel-size": 2}, speculative={"num_speculative_tokens_per_batch_size": [[1, 64, 3]]}), MACHINE,
        "vLLM silently ignores a schedule with data parallelism; remove data-parallel-size or the schedule",
    ),
    (
        "adaptive verification of a method without", server("medusa", 3, "d/raft", speculative={"enable_adaptive_verification": True}), MACHINE,
        ("medusa takes no enable_adaptive_verification in its speculative config; keys: attention_backend, "
        "code_revision, draft_load_config, draft_tensor_parallel_size, enforce_eager, kv_cache_dtype, max_model_len, "
        "moe_backend, num_speculative_tokens_per_batch_size, quantization, rejection_sample_method, revision, "
        "use_local_argmax_reduction"),
    ),
    (
        "adaptive verification before its time",
        server("dspark", 7, "d/raft", speculative={"enable_adaptive_verification": True}, args={"per-request-spec-decode-metrics": "summary"}),
        replace(MACHINE, engine=replace(ENGINE, version="0.27.0")),
        ("adaptive verification of dspark is known from vLLM 0.28.0 on, and this is 0.27.0; "
        "use vLLM 0.28.0 or newer, or remove enable_adaptive_verification\n"
        "warning: vLLM 0.27.0 may refuse logprobs and top_logprobs beside adaptive verification; use vLLM 0.29.0 or newer, "
        "or write 'refuses: [logit_bias, logprobs, min_p, top_logprobs]'\n"
        "warning: vLLM 0.27.0 does not tell the acceptance of each request; use vLLM 0.29.0 or newer"),
    ),
    (
        "adaptive verification with LoRA",
        server("dspark", 7, "d/raft", args={"enable-lora": True}, speculative={"enable_adaptive_verification": True}), MACHINE,
        "adaptive verification does not go with LoRA; remove enable-lora",
    ),
    (
        "adaptive verification in a pipeline",
        server("dspark", 7, "d/raft", args={"pipeline-parallel-size": 2}, speculative={"enable_adaptive_verification": True}), MACHINE,
        "adaptive verification does not go with pipeline parallelism; remove pipeline-parallel-size",
    ),
    (
        "DFlash for Gemma 4 on ROCm", server("dflash", 7, "d/raft", target="google/gemma-4-31B-it"), MACHINE,
        ("dflash on google/gemma-4-31B-it needs the attention backend triton_attn on rocm; "
        "set args attention-backend and speculative attention_backend to triton_attn"),
    ),
    (
        "acceptance asked of a baseline", server("none", args={"per-request-spec-decode-metrics": "summary"}), MACHINE,
        "vLLM refuses to start with per-request-spec-decode-metrics and no speculation; remove it",
    ),
    (
        "acceptance switched off", server("ngram", 4, args={"per-request-spec-decode-metrics": "none"}), MACHINE,
        ("warning: acceptance of each request is switched off, so it is only known from counters; "
        "remove per-request-spec-decode-metrics"),
    ),
    (
        "vLLM before per-request acceptance", server("ngram", 4), vllm("0.28.0"),
        "warning: vLLM 0.28.0 does not tell the acceptance of each request; use vLLM 0.29.0 or newer",
    ),
    (
        "no counters", server("ngram", 4, args={"disable-log-stats": True}), MACHINE,
        "without log statistics there are no counters to read load and acceptance from; remove disable-log-stats",
    ),
    (
        "flag that is written from a field", server("ngram", 4, args={"tensor-parallel-size": 2}), MACHINE,
        "the flag tensor-parallel-size is written by specroute; remove it and set launch.tensor_parallel",
    ),
    (
        "flag with dashes", server("ngram", 4, args={"--enforce-eager": True}), MACHINE,
        "the flag --enforce-eager begins with dashes; write enforce-eager",
    ),
    (
        "GPUs by hand", server("ngram", 4, env={"HIP_VISIBLE_DEVICES": "3"}), MACHINE,
        "HIP_VISIBLE_DEVICES is set by specroute; remove it from env and set launch.gpus",
    ),
    (
        "a target folder that is not there", server("none", target="./nowhere"), MACHINE,
        "the target cannot be read: there is no folder ./nowhere; name a folder with a checkpoint, or an id",
    ),
    (
        "a draft folder that is not there", server("draft-model", 3, "./nowhere"), MACHINE,
        "the draft cannot be read: there is no folder ./nowhere; name a folder with a checkpoint, or an id",
    ),
    (
        "GPUs named and not as many as needed", server("none", tensor_parallel=2, gpus=(1,)), MACHINE,
        "it is spread over 2 GPUs and is given 1; name 2 in launch.gpus",
    ),
    (
        "a GPU that is not there", server("none", gpus=(9,)), replace(MACHINE, gpus=GPUS[:2]),
        "this machine has no GPU 9; name some of 0, 1",
    ),
    (
        "a GPU that is busy", server("none", gpus=(0,)), replace(MACHINE, gpus=(Gpu(0, "MI300X", 196_592, 90_000), *GPUS[1:])),
        "of GPU 0 90000 of 196592 MiB are taken; stop what runs there, or name another",
    ),
    (
        "more GPUs than there are", server("none", tensor_parallel=8), MACHINE,
        "the fleet needs 9 GPUs and 8 are free; start fewer methods, or spread each over fewer GPUs",
    ),
    (
        "one GPU for two", server("none"), replace(MACHINE, gpus=GPUS[:1]),
        "the fleet needs 2 GPUs and 1 are free; start fewer methods, or spread each over fewer GPUs",
    ),
    (
        "other hardware than measured", server("none", hardware="MI355X (gfx950)"), MACHINE,
        ("warning: its values were measured on MI355X (gfx950), and this machine has AMD Instinct MI300X gfx942; "
        "sweep the draft lengths here before relying on them"),
    ),
    (
        "a port that is taken", server("none", port=9000), replace(MACHINE, port_is_free=lambda _host, port: port != 9000),
        "somebody listens on port 9000 already; stop that, or choose another port",
    ),
    (
        "an address elsewhere", server("none", host="10.0.0.5", port=9000), MACHINE,
        ("its address http://10.0.0.5:9000 is not on this machine; "
        "start it there, and write 127.0.0.1 for what is started here"),
    ),
    (
        "method spelt as one of vLLM's many", server("qwen3_next_mtp", 2), MACHINE,
        "there is no method 'qwen3_next_mtp'; did you mean 'mtp'?",
    ),
    (
        "method spelt with spaces", server("Draft Model", 2), MACHINE,
        "there is no method 'Draft Model'; did you mean 'draft-model'?",
    ),
    (
        "a variant of a method", server("ngram_gpu", 2), MACHINE,
        "there is no method 'ngram_gpu'; did you mean 'ngram'?",
    ),
    (
        "a method that only vLLM has", server("custom_class", 2), MACHINE,
        ("there is no method 'custom_class'; methods: dflash, draft-model, dspark, eagle, eagle3, gemma4-mtp, medusa, "
        "mtp, ngram, none, suffix"),
    ),
    (
        "a development build too far back", server("dflash", 7, "d/raft-b16", block_size=16), vllm("0.19.2rc1.dev5+g123"),
        ("dflash is known on rocm from vLLM 0.22.1 on, and this is 0.19.2rc1.dev5+g123; use vLLM 0.22.1 or newer\n"
        "warning: vLLM 0.19.2rc1.dev5+g123 does not tell the acceptance of each request; use vLLM 0.29.0 or newer"),
    ),
    (
        "a development build that may have it", server("dflash", 7, "d/raft", block_size=16), vllm("0.21.1rc1.dev5+g123"),
        ("warning: dflash is known on rocm from vLLM 0.22.1 on, and the number of the development build "
        "0.21.1rc1.dev5+g123 does not say whether it has it; use vLLM 0.22.1 or newer to be sure\n"
        "warning: vLLM 0.21.1rc1.dev5+g123 does not tell the acceptance of each request; use vLLM 0.29.0 or newer"),
    ),
    (
        "acceptance of a development build", server("ngram", 4), vllm("0.28.1rc1.dev7+g1"),
        ("warning: the number of the development build 0.28.1rc1.dev7+g1 does not say whether it tells acceptance; "
        "use vLLM 0.29.0 or newer to be sure"),
    ),
    (
        "adaptive verification of a development build",
        server("dspark", 7, "d/raft", block_size=7, speculative={"enable_adaptive_verification": True}), vllm("0.27.1rc1.dev7+g1"),
        ("warning: adaptive verification of dspark is known from vLLM 0.28.0 on, and this is 0.27.1rc1.dev7+g1; "
        "use vLLM 0.28.0 or newer, or remove enable_adaptive_verification\n"
        "warning: vLLM 0.27.1rc1.dev7+g1 may refuse logprobs and top_logprobs beside adaptive verification; "
        "use vLLM 0.29.0 or newer, or write 'refuses: [logit_bias, logprobs, min_p, top_logprobs]'\n"
        "warning: vLLM 0.27.1rc1.dev7+g1 does not tell the acceptance of each request; use vLLM 0.29.0 or newer"),
    ),
    (
        "N beyond what vLLM can verify", server("ngram", 129), MACHINE,
        "129 draft tokens are more than the 128 that vLLM can verify; set draft_tokens to 4, then sweep 2, 4, 8",
    ),
    (
        "N beyond all sense", server("mtp", 90), MACHINE,
        ("warning: 90 draft tokens are more than was ever of use with mtp; "
        "begin with 1, then sweep 1, 2, 3, 4, 5, 6, 7"),
    ),
    (
        "N beyond any published block", server("dflash", 90, "d/raft"), MACHINE,
        ("90 draft tokens are more than any published draft of dflash has in its block; "
        "set draft_tokens to 15 at most, or write the draft's block in launch.block_size"),
    ),
    (
        "N beyond a published draft's block", server("dspark", 8, "deepseek-ai/dspark_qwen3_8b_block7"), MACHINE,
        "8 draft tokens are past the block of 7 that the draft was trained with; set draft_tokens to 7 at most",
    ),
    (
        "N of a published draft's whole block", server("dflash", 16, "z-lab/Qwen3.5-27B-DFlash"), MACHINE,
        "16 draft tokens do not fit a block of 16, of which one is the anchor; set draft_tokens to 15 at most",
    ),
    (
        "a block other than the published draft's", server("dflash", 31, "z-lab/Qwen3-8B-DFlash-b16", block_size=32), MACHINE,
        ("warning: launch.block_size is 32, and the block of z-lab/Qwen3-8B-DFlash-b16 has 16, as far as is known; "
        "remove launch.block_size"),
    ),
    (
        "refusals that the file lacks",
        server("dspark", 7, "d/raft", block_size=7, refused=("seed",)), MACHINE,
        ("warning: it answers requests with logit_bias or min_p with 400, and its 'refuses' lacks that; "
        "remove 'refuses', or name them there"),
    ),
    (
        "adaptive verification while it refused log-probabilities",
        server("dspark", 7, "d/raft", block_size=7, speculative={"enable_adaptive_verification": True}), vllm("0.28.0"),
        ("warning: vLLM 0.28.0 may refuse logprobs and top_logprobs beside adaptive verification; use vLLM 0.29.0 or newer, "
        "or write 'refuses: [logit_bias, logprobs, min_p, top_logprobs]'\n"
        "warning: vLLM 0.28.0 does not tell the acceptance of each request; use vLLM 0.29.0 or newer"),
    ),
    (
        "one key in two spellings", server("ngram", 4, speculative={"prompt_lookup_max": 4, "prompt-lookup-max": 5}), MACHINE,
        "prompt_lookup_max and prompt-lookup-max are one key; keep one of them",
    ),
    (
        "method twice, with a dash", server("ngram", 4, speculative={"num-speculative-tokens": 5}), MACHINE,
        "num-speculative-tokens is written twice; remove it from 'speculative' and set 'draft_tokens'",
    ),
    (
        "a key of tomorrow", server("ngram", 4, speculative={"zzz": 1}), Machine("rocm"),
        ("warning: zzz is no key of the speculative config that is known here; "
        "remove it, unless your vLLM is newer and has it"),
    ),
    (
        "a key of this vLLM that is not known", server("ngram", 4, speculative={"zzz": 1}),
        replace(MACHINE, engine=replace(ENGINE, options=frozenset({"zzz"}))),
        "warning: nothing is known here of zzz, which vLLM has; see its documentation for whether it suits the method",
    ),
    (
        "a switch that is none", server("eagle3", 3, "d/raft", speculative={"parallel_drafting": "maybe"}), MACHINE,
        "parallel_drafting is 'maybe'; write true or false",
    ),
    (
        "a count that is none", server("eagle3", 3, "d/raft", speculative={"max_model_len": "long"}), MACHINE,
        "max_model_len is 'long'; write a whole number from 1 on",
    ),
    (
        "half a GPU", server("eagle3", 3, "d/raft", speculative={"draft_tensor_parallel_size": 0.5}), MACHINE,
        "draft_tensor_parallel_size is 0.5; write a whole number from 1 on",
    ),
    (
        "a text that is none", server("eagle3", 3, "d/raft", speculative={"moe_backend": True}), MACHINE,
        "moe_backend is True; write a text",
    ),
    (
        "a config in the config that is none", server("eagle3", 3, "d/raft", speculative={"draft_load_config": "fast"}), MACHINE,
        "draft_load_config is 'fast'; write keys with values",
    ),
    (
        "a draft longer than its server", server("eagle3", 3, "d/raft", max_model_len=4096, speculative={"max_model_len": 8192}), MACHINE,
        "the draft's max_model_len 8192 is above the server's 4096; set it to 4096 at most, or remove it from 'speculative'",
    ),
    (
        "the best of a draft that is spread",
        server("dspark", 7, "d/raft", block_size=7, tensor_parallel=2, speculative={"dspark_draft_topk": 4}), MACHINE,
        ("dspark_draft_topk needs a draft on one GPU, and it is on 2; "
        "set draft_tensor_parallel_size to 1, or remove dspark_draft_topk"),
    ),
    (
        "a lookup window that is true", server("ngram", 4, speculative={"prompt_lookup_max": True}), MACHINE,
        "prompt_lookup_max is True; write a whole number from 1 on",
    ),
    (
        "suffix probability that is no number", server("suffix", 8, speculative={"suffix_decoding_min_token_prob": float("nan")}), MACHINE,
        "suffix_decoding_min_token_prob is nan; write a number from 0 to 1",
    ),
    (
        "schedule of switches", server("eagle3", 3, "d/raft", speculative={"num_speculative_tokens_per_batch_size": [[True, 64, 3]]}), MACHINE,
        ("num_speculative_tokens_per_batch_size is no list of three whole numbers each; "
        "write [[1, 64, 3], [65, 512, 0]]: first and last batch size, draft tokens"),
    ),
    (
        "schedule below zero", server("eagle3", 3, "d/raft", speculative={"num_speculative_tokens_per_batch_size": [[1, 64, -1]]}), MACHINE,
        "the schedule asks for -1 draft tokens at batch size 1; write 0 to 3, or raise draft_tokens",
    ),
    (
        "adaptive verification without graphs",
        server("dspark", 7, "d/raft", block_size=7, args={"enforce_eager": True}, speculative={"enable_adaptive_verification": True}), MACHINE,
        "adaptive verification does not go with eager mode, as it needs full CUDA graphs; remove enforce-eager",
    ),
    (
        "adaptive verification with other graphs",
        server("dspark", 7, "d/raft", block_size=7, args={"compilation-config": '{"cudagraph_mode": "PIECEWISE"}'}, speculative={"enable_adaptive_verification": True}), MACHINE,
        ("adaptive verification needs full CUDA graphs, and cudagraph_mode is 'PIECEWISE'; "
        "set it to FULL or FULL_DECODE_ONLY or FULL_AND_PIECEWISE, or leave it out"),
    ),
    (
        "adaptive verification of local choices",
        server("eagle3", 3, "d/raft", speculative={"enable_adaptive_verification": True, "use_local_argmax_reduction": True}), MACHINE,
        "adaptive verification does not go with use_local_argmax_reduction; remove use_local_argmax_reduction",
    ),
    (
        "adaptive verification on a CPU", server("eagle3", 3, "d/raft", speculative={"enable_adaptive_verification": True}), CPU,
        "adaptive verification needs CUDA graphs, and a CPU has none; remove enable_adaptive_verification",
    ),
    *(
        (
            f"{flag} by hand", server("ngram", 4, args={flag: value}), MACHINE,
            f"the flag {flag.partition('=')[0]} is written by specroute; remove it and set {owner}",
        )
        for flag, value, owner in (
            ("max_model_len", 4096, "max_model_len"), ("--max_model_len", 4096, "max_model_len"), ("max-model", 4096, "max_model_len"),
            ("-tp", 2, "launch.tensor_parallel"), ("tp", 2, "launch.tensor_parallel"),
            ("speculative_config.method", "mtp", "method, draft_tokens, draft and launch.speculative"),
            ('speculative_config={"method": "mtp"}', True, "method, draft_tokens, draft and launch.speculative"),
            ("-sc.method", "mtp", "method, draft_tokens, draft and launch.speculative"),
            ("served_model_name", "x", "served_model"), ("device_ids", "0,1", "launch.gpus"), ("spec_tokens", 4, "draft_tokens"),
        )
    ),
    (
        "a short flag", server("ngram", 4, args={"-pp": 2}), MACHINE,
        "the flag -pp begins with dashes; write pipeline-parallel-size",
    ),
    (
        "a short flag without its dash", server("ngram", 4, args={"dp": 2}), MACHINE,
        "the flag dp is the short form of another; write data-parallel-size",
    ),
    (
        "a flag with its value", server("ngram", 4, args={"max-num-seqs=4": True}), MACHINE,
        "the flag max-num-seqs holds its value; write 'max-num-seqs' as key and the rest as value",
    ),
    (
        "no flag at all", server("ngram", 4, args={"a b\n": 1}), MACHINE,
        "'a b\\n' cannot be a flag; write the name of a flag of vllm serve",
    ),
    (
        "one flag in two spellings", server("ngram", 4, args={"max-num-seqs": 4, "max_num_seqs": 8}), MACHINE,
        "the flags max-num-seqs and max_num_seqs are one; keep one of them",
    ),
    (
        "the beginning of a flag", server("ngram", 4, args={"max-num-batched": 4096}), MACHINE,
        "warning: vLLM reads the flag max-num-batched as max-num-batched-tokens; write max-num-batched-tokens",
    ),
    (
        "a flag that may be misspelt", server("ngram", 4, args={"max-num-seq": 4}), replace(MACHINE, engine=None),
        "warning: vLLM reads the flag max-num-seq as max-num-seqs; write max-num-seqs",
    ),
    (
        "a flag that is misspelt", server("ngram", 4, args={"max-nun-seqs": 4}), MACHINE,
        "warning: vLLM 0.32.0 has no flag max-nun-seqs; did you mean 'max-num-seqs'?",
    ),
    (
        "a flag of another vLLM", server("ngram", 4, args={"zzz": 4}), MACHINE,
        "warning: vLLM 0.32.0 has no flag zzz; see vllm serve --help=all for those that there are",
    ),
    (
        "a flag that the vLLM beside lacks", server("ngram", 4, args={"max-nun-seqs": 4}), ASKED,
        "vLLM 0.33.0 has no flag max-nun-seqs; did you mean 'max-num-seqs'?",
    ),
    (
        "a flag without its value", server("ngram", 4, args={"max-num-seqs": True}), ASKED,
        "the flag max-num-seqs has no value; write 'max-num-seqs: VALUE', or remove it",
    ),
    (
        "a switch with a value", server("ngram", 4, args={"enforce-eager": "yes"}), ASKED,
        "the flag enforce-eager takes no value, and 'yes' is given; write true or false",
    ),
    (
        "a switch with a value, as far as is known", server("ngram", 4, args={"no-enable-prefix-caching": "yes"}), MACHINE,
        "warning: the flag no-enable-prefix-caching takes no value, and 'yes' is given; write true or false",
    ),
    (
        "a server without HTTP", server("ngram", 4, args={"headless": True}), MACHINE,
        "with the flag headless it has no HTTP server; remove it",
    ),
    (
        "stages that are no number", server("ngram", 4, args={"pipeline-parallel-size": "two"}), MACHINE,
        "pipeline-parallel-size is 'two'; write a whole number from 1 on",
    ),
    (
        "several machines", server("ngram", 4, args={"nnodes": 2}), MACHINE,
        ("it is spread over 2 machines, and only what runs on one is started; "
        "remove nnodes, or start it by other means"),
    ),
    (
        "https without a certificate", server("none", scheme="https"), MACHINE,
        ("its url says https, and it is started without a certificate; "
        "set args ssl-certfile and ssl-keyfile, or write http"),
    ),
    (
        "a certificate without https", server("none", args={"ssl-certfile": "c", "ssl_keyfile": "k"}), Machine("rocm"),
        "its url says http, and it is started with a certificate; write https in its url",
    ),
    (
        "a certificate that holds its key without https", server("none", args={"ssl-certfile": str(CERTIFICATE)}), MACHINE,
        "its url says http, and it is started with a certificate; write https in its url",
    ),
    (
        "a key of no certificate", server("none", args={"ssl-keyfile": "k"}), MACHINE,
        "it has ssl-keyfile and no ssl-certfile; set both, or neither",
    ),
    (
        "a certificate that is not there", server("none", scheme="https", args={"ssl-certfile": "/c", "ssl-keyfile": "/k"}), MACHINE,
        "its certificate cannot be used: /c and /k: No such file or directory; name the files of one",
    ),
    (
        "a certificate that is none", server("none", scheme="https", args={"ssl-certfile": __file__}), MACHINE,
        f"its certificate cannot be used: {__file__}: they are no certificate and its key; name the files of one",
    ),
    (
        "a certificate of another key",
        server("none", scheme="https", args={"ssl-certfile": str(CERTIFICATE), "ssl-keyfile": str(SIGNED)}), MACHINE,
        (f"its certificate cannot be used: {CERTIFICATE} and {SIGNED}: they are no certificate and its key; "
        "name the files of one"),
    ),
    (
        "certificates of whoever calls", server("none", scheme="https", args={"ssl-certfile": str(CERTIFICATE), "ssl-cert-reqs": 2}), MACHINE,
        "it asks whoever calls for a certificate, and the gateway has none to show; remove ssl-cert-reqs",
    ),
    (
        "a key that the gateway lacks", server("none", env={"VLLM_API_KEY": "k"}), MACHINE,
        ("it asks for a key, and the gateway has none to show; "
        "name the variable that holds the key in api_key_env"),
    ),
    (
        "a key that it would inherit", server("none"), replace(MACHINE, env={"VLLM_API_KEY": "k"}),
        ("it asks for a key, and the gateway has none to show; "
        "name the variable that holds the key in api_key_env, or unset VLLM_API_KEY here"),
    ),
    (
        "a key that is not set", server("none", api_key_env="KEY"), MACHINE,
        "the variable KEY, which holds its key, is not set; set it before the start",
    ),
    (
        "a key in place of its variable", server("none", api_key_env="sk-hidden"), MACHINE,
        ("what api_key_env names cannot be an environment variable; "
        "name the variable that holds the key in api_key_env, not the key itself"),
    ),
    (
        "a key with the end of its line", server("none", api_key_env="KEY"), replace(MACHINE, env={"KEY": "hidden\n"}),
        "the key in KEY has a line break or another character that cannot be sent; set it to the bare key",
    ),
    (
        "two keys", server("none", api_key_env="KEY", env={"VLLM_API_KEY": "another"}), replace(MACHINE, env={"KEY": "hidden"}),
        ("the key in KEY is not the one that it is started with; "
        "set KEY to that, or remove the other from 'launch'"),
    ),
    (
        "a key for all to read", server("none", api_key_env="KEY", args={"api-key": "hidden"}), replace(MACHINE, env={"KEY": "hidden"}),
        ("warning: its key stands on its command line, where all on its machine can read it; "
        "remove api-key: it is started with the key that api_key_env names"),
    ),
    (
        "more memory than there is", server("none", args={"gpu-memory-utilization": 1.5}), MACHINE,
        "gpu-memory-utilization is 1.5; write a number above 0, 1 at most",
    ),
    (
        "no memory", server("none", args={"gpu_memory_utilization": "0"}), MACHINE,
        "gpu-memory-utilization is '0'; write a number above 0, 1 at most",
    ),
    (
        "room for nobody", server("none", args={"max-num-seqs": 0}), MACHINE,
        "max-num-seqs is 0; write a whole number from 1 on",
    ),
    (
        "a batch of words", server("none", args={"max-num-batched-tokens": "many"}), MACHINE,
        "max-num-batched-tokens is 'many'; write a whole number from 1 on",
    ),
    (
        "a value cut short", server("none", args={"compilation-config": '{"cudagraph_mode":'}), MACHINE,
        "the value of compilation-config begins like JSON and is none; write it as one JSON object",
    ),
    (
        "tools without who reads them", server("none", args={"enable-auto-tool-choice": True}), MACHINE,
        "vLLM refuses enable-auto-tool-choice without tool-call-parser; name the parser of the model's family",
    ),
    (
        "a draft that is its target", server("eagle3", 3, "t/arget"), MACHINE,
        "the draft is the target itself; name a draft that was trained for it",
    ),
    (
        "a variable that is none", server("none", env={"A-B": "1"}), MACHINE,
        "'A-B' cannot be the name of an environment variable; use letters, digits and '_', no digit first",
    ),
    (
        "GPUs by AMD's other variable", server("none", env={"ROCR_VISIBLE_DEVICES": "0"}), MACHINE,
        "ROCR_VISIBLE_DEVICES is set by specroute; remove it from env and set launch.gpus",
    ),
    (
        "DSpark on the old runner", server("dspark", 7, "d/raft", block_size=7, env={"VLLM_USE_V2_MODEL_RUNNER": "0"}), MACHINE,
        ("dspark runs on vLLM's model runner 2 alone, and VLLM_USE_V2_MODEL_RUNNER is 0; "
        "remove VLLM_USE_V2_MODEL_RUNNER"),
    ),
    (
        "suffix on the new runner", server("suffix", 8, env={"VLLM_USE_V2_MODEL_RUNNER": "1"}), MACHINE,
        ("suffix runs on vLLM's model runner 1 alone, and VLLM_USE_V2_MODEL_RUNNER is 1; "
        "remove VLLM_USE_V2_MODEL_RUNNER"),
    ),
    (
        "a model that looks like a flag", server("none", target="--help"), MACHINE,
        ("the model --help begins with a dash, so vLLM takes it for a flag; "
        "name an id, or write ./ before a folder"),
    ),
    (
        "a zero byte", server("none", env={"A": "\0"}), MACHINE,
        "env A holds a zero byte, which no process can be given; remove it",
    ),
    (
        "a folder with a zero byte", server("none", target="./a\0"), MACHINE,
        ("model holds a zero byte, which no process can be given; remove it\n"
        "the target cannot be read: there is no folder ./a\\x00; name a folder with a checkpoint, or an id"),
    ),
    (
        "a folder of nobody", server("none", target="~nobody-of-that-name/m"), MACHINE,
        ("the target cannot be read: ~nobody-of-that-name/m: Could not determine home directory.; "
        "name a folder with a checkpoint, or an id"),
    ),
    (
        "stages count", server("none", tensor_parallel=2, gpus=(1, 2), args={"pipeline-parallel-size": 2}), MACHINE,
        "it is spread over 4 GPUs and is given 2; name 4 in launch.gpus",
    ),
    (
        "replicas count", server("none", args={"data-parallel-size": "8"}), MACHINE,
        "the fleet needs 9 GPUs and 8 are free; start fewer methods, or spread each over fewer GPUs",
    ),
    (
        "more GPUs than anybody has", server("none", tensor_parallel=10**9), MACHINE,
        ("it is spread over 1000000000 GPUs, more than any machine has; "
        "lower launch.tensor_parallel, or how it is spread in launch.args"),
    ),
    (
        "one GPU twice", server("none", tensor_parallel=2, gpus=(1, 1)), MACHINE,
        "GPU 1 is given to it 2 times; name it once",
    ),
    (
        "the administrator's port", server("none", port=80), MACHINE,
        "warning: port 80 is one that only the administrator may listen on; choose one from 1024 on",
    ),
    *(
        (
            f"{host} beside 127.0.0.1", server("none", host=host, port=8000), MACHINE,
            "port 8000 is also that of base; give each its own port",
        )
        for host in ("localhost", "0.0.0.0", "::1", "::", "127.1")
    ),
    (
        "an IPv6 address elsewhere", server("none", host="2001:db8::5", port=9000), MACHINE,
        ("its address http://[2001:db8::5]:9000 is not on this machine; "
        "start it there, and write 127.0.0.1 for what is started here"),
    ),
    (
        "a value that would write on the terminal", server("none", target="./\x1b[31m\u202ex\ny"), MACHINE,
        (r"the target cannot be read: there is no folder ./\x1b[31m\u202ex\ny; name a folder with a checkpoint, or an id"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "machine", "message"), [one[1:] for one in BAD], ids=[one[0] for one in BAD]
)
def test_a_bad_spec_is_told_what_is_wrong_and_what_would_be_right(
    spec: LaunchSpec, machine: Machine, message: str
) -> None:
    assert "\n".join(found(spec, machine)) == message


# What only both checkpoints together tell: changes of the target, of the draft, and the message.
PAIRS: list[tuple[str, str, int, dict[str, Any], dict[str, Any] | None, str]] = [
    (
        "MTP without MTP layers", "mtp", 1, {"num_nextn_predict_layers": 0}, None,
        "{target} has no layers of multi-token prediction; use a method with a draft of its own, or ngram",
    ),
    (
        "N no multiple of the layers", "mtp", 5, {}, None,
        "5 draft tokens are no multiple of the target's 2 prediction layers; set draft_tokens to 4 or 6",
    ),
    (
        "another vocabulary", "draft-model", 3, {}, {**DRAFT, "vocab_size": 2112},
        ("the draft's vocabulary has 2112 tokens and the target's 2048; "
        "name a draft of the same family, or set use_heterogeneous_vocab"),
    ),
    (
        "another vocabulary of a head", "eagle3", 3, {}, {**EAGLE3, "vocab_size": 4096},
        "the draft's vocabulary has 4096 tokens and the target's 2048; name a draft of the same family",
    ),
    (
        "a draft of another method", "dflash", 7, {}, EAGLE3,
        ("the draft {draft} is a LlamaForCausalLMEagle3, which is none for dflash; "
        "name one whose architecture is *DFlash*"),
    ),
    (
        "a plain model as EAGLE-3", "eagle3", 3, {}, {**DRAFT, "hidden_size": 128, "num_hidden_layers": 28},
        ("the draft {draft} is a Qwen3ForCausalLM of 28 layers, a whole model and no draft of eagle3; "
        "name one that was trained as its draft"),
    ),
    (
        "another model as EAGLE-3", "eagle3", 3, {}, {**EAGLE3, "architectures": ["GPT2LMHeadModel"]},
        "the draft {draft} is a GPT2LMHeadModel, which is none for eagle3; name one whose architecture is *Eagle3*",
    ),
    (
        "EAGLE-3 as EAGLE", "eagle", 3, {}, EAGLE3,
        ("the draft {draft} is a LlamaForCausalLMEagle3, which is none for eagle; "
        "name one whose architecture is Eagle[!3]* or Eagle"),
    ),
    (
        "an EAGLE-3 layer one level down", "eagle3", 3, {}, {**EAGLE3, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 9]}},
        "the draft reads layer 9 of a target that has 4; name the draft that was trained for this target",
    ),
    (
        "fewer tokens than heads by their first name", "medusa", 2, {}, {"architectures": ["MedusaModel"], "medusa_num_heads": 3},
        "the draft has 3 heads, one a token, and 2 tokens are asked for; set draft_tokens to 3",
    ),
    (
        "Gemma's MTP beside another target", "gemma4-mtp", 4, {}, {"architectures": ["Gemma4AssistantForCausalLM"]},
        ("the target {target} is a Qwen3ForCausalLM, which is none for gemma4-mtp; "
        "name one whose architecture is *Gemma4*"),
    ),
    (
        "hidden states of another width", "eagle3", 3, {}, {**EAGLE3, "hidden_size": 256},
        ("the draft reads hidden states of 256 numbers and the target's have 128; "
        "name the draft that was trained for this target"),
    ),
    (
        "made for a target of another width", "dflash", 7, {}, {**DFLASH, "target_hidden_size": 512},
        ("the draft reads hidden states of 512 numbers and the target's have 128; "
        "name the draft that was trained for this target"),
    ),
    (
        "a layer that the target lacks", "dflash", 7, {"num_hidden_layers": 3}, DFLASH,
        "the draft reads layer 3 of a target that has 3; name the draft that was trained for this target",
    ),
    (
        "an EAGLE-3 layer that the target lacks", "eagle3", 3, {}, {**EAGLE3, "eagle_aux_hidden_state_layer_ids": [1, 2, 5]},
        "the draft reads layer 5 of a target that has 4; name the draft that was trained for this target",
    ),
    (
        "N of the whole block, by its config", "dflash", 8, {}, DFLASH,
        "8 draft tokens do not fit a block of 8, of which one is the anchor; set draft_tokens to 7 at most",
    ),
    (
        "N past the block, by its config", "dspark", 8, {}, DSPARK,
        "8 draft tokens are past the block of 7 that the draft was trained with; set draft_tokens to 7 at most",
    ),
    (
        "part of Qwen3-Omni's block", "dspark", 4, {"architectures": ["Qwen3OmniMoeForConditionalGeneration"]}, DSPARK,
        "a DSpark draft of Qwen3-Omni drafts its whole block, and 4 tokens are asked for; set draft_tokens to 7",
    ),
    (
        "more tokens than heads", "medusa", 5, {}, MEDUSA,
        "the draft has 3 heads, one a token, and 5 tokens are asked for; set draft_tokens to 3",
    ),
    (
        "a context longer than the target's", "none", 0, {"max_position_embeddings": 1024}, None,
        "max_model_len 2000 is above the target's 1024; set max_model_len to 1024 at most",
    ),
    (
        "a context longer than the draft's", "draft-model", 3, {}, {**DRAFT, "max_position_embeddings": 512},
        ("warning: max_model_len 2000 is above the 512 tokens the draft was made for; "
        "expect lower acceptance in longer ones, or lower max_model_len"),
    ),
    (
        "heads that cannot be spread", "none", 0, {"num_attention_heads": 5}, None,
        "5 attention heads cannot be spread over 2 GPUs; set launch.tensor_parallel to one of 1, 5",
    ),
    (
        "heads of keys and values that cannot be spread", "none", 0, {"num_attention_heads": 6, "num_key_value_heads": 3}, None,
        "3 heads of keys and values cannot be spread over 2 GPUs; set launch.tensor_parallel to one of 1, 3, 6",
    ),
    (
        "a draft's heads that cannot be spread", "eagle3", 3, {}, {**EAGLE3, "num_attention_heads": 7},
        "7 attention heads of the draft cannot be spread over 2 GPUs; set draft_tensor_parallel_size to 1",
    ),
    (
        "a draft's heads of keys and values that cannot be spread", "draft-model", 3, {}, {**DRAFT, "num_attention_heads": 6, "num_key_value_heads": 3},
        "3 heads of keys and values of the draft cannot be spread over 2 GPUs; set draft_tensor_parallel_size to 1",
    ),
    (
        "a published block and another one in its config", "dspark", 8, {}, DSPARK,
        "8 draft tokens are past the block of 7 that the draft was trained with; set draft_tokens to 7 at most",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "draft_tokens", "target", "draft", "message"),
    [one[1:] for one in PAIRS],
    ids=[one[0] for one in PAIRS],
)
def test_checkpoints_that_do_not_fit_are_told_apart(
    tmp_path: Path,
    method: str,
    draft_tokens: int,
    target: dict[str, Any],
    draft: dict[str, Any] | None,
    message: str,
) -> None:
    names = {"target": checkpoint(tmp_path / "target", TARGET | target)}
    names["draft"] = checkpoint(tmp_path / "draft", draft) if draft else ""
    spec = server(
        method,
        draft_tokens,
        names["draft"] or None,
        target=names["target"],
        max_model_len=2000,
        tensor_parallel=2,
    )
    baseline = replace(BASE, target=names["target"])
    assert found(spec, MACHINE, baseline) == [message.format(**names)]


def test_a_block_that_the_config_contradicts(tmp_path: Path) -> None:
    draft = checkpoint(tmp_path / "draft", DFLASH)
    assert found(server("dflash", 9, draft, block_size=16)) == [
        f"launch.block_size is 16, and the block of {draft} has 8; remove launch.block_size",
        "9 draft tokens do not fit a block of 8, of which one is the anchor; set draft_tokens to 7 at most",
    ]


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert len({message for *_, message in BAD} | {message for *_, message in PAIRS}) >= 150


@pytest.mark.parametrize(
    ("method", "draft"),
    [
        ("eagle3", {**EAGLE3, "architectures": ["LlamaForCausalLM"], "draft_vocab_size": 512}),
        ("eagle3", {**EAGLE3, "architectures": ["Eagle3DeepseekV2ForCausalLM"]}),
        ("eagle3", {**EAGLE3, "architectures": ["PEagleDraftModel"], "speculators_model_type": "peagle"}),
        ("eagle", {**EAGLE3, "architectures": ["LlamaForCausalLM"]}),
        ("eagle", {**EAGLE3, "architectures": ["MistralForCausalLM"]}),
        ("eagle", {**EAGLE3, "architectures": ["EagleDeepSeekMTPModel"]}),
        ("eagle", {**EAGLE3, "architectures": ["SomeDraft"], "speculators_model_type": "eagle"}),
        ("dflash", {**DFLASH, "architectures": ["LagunaForCausalLM"]}),
        ("dflash", {**DFLASH, "architectures": ["LiLiCorrDraftModel"]}),
    ],
)
def test_drafts_pass_under_every_name_by_which_vllm_takes_them(
    tmp_path: Path, method: str, draft: dict[str, Any]
) -> None:
    target = checkpoint(tmp_path / "target", TARGET)
    spec = server(method, 3, checkpoint(tmp_path / "draft", draft), target=target)
    assert found(spec, MACHINE, replace(BASE, target=target)) == []


def test_a_draft_on_one_gpu_need_not_be_spread(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", TARGET)
    draft = checkpoint(tmp_path / "draft", {**EAGLE3, "num_attention_heads": 7})
    one = {"draft_tensor_parallel_size": 1}
    spec = server("eagle3", 3, draft, target=target, tensor_parallel=2, speculative=one)
    assert found(spec, MACHINE, replace(BASE, target=target)) == []


def test_latent_attention_is_not_spread_by_heads_of_keys_and_values(tmp_path: Path) -> None:
    target = checkpoint(
        tmp_path / "target",
        {**TARGET, "num_attention_heads": 8, "num_key_value_heads": 3, "kv_lora_rank": 512},
    )
    assert found(server("none", target=target, tensor_parallel=4)) == []


def test_more_stages_than_layers(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", TARGET)
    spec = server("none", target=target, args={"pipeline_parallel_size": 5})
    assert found(spec) == ["4 layers cannot be cut into 5 stages; set pipeline-parallel-size to 4 at most"]


@pytest.mark.parametrize(
    ("version", "warned"),
    [
        ("0.23.1rc1.dev12+g123", True),
        ("0.31.0rc1", False),
        ("0.32.1.dev3+g9", False),
        ("0.32.0+rocm720", False),
    ],
)
def test_a_development_build_that_lists_a_method_has_it(version: str, warned: bool) -> None:
    build = replace(MACHINE, engine=replace(ENGINE, version=version, methods=KNOWN | {"gemma4_mtp"}))
    acceptance = (
        f"warning: vLLM {version} does not tell the acceptance of each request; use vLLM 0.29.0 or newer"
    )
    for spec in (
        server("dspark", 7, "d/raft"),
        server("gemma4-mtp", 4, "d/raft"),
        server("mtp", 2),
        server("suffix", 8),
    ):
        assert found(spec, build) == ([acceptance] if warned else [])


def test_the_flags_of_the_vllm_beside_say_whether_it_tells_acceptance() -> None:
    build = replace(ASKED, engine=replace(ENGINE, version="0.28.1rc1.dev12+g123", flags=listed()))
    assert found(server("ngram", 4), build) == []


@pytest.mark.parametrize(
    "args",
    [
        {"attention_backend": "TRITON_ATTN"}, {"--attention_backend".lstrip("-"): "triton_attn"},
        {"attention-config.backend": "TRITON_ATTN"}, {"attention_config": '{"backend": "triton_attn"}'},
    ],
)  # fmt: skip
def test_an_attention_backend_is_seen_however_it_is_written(args: dict[str, Any]) -> None:
    spec = server(
        "dflash",
        7,
        "d/raft",
        target="google/gemma-4-31B-it",
        block_size=16,
        args=args,
        speculative={"attention-backend": "TRITON_ATTN"},
    )
    assert found(spec, MACHINE, replace(BASE, target=spec.target)) == []


@pytest.mark.parametrize("config", ["[1]", "{", "3", "", "[" * 100_000])
def test_json_that_is_none_sets_nothing(config: str) -> None:
    assert (
        server("none", args={"attention-config": config}).setting(
            "attention-backend", "attention-config", "backend"
        )
        is None
    )


def test_deepseek_ships_its_dspark_with_the_target() -> None:
    assert found(server("dspark", 5, target="deepseek-ai/DeepSeek-V4.1-Flash", block_size=5)) == []


def test_layers_of_a_target_may_be_published_apart() -> None:
    assert found(server("mtp", 2, "acme/MiniMax-M3-MTP")) == []


# What cannot be looked at is said, with the reason.
UNREAD = "{} has no config.json on this machine, so its {}; download it, or check where it lies"
TARGET_UNREAD = "the target " + UNREAD.format("{}", "layers, heads and context are not known")
DRAFT_UNREAD = "the draft " + UNREAD.format("{}", "fit to the target is not known")


def unchecked(spec: LaunchSpec, machine: Machine = MACHINE) -> list[str]:
    return [
        str(one).removeprefix(f"{spec.name}: not checked: ")
        for one in preflight([spec], machine)
        if one.unchecked
    ]


def test_checkpoints_that_are_elsewhere_are_named() -> None:
    assert unchecked(server("eagle3", 3, "d/raft")) == [
        TARGET_UNREAD.format("t/arget"),
        DRAFT_UNREAD.format("d/raft"),
    ]
    assert unchecked(server("dflash", 7, "d/raft"))[2:] == [
        "the block of the draft is not known, so 7 draft tokens may not fit it; write it in launch.block_size"
    ]
    assert unchecked(server("dflash", 7, "z-lab/Qwen3-8B-DFlash-b16")) == [
        TARGET_UNREAD.format("t/arget"), DRAFT_UNREAD.format("z-lab/Qwen3-8B-DFlash-b16"),
    ]  # fmt: skip


def test_a_checkpoint_is_named_once_for_all_its_servers() -> None:
    findings = preflight([BASE, server("ngram", 4), server("suffix", 8, port=8001)], MACHINE)
    assert [one.server for one in findings if one.unchecked] == ["base"]


def test_what_a_volume_elsewhere_holds_is_not_checked(tmp_path: Path) -> None:
    elsewhere = replace(MACHINE, volumes=(f"{tmp_path}/",))
    spec = server("none", target=f"{tmp_path}/target")
    (finding,) = preflight([spec], elsewhere)
    assert finding.unchecked
    assert str(finding).startswith(
        f"s: not checked: the target {tmp_path}/target has no config.json on this machine"
    )
    checkpoint(tmp_path / "target", {**TARGET, "num_attention_heads": "6"})
    assert "num_attention_heads is '6'" in "".join(map(str, preflight([spec], elsewhere)))


def test_a_secret_in_a_flag_is_not_said_again() -> None:
    spec = server(
        "none",
        args={"--api-key=hidden": True, "api_key": "hidden", "hf-token=hidden": True},
        api_key_env="KEY",
    )
    assert found(spec)
    assert not [one for one in found(spec) if "hidden" in one]


def test_flags_of_another_file_are_not_looked_at() -> None:
    spec = server("none", args={"config": "more.yaml"})
    assert unchecked(spec)[0] == "the flags in more.yaml were not looked at; write them in launch.args"
    assert found(spec) == []


def test_a_tool_that_tells_nothing_is_named() -> None:
    blind = replace(
        MACHINE, gpus=None, trouble="rocm-smi does not tell which GPUs there are: it answered nothing"
    )
    assert unchecked(server("ngram", 4), blind)[-1] == (
        "rocm-smi does not tell which GPUs there are: it answered nothing; "
        "see to it that the tool runs, to have GPUs checked"
    )


def test_a_part_of_a_gpu_that_tells_nothing_is_named() -> None:
    parts = (GPUS[0], *(replace(one, memory=0, used=0) for one in GPUS[1:4]))
    assert unchecked(server("ngram", 4), replace(MACHINE, gpus=parts))[-1] == (
        "no memory is told of GPU 1, 2, 3, so whether somebody uses it is not known; "
        "see that it is free; of a partitioned GPU only the first part tells"
    )


@pytest.mark.parametrize("name", ["s3://bucket/model", "gs://bucket/a/b", "{}/model.gguf"])
def test_what_vllm_reads_otherwise_is_not_checked(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.gguf").touch()
    name = name.format(tmp_path)
    assert unchecked(server("none", target=name)) == [TARGET_UNREAD.format(name)]
    assert found(server("none", target=name)) == []


def test_a_relative_folder_of_two_parts_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    checkpoint(tmp_path / "models" / "target", {**TARGET, "num_attention_heads": 5})
    assert found(server("none", target="models/target", tensor_parallel=2)) == [
        "5 attention heads cannot be spread over 2 GPUs; set launch.tensor_parallel to one of 1, 5"
    ]


def test_a_server_looks_up_ids_where_its_environment_says(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "models--t--arget"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc", encoding="utf-8")
    (folder / "snapshots").mkdir()
    checkpoint(folder / "snapshots" / "abc", TARGET)
    assert unchecked(server("none", env={"HF_HOME": str(tmp_path)})) == []


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"vocab_size": "2048"}, "vocab_size is '2048'"),
        (
            {"num_attention_heads": "6", "architectures": "Qwen3"},
            "num_attention_heads is '6', architectures is 'Qwen3'",
        ),
        ({"num_attention_heads": -6}, "num_attention_heads is -6"),
        ({"architectures": 5}, "architectures is 5"),
        ({"hidden_size": [1] * 100}, "hidden_size is [1, 1, 1, 1, 1, 1, 1, 1, 1, 1,…"),
    ],
)
def test_an_odd_config_is_named(tmp_path: Path, change: dict[str, Any], wrong: str) -> None:
    target = checkpoint(tmp_path / "target", {**TARGET, **change})
    assert unchecked(server("none", target=target)) == [
        (
            f"in the config.json of the target {target} {wrong}; "
            "write numbers as numbers and names in a list, to have them compared"
        )
    ]


@pytest.mark.parametrize(
    ("rope", "positions"),
    [
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, 16_384),
        ({"rope_type": "linear", "factor": 2}, 8192), ({"factor": "2"}, 4096), ({"factor": 0.5}, 4096), ("yarn", 4096), (None, 4096),
        ({"factor": float("inf")}, 4096 << 24),
    ],
)  # fmt: skip
def test_a_stretched_context_is_the_one_that_counts(tmp_path: Path, rope: Any, positions: int) -> None:
    target = checkpoint(tmp_path / "target", {**TARGET, "rope_scaling": rope})
    assert found(server("none", target=target, max_model_len=positions)) == []
    assert found(server("none", target=target, max_model_len=positions + 1)) == [
        f"max_model_len {positions + 1} is above the target's {positions}; set max_model_len to {positions} at most"
    ]
    allowed = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
    assert found(server("none", target=target, max_model_len=positions + 1, env=allowed)) == []


def test_huge_numbers_in_a_config_are_looked_at_in_no_time(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", {**TARGET, "num_attention_heads": 10**30 + 1})
    assert found(server("none", target=target, tensor_parallel=2)) == [
        f"{10**30 + 1} attention heads cannot be spread over 2 GPUs; set launch.tensor_parallel to one of 1, 61"
    ]


def test_a_machine_without_gpus_has_none_for_anybody() -> None:
    assert checked([BASE], replace(MACHINE, gpus=())) == [
        "base: the fleet needs 1 GPUs and 0 are free; start fewer methods, or spread each over fewer GPUs"
    ]


@pytest.mark.parametrize(
    ("method", "draft_tokens", "draft"),
    [
        ("mtp", 1, None), ("mtp", 2, None), ("mtp", 6, None), ("draft-model", 3, DRAFT), ("eagle3", 5, EAGLE3),
        ("dflash", 7, DFLASH), ("dspark", 7, DSPARK), ("dspark", 3, DSPARK), ("medusa", 3, MEDUSA),
        ("ngram", 4, None), ("suffix", 8, None), ("none", 0, None),
    ],
)  # fmt: skip
def test_what_fits_is_left_alone(
    tmp_path: Path, method: str, draft_tokens: int, draft: dict[str, Any] | None
) -> None:
    target = checkpoint(tmp_path / "target", TARGET)
    name = checkpoint(tmp_path / "draft", draft) if draft else None
    spec = server(method, draft_tokens, name, target=target, tensor_parallel=2, max_model_len=2000)
    assert found(spec, MACHINE, replace(BASE, target=target)) == []


def test_other_vocabularies_are_allowed_where_asked_for(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", TARGET)
    draft = checkpoint(tmp_path / "draft", {**DRAFT, "vocab_size": 99})
    spec = server("draft-model", 3, draft, target=target, speculative={"use_heterogeneous_vocab": True})
    assert found(spec, MACHINE, replace(BASE, target=target)) == []


def test_gemma_is_known_by_its_architecture_whatever_it_is_called(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "mine", TARGET | {"architectures": ["Gemma4ForConditionalGeneration"]})
    said = found(server("dflash", 7, "d/raft", target=target))
    assert any(f"dflash on {target} needs the attention backend triton_attn on rocm" in one for one in said)


def test_dflash_for_gemma_runs_elsewhere_as_it_is() -> None:
    spec = server("dflash", 7, "d/raft", target="google/gemma-4-31B-it")
    assert found(spec, CUDA, replace(BASE, target=spec.target)) == []


SAMPLED = (
    "warning: vLLM 0.32.0 for CPU verifies drafts of requests with a temperature above 0 with settings that were "
    "never written, so that sampled answers are of another distribution; send greedy requests, or use another build"
)
TILES = (
    "base: warning: vLLM 0.32.0 for CPU ends with an illegal instruction at its first request where the processor "
    "has AMX tiles, as it does not ask Linux for them; "
    "let a plugin of vLLM call torch.cpu._init_amx(), or use another build"
)


@pytest.mark.parametrize("version", ["0.32.0", "0.32.0+cpu"])
def test_faults_of_the_build_are_told_once(version: str) -> None:
    here = replace(
        CPU, engine=replace(ENGINE, platform="cpu", version=version), features=frozenset({"amx_tile"})
    )
    fleet = [BASE, server("ngram", 4), replace(server("suffix", 8), name="other", port=8001)]
    assert checked(fleet, here) == [TILES, f"s: {SAMPLED}"]
    assert checked(fleet, replace(here, features=frozenset({"avx512f"}))) == [f"s: {SAMPLED}"]
    assert checked([BASE], replace(here, features=frozenset())) == []
    assert checked(fleet, replace(MACHINE, features=here.features)) == []
    assert checked(fleet, replace(CPU, features=here.features)) == []


def test_a_good_schedule_and_adaptive_verification_pass() -> None:
    dynamic = {"num_speculative_tokens_per_batch_size": [[1, 64, 3], [65, 512, 0]]}
    assert found(server("eagle3", 3, "d/raft", speculative=dynamic)) == []
    assert found(server("dspark", 7, "d/raft", speculative={"enable_adaptive_verification": True})) == []


def test_two_ways_to_set_the_length_do_not_go_together() -> None:
    both = {"enable_adaptive_verification": True, "num_speculative_tokens_per_batch_size": [[1, 64, 3]]}
    assert found(server("dspark", 7, "d/raft", speculative=both)) == [
        "warning: vLLM is not tested with a schedule for dspark; watch its acceptance, or remove the schedule",
        "adaptive verification and a schedule by batch size both set the draft length; keep one of them",
    ]


def test_servers_do_not_share_names_ports_and_gpus() -> None:
    first = replace(BASE, name="one", gpus=(3,))
    second = replace(BASE, name="two", gpus=(3,))
    twins = checked([first, second, replace(first, port=8002, gpus=(4,))], MACHINE)
    assert twins == [
        "two: port 8000 is also that of one; give each its own port",
        "two: GPU 3 is also given to one; give each server its own GPUs",
        "one: two servers have this name; give each its own name",
    ]


def test_a_fleet_without_a_baseline_is_warned_of() -> None:
    assert checked([server("ngram", 4)], MACHINE) == [
        (
            "s: warning: no server runs t/arget without speculation, so nothing tells what speculation gains; "
            "add one with method none"
        )
    ]


@pytest.mark.parametrize("machine", [Machine("rocm"), Machine("rocm", ENGINE)], ids=["anywhere", "with vLLM"])
@pytest.mark.parametrize("name", list(recipes()))
def test_every_recipe_passes(name: str, machine: Machine) -> None:
    recipe = recipes()[name]
    assert checked(list(from_recipe(recipe, recipe.methods)), machine) == []


def test_a_recipe_passes_on_its_own_hardware() -> None:
    recipe = recipes()["qwen3.6-35b-a3b"]
    assert checked(list(from_recipe(recipe, ["none", "mtp", "dflash"])), MACHINE) == []


def test_a_key_and_a_certificate_that_fit_pass() -> None:
    machine = replace(MACHINE, env={"KEY": "hidden", "VLLM_API_KEY": "of somebody else"})
    spec = server("none", scheme="https", api_key_env="KEY", args={"ssl-certfile": str(CERTIFICATE)})
    assert found(spec, machine, replace(BASE, api_key_env="KEY")) == []


def test_what_only_the_machine_of_the_server_has_is_not_looked_for_elsewhere() -> None:
    args: dict[str, Any] = {"ssl-certfile": "/etc/tls/c.pem", "ssl-keyfile": "/etc/tls/k.pem"}
    (key,) = [
        one
        for one in told(server("none", scheme="https", api_key_env="KEY", args=args), Machine("rocm"))
        if "KEY" in one.wrong
    ]
    assert key.unchecked
    assert found(server("none", scheme="https", api_key_env="KEY", args=args), Machine("rocm")) == []


def test_nobody_is_asked_for_the_password_of_a_key() -> None:
    args = {"ssl-certfile": str(CERTIFICATE), "ssl-keyfile": str(CERTIFICATE.with_name("encrypted.pem"))}
    assert found(server("none", scheme="https", args=args)) == [
        (
            "the key of its certificate is encrypted, and nobody is there to type the password; "
            "name a key without a password in ssl-keyfile"
        )
    ]
