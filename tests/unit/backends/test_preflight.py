from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from backends.machine import Engine, Gpu, Machine
from backends.methods import methods
from backends.preflight import preflight
from backends.recipes import recipes
from backends.spec import LaunchSpec, from_recipe

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = frozenset(one.engine for one in methods().values() if one.engine)
ENGINE = Engine("python", "0.32.0", "rocm", KNOWN, frozenset({"arctic_inference"}))
GPUS = tuple(Gpu(index, "AMD Instinct MI300X gfx942", 196_592, 300) for index in range(8))
MACHINE = Machine("rocm", ENGINE, GPUS)
CUDA = Machine("cuda", replace(ENGINE, platform="cuda"))
CPU = Machine("cpu", replace(ENGINE, platform="cpu"))
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
    findings = preflight([spec, *(others or (replace(BASE, target=spec.target),))], machine)
    return [str(one).removeprefix(f"{spec.name}: ") for one in findings if one.server == spec.name]


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
        "draft_tensor_parallel_size, enforce_eager, kv_cache_dtype, max_model_len, moe_backend, "
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
        "the schedule has 2 where batch size 1 is next; begin at 1: from 1 on, without gaps and overlaps",
    ),
    (
        "schedule with a gap",
        server("eagle3", 3, "d/raft", speculative={"num_speculative_tokens_per_batch_size": [[1, 64, 3], [66, 128, 1]]}), MACHINE,
        "the schedule has 66 where batch size 65 is next; begin at 65: from 1 on, without gaps and overlaps",
    ),
    (
        "schedule with an overlap",
        server("eagle3", 3, "d/raft", speculative={"num_speculative_tokens_per_batch_size": [[1, 64, 3], [64, 128, 1]]}), MACHINE,
        "the schedule has 64 where batch size 65 is next; begin at 65: from 1 on, without gaps and overlaps",
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
        "adaptive verification of a method without", server("eagle3", 3, "d/raft", speculative={"enable_adaptive_verification": True}), MACHINE,
        ("eagle3 takes no enable_adaptive_verification in its speculative config; keys: attention_backend, "
        "code_revision, disable_eagle_block_drop, disable_padded_drafter_batch, draft_load_config, "
        "draft_sample_method, draft_tensor_parallel_size, enforce_eager, kv_cache_dtype, max_model_len, moe_backend, "
        "num_speculative_tokens_per_batch_size, parallel_drafting, quantization, rejection_sample_method, "
        "revision, use_local_argmax_reduction"),
    ),
    (
        "adaptive verification before its time",
        server("dspark", 7, "d/raft", speculative={"enable_adaptive_verification": True}, args={"per-request-spec-decode-metrics": "summary"}),
        replace(MACHINE, engine=replace(ENGINE, version="0.27.0")),
        ("adaptive verification needs vLLM 0.28.0, and this is 0.27.0; "
        "use vLLM 0.28.0 or newer, or remove enable_adaptive_verification\n"
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
        "no GPU at all", server("none"), replace(MACHINE, gpus=()),
        "the fleet needs 2 GPUs and 0 are free; start fewer methods, or spread each over fewer GPUs",
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
        "a plain model as EAGLE-3", "eagle3", 3, {}, {**DRAFT, "hidden_size": 128},
        "the draft {draft} is a Qwen3ForCausalLM, which is none for eagle3; name one whose architecture is *Eagle3*",
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


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert len({message for *_, message in BAD} | {message for *_, message in PAIRS}) >= 75


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


def test_dflash_for_gemma_runs_elsewhere_as_it_is() -> None:
    spec = server("dflash", 7, "d/raft", target="google/gemma-4-31B-it")
    assert found(spec, CUDA, replace(BASE, target=spec.target)) == []


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
    twins = [str(one) for one in preflight([first, second, replace(first, port=8002, gpus=(4,))], MACHINE)]
    assert twins == [
        "two: port 8000 is also that of one; give each its own port",
        "two: GPU 3 is also given to one; give each server its own GPUs",
        "one: two servers have this name; give each its own name",
    ]


def test_a_fleet_without_a_baseline_is_warned_of() -> None:
    assert list(map(str, preflight([server("ngram", 4)], MACHINE))) == [
        (
            "s: warning: no server runs t/arget without speculation, so nothing tells what speculation gains; "
            "add one with method none"
        )
    ]


@pytest.mark.parametrize("machine", [Machine("rocm"), Machine("rocm", ENGINE)], ids=["anywhere", "with vLLM"])
@pytest.mark.parametrize("name", list(recipes()))
def test_every_recipe_passes(name: str, machine: Machine) -> None:
    recipe = recipes()[name]
    assert preflight(list(from_recipe(recipe, recipe.methods)), machine) == []


def test_a_recipe_passes_on_its_own_hardware() -> None:
    recipe = recipes()["qwen3.6-35b-a3b"]
    assert preflight(list(from_recipe(recipe, ["none", "mtp", "dflash"])), MACHINE) == []
