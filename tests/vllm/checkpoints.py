"""Write tiny checkpoints that speak :mod:`tests.vllm.chain`: targets and a draft for each method.

Runs in vLLM's environment: python -m tests.vllm.checkpoints FOLDER. Nothing is trained: the output head maps the
last token's embedding to its successor, and the blocks before it add nothing.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tests.vllm import chain

HIDDEN: Final = 128
HEADS: Final = 4
KV_HEADS: Final = 2
HEAD_SIZE: Final = 64
MLP: Final = 256
LAYERS: Final = 3
SLOW_LAYERS: Final = 16
"""Of a target whose steps are long beside what a client takes of two cores."""
CONTEXT: Final = 4096
LOGIT_SCALE: Final = 0.08
"""At temperature 1 the successor keeps a probability of about 0.9."""

# The last user message ends the prompt, so its last token steers the answer.
CHAT_TEMPLATE: Final = "{% for message in messages %}{{ message['content'] }}{% endfor %}"

Tensors = dict[str, torch.Tensor]


def noise(*shape: int) -> torch.Tensor:
    return (torch.randn(*shape) * 0.05).to(torch.bfloat16)


def ones(size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch.bfloat16)


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.bfloat16)


def inert_block(prefix: str, *, inputs: int = HIDDEN) -> Tensors:
    """Make a transformer block that adds nothing to what flows past it."""
    return {
        f"{prefix}.self_attn.q_proj.weight": noise(HEADS * HEAD_SIZE, inputs),
        f"{prefix}.self_attn.k_proj.weight": noise(KV_HEADS * HEAD_SIZE, inputs),
        f"{prefix}.self_attn.v_proj.weight": noise(KV_HEADS * HEAD_SIZE, inputs),
        f"{prefix}.self_attn.o_proj.weight": zeros(HIDDEN, HEADS * HEAD_SIZE),
        f"{prefix}.mlp.gate_proj.weight": noise(MLP, HIDDEN),
        f"{prefix}.mlp.up_proj.weight": noise(MLP, HIDDEN),
        f"{prefix}.mlp.down_proj.weight": zeros(HIDDEN, MLP),
        f"{prefix}.input_layernorm.weight": ones(HIDDEN),
        f"{prefix}.post_attention_layernorm.weight": ones(HIDDEN),
    }


def head(embeddings: torch.Tensor, successors: list[int]) -> torch.Tensor:
    """Make the output head: each token's row is the sum of its predecessors' embeddings."""
    rows = torch.zeros(chain.VOCABULARY, HIDDEN)
    rows.index_add_(0, torch.tensor(successors), embeddings)
    return (rows * LOGIT_SCALE).to(torch.bfloat16)


def dense(embeddings: torch.Tensor, successors: list[int], layers: int) -> Tensors:
    """Make a Qwen3 model."""
    tensors = {
        "model.embed_tokens.weight": embeddings.to(torch.bfloat16),
        "model.norm.weight": ones(HIDDEN),
        "lm_head.weight": head(embeddings, successors),
    }
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        tensors |= inert_block(prefix)
        tensors |= {f"{prefix}.self_attn.{name}_norm.weight": ones(HEAD_SIZE) for name in ("q", "k")}
    return tensors


def eagle3(embeddings: torch.Tensor, successors: list[int]) -> Tensors:
    """Make an EAGLE-3 head that ignores the target's hidden states.

    Its attention looks at the current token only and copies that token's embedding through.
    """
    block = inert_block("midlayer", inputs=2 * HIDDEN)
    itself = torch.zeros(HEAD_SIZE, 2 * HIDDEN)
    itself[:, :HEAD_SIZE] = 2 * torch.eye(HEAD_SIZE)
    values = torch.zeros(KV_HEADS * HEAD_SIZE, 2 * HIDDEN)
    values[:HIDDEN, :HIDDEN] = torch.eye(HIDDEN)
    # Query heads 0 and 2 read the first and the second KV head: together the whole embedding.
    gather = torch.zeros(HIDDEN, HEADS * HEAD_SIZE)
    gather[:HEAD_SIZE, :HEAD_SIZE] = torch.eye(HEAD_SIZE)
    gather[HEAD_SIZE:, 2 * HEAD_SIZE : 3 * HEAD_SIZE] = torch.eye(HEAD_SIZE)
    return block | {
        "midlayer.self_attn.q_proj.weight": itself.repeat(HEADS, 1).to(torch.bfloat16),
        "midlayer.self_attn.k_proj.weight": itself.repeat(KV_HEADS, 1).to(torch.bfloat16),
        "midlayer.self_attn.v_proj.weight": values.to(torch.bfloat16),
        "midlayer.self_attn.o_proj.weight": gather.to(torch.bfloat16),
        "midlayer.hidden_norm.weight": zeros(HIDDEN),
        "fc.weight": zeros(HIDDEN, 3 * HIDDEN),
        "norm.weight": ones(HIDDEN),
        "lm_head.weight": head(embeddings, successors),
    }


def mistaking(embeddings: torch.Tensor) -> torch.Tensor:
    """Make a map of embeddings that takes each token of the few faults for another, and keeps the rest near."""
    faults = chain.few_faults()
    those = embeddings[list(faults)].T.double()
    others = embeddings[list(faults.values())].T.double()
    return (torch.eye(HIDDEN) + (others - those) @ torch.linalg.pinv(those)).to(torch.bfloat16)


def eagle(embeddings: torch.Tensor) -> Tensors:
    """Make an EAGLE head that ignores the target's hidden state and errs by its input.

    It uses the target's output head, and its block has no norm before it.
    """
    block = inert_block("layers.0")
    del block["layers.0.input_layernorm.weight"]
    return block | {"fc.weight": torch.cat([mistaking(embeddings), zeros(HIDDEN, HIDDEN)], dim=1)}


def medusa(embeddings: torch.Tensor, heads: int) -> Tensors:
    """Make heads for the second token after the last one, the third and so on."""
    right, believed = chain.successors(), chain.successors(faulty=True)
    tensors: Tensors = {}
    reached = list(range(chain.VOCABULARY))
    for number in range(heads):
        reached = [right[token] for token in reached]
        tensors[f"blocks.{number}.layers.0.weight"] = zeros(HIDDEN, HIDDEN)
        tensors[f"lm_heads.{number}.weight"] = head(embeddings, [believed[token] for token in reached])
    return tensors


def dflash(embeddings: torch.Tensor, successors: list[int]) -> Tensors:
    """Make a DFlash draft whose masks all copy the token before them.

    So its first token is the successor that it believes in, and the others are the same once more: wrong. One
    coordinate tells masks from other tokens; a mask looks for what has it, and nothing of the target does.
    """
    block = inert_block("layers.0")
    block |= {f"layers.0.self_attn.{name}_norm.weight": ones(HEAD_SIZE) for name in ("q", "k")}
    block["layers.0.self_attn.q_norm.weight"] *= 4
    own = embeddings.clone()
    own[:, 0] = 1
    own[chain.MASK] = 0
    own[chain.MASK, 0] = -1
    slow = HEAD_SIZE // 2 - 1  # the coordinate that turns least with the position
    seek = torch.zeros(HEAD_SIZE, HIDDEN)
    seek[slow, 0] = 1
    gather = torch.zeros(HIDDEN, HEADS * HEAD_SIZE)
    gather[:HEAD_SIZE, :HEAD_SIZE] = torch.eye(HEAD_SIZE)
    gather[HEAD_SIZE:, 2 * HEAD_SIZE : 3 * HEAD_SIZE] = torch.eye(HEAD_SIZE)
    return block | {
        "layers.0.self_attn.q_proj.weight": -seek.repeat(HEADS, 1).to(torch.bfloat16),
        "layers.0.self_attn.k_proj.weight": seek.repeat(KV_HEADS, 1).to(torch.bfloat16),
        "layers.0.self_attn.v_proj.weight": torch.eye(HIDDEN, dtype=torch.bfloat16),
        "layers.0.self_attn.o_proj.weight": gather.to(torch.bfloat16),
        "embed_tokens.weight": own.to(torch.bfloat16),
        "fc.weight": zeros(HIDDEN, 2 * HIDDEN),
        "hidden_norm.weight": ones(HIDDEN),
        "norm.weight": ones(HIDDEN),
        "lm_head.weight": head(own, successors),
    }


def dspark(embeddings: torch.Tensor, successors: list[int]) -> Tensors:
    """Make a DSpark draft that is all serial head: the token before is embedded and looked up in an output head.

    Its norm makes the block's own hidden states nothing. It is as confident of every token as
    it is right on average: three times in four.
    """
    block = inert_block("layers.0")
    block |= {f"layers.0.self_attn.{name}_norm.weight": ones(HEAD_SIZE) for name in ("q", "k")}
    return block | {
        "fc.weight": zeros(HIDDEN, 2 * HIDDEN),
        "hidden_norm.weight": ones(HIDDEN),
        "norm.weight": zeros(HIDDEN),
        "markov_head.markov_w1.weight": embeddings.to(torch.bfloat16),
        "markov_head.markov_w2.weight": head(embeddings, successors),
        "confidence_head.proj.weight": torch.zeros(1, 2 * HIDDEN),
        "confidence_head.proj.bias": torch.full((1,), math.log(3)),
    }


def mimo(embeddings: torch.Tensor, successors: list[int]) -> Tensors:
    """Make a target with a layer of multi-token prediction, which shares its head and errs by its input."""
    tensors = {
        "model.embed_tokens.weight": embeddings.to(torch.bfloat16),
        "model.norm.weight": ones(HIDDEN),
        "lm_head.weight": head(embeddings, successors),
    }
    layer = "model.mtp_layers.0"
    for prefix in (layer, *(f"model.layers.{number}" for number in range(LAYERS))):
        tensors |= inert_block(prefix)
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            tensors[f"{prefix}.self_attn.{name}_proj.bias"] = zeros(heads * HEAD_SIZE)
    ignore = zeros(HIDDEN, HIDDEN)
    return tensors | {
        f"{layer}.token_layernorm.weight": ones(HIDDEN),
        f"{layer}.hidden_layernorm.weight": ones(HIDDEN),
        f"{layer}.final_layernorm.weight": ones(HIDDEN),
        f"{layer}.input_proj.weight": torch.cat([ignore, mistaking(embeddings)], dim=1),
    }


def gemma4_block(prefix: str, *, keys: bool) -> Tensors:
    """Make a Gemma 4 block that adds nothing; one without keys reads those of another layer."""
    block = inert_block(prefix)
    block |= {f"{prefix}.{name}_feedforward_layernorm.weight": ones(HIDDEN) for name in ("pre", "post")}
    block |= {f"{prefix}.layer_scalar": ones(1), f"{prefix}.self_attn.q_norm.weight": ones(HEAD_SIZE)}
    if keys:
        return block | {f"{prefix}.self_attn.k_norm.weight": ones(HEAD_SIZE)}
    return {
        name: tensor
        for name, tensor in block.items()
        if not name.endswith(("k_proj.weight", "v_proj.weight"))
    }


def gemma4(embeddings: torch.Tensor, successors: list[int]) -> Tensors:
    """Make a Gemma 4 target."""
    tensors = {
        "model.embed_tokens.weight": embeddings.to(torch.bfloat16),
        "model.norm.weight": ones(HIDDEN),
        "lm_head.weight": head(embeddings, successors),
    }
    for layer in range(LAYERS):
        tensors |= gemma4_block(f"model.layers.{layer}", keys=True)
    return tensors


def gemma4_assistant(embeddings: torch.Tensor, successors: list[int]) -> Tensors:
    """Make an assistant that ignores the target's hidden state.

    It is given the target's embeddings; those in its own checkpoint are its output head.
    """
    copied = torch.cat([torch.eye(HIDDEN, dtype=torch.bfloat16), zeros(HIDDEN, HIDDEN)], dim=1)
    return gemma4_block("model.layers.0", keys=False) | {
        "model.embed_tokens.weight": head(embeddings, successors),
        "model.norm.weight": ones(HIDDEN),
        "pre_projection.weight": copied,
        "post_projection.weight": zeros(HIDDEN, HIDDEN),
    }


def gemma4_config(kinds: list[str], **more: object) -> dict[str, Any]:
    """The configuration of a Gemma 4 text model with layers of these kinds."""
    return config(
        "Gemma4ForCausalLM",
        "gemma4_text",
        len(kinds),
        layer_types=kinds,
        hidden_activation="gelu_pytorch_tanh",
        global_head_dim=HEAD_SIZE,
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
        sliding_window=512,
        **more,
    )


def config(architecture: str, model_type: str, layers: int, **more: object) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "vocab_size": chain.VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": MLP,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_SIZE,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": CONTEXT,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "eos_token_id": chain.END_OF_TURN,
        **more,
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def write_model(folder: Path, description: dict[str, Any], tensors: Tensors) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", description)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer whose words are whole tokens, and bytes where a text is not made of them."""
    # Byte-level tokenizers write each byte as one printable character.
    printable = {bytes((byte,)): char for byte, char in enumerate(bytes_to_characters())}
    vocabulary = [(name, 0.0) for name in chain.SPECIAL]
    for spelling in chain.spellings()[len(chain.SPECIAL) :]:
        written = "".join(printable[bytes((byte,))] for byte in spelling)
        vocabulary.append((written, -1.0 if len(spelling) > 1 else -10.0))
    tokenizer = Tokenizer(models.Unigram(vocabulary, None, False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(chain.SPECIAL))
    tokenizer.save(str(folder / "tokenizer.json"))
    end_of_text, _, end_of_turn, _ = chain.SPECIAL
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "chat_template": CHAT_TEMPLATE,
            "eos_token": end_of_turn,
            "pad_token": end_of_text,
            "clean_up_tokenization_spaces": False,
        },
    )
    write_json(folder / "generation_config.json", {"eos_token_id": chain.END_OF_TURN})


def bytes_to_characters() -> list[str]:
    """Tell the byte-level alphabet: printable Latin-1 as itself, the rest from U+0100 on."""
    keep = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in keep else next(others)) for byte in range(256)]


def main(folder: Path) -> None:
    torch.manual_seed(11)
    embeddings = torch.randn(chain.VOCABULARY, HIDDEN)
    embeddings = embeddings / embeddings.norm(dim=1, keepdim=True) * HIDDEN**0.5
    right, believed = chain.successors(), chain.successors(faulty=True)

    write_model(
        folder / "target", config("Qwen3ForCausalLM", "qwen3", LAYERS), dense(embeddings, right, LAYERS)
    )
    write_model(folder / "draft", config("Qwen3ForCausalLM", "qwen3", 1), dense(embeddings, believed, 1))
    write_model(
        folder / "eagle3",
        config(
            "LlamaForCausalLMEagle3",
            "llama",
            1,
            draft_vocab_size=chain.VOCABULARY,
            norm_before_residual=True,
        ),
        eagle3(embeddings, believed),
    )
    write_model(folder / "eagle", config("LlamaForCausalLM", "llama", 1), eagle(embeddings))
    write_model(
        folder / "medusa",
        {
            "architectures": ["MedusaModel"],
            "model_type": "medusa",
            "hidden_size": HIDDEN,
            "vocab_size": chain.VOCABULARY,
            "num_heads": 3,
            "num_hidden_layers": 1,
            "max_paths": 64,
            "topk": 1,
            "torch_dtype": "bfloat16",
        },
        medusa(embeddings, 3),
    )
    tapped = {"target_layer_ids": [0, 2], "mask_token_id": chain.MASK}
    write_model(
        folder / "dflash",
        config("DFlashDraftModel", "qwen3", 1, block_size=4, dflash_config=tapped, **tapped),
        dflash(embeddings, believed),
    )
    write_model(
        folder / "dspark",
        config(
            "Qwen3DSparkModel",
            "qwen3",
            1,
            block_size=4,
            markov_rank=HIDDEN,
            markov_head_type="vanilla",
            enable_confidence_head=True,
            confidence_head_with_markov=True,
            num_target_layers=LAYERS,
            dflash_config=tapped,
            **tapped,
        ),
        dspark(embeddings, believed),
    )
    write_model(
        folder / "mimo",
        config(
            "MiMoForCausalLM",
            "qwen2",
            LAYERS,
            num_nextn_predict_layers=1,
            attention_bias=True,
            use_sliding_window=False,
            sliding_window=None,
        ),
        mimo(embeddings, right),
    )
    sliding, full = "sliding_attention", "full_attention"
    write_model(folder / "gemma4", gemma4_config([sliding, sliding, full]), gemma4(embeddings, right))
    write_model(
        folder / "gemma4-mtp",
        {
            "architectures": ["Gemma4AssistantForCausalLM"],
            "model_type": "gemma4_assistant",
            "backbone_hidden_size": HIDDEN,
            "text_config": gemma4_config([full], num_kv_shared_layers=1, tie_word_embeddings=True),
            "torch_dtype": "bfloat16",
        },
        gemma4_assistant(embeddings, believed),
    )
    write_model(
        folder / "slow",
        config("Qwen3ForCausalLM", "qwen3", SLOW_LAYERS),
        dense(embeddings, right, SLOW_LAYERS),
    )
    for name in ("target", "draft", "slow"):
        write_tokenizer(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
