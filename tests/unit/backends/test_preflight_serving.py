"""What is said of drafts of other methods and targets, and of flags that do not go together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backends.machine import Engine, Machine
from backends.methods import Rule, methods
from backends.preflight import preflight
from backends.recipes import recipes
from backends.spec import LaunchSpec, from_recipe
from gateway.core.fleet import FIRST_DRAFT_TOKENS

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = frozenset(one.engine for one in methods().values() if one.engine)
MACHINE = Machine("cuda", Engine("python", "0.32.0", "cuda", KNOWN, frozenset({"arctic_inference"})))
TARGET = {
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 2048,
    "hidden_size": 128,
    "num_hidden_layers": 36,
    "max_position_embeddings": 1024,
    "num_nextn_predict_layers": 1,
}
ROPED = TARGET | {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2}


def checkpoint(folder: Path, config: dict[str, Any]) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(folder)


def server(method: str, draft_tokens: int = 0, draft: str | None = None, **more: Any) -> LaunchSpec:
    return LaunchSpec("s", more.pop("target", "t/arget"), "t", method, draft_tokens, draft, **more)


def found(spec: LaunchSpec, machine: Machine = MACHINE) -> list[str]:
    """What is said of a server, but for that it has no baseline and what could not be looked at."""
    base = LaunchSpec("base", spec.target, "t", port=8000)
    told = preflight([base, spec], machine)
    return [str(one).removeprefix("s: ") for one in told if one.server == "s" and not one.unchecked]


@pytest.mark.parametrize(
    ("architecture", "meant"),
    [
        ("LlamaForCausalLMEagle3", "eagle3"), ("EagleLlamaForCausalLM", "eagle"), ("DFlashDraftModel", "dflash"),
        ("Qwen3DSparkModel", "dspark"), ("MedusaModel", "medusa"), ("DeepSeekMTPModel", "mtp"),
        ("Gemma4AssistantForCausalLM", "gemma4-mtp"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["draft-model", "mtp"])
def test_a_draft_of_another_method_is_known_by_its_architecture(
    tmp_path: Path, method: str, architecture: str, meant: str
) -> None:
    draft = checkpoint(tmp_path / "a-mtp", TARGET | {"architectures": [architecture]})
    told = found(server(method, 1, draft, target=checkpoint(tmp_path / "t", TARGET)))
    if meant == method:
        assert told == []
        return
    assert told == [
        (
            f"the draft {draft} is one of {meant}, which vLLM would use in place of {method}; "
            f"write 'method: {meant}', or name another draft"
        )
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("x-EAGLE3", "eagle3"), ("EAGLE-x", "eagle"), ("DFlash-b16", "dflash"), ("dspark_x", "dspark")],
)
@pytest.mark.parametrize("method", ["draft-model", "medusa"])
def test_a_draft_of_another_method_is_known_by_its_name_as_vllm_goes_by_it(
    method: str, name: str, meant: str
) -> None:
    (told,) = found(server(method, 3, f"acme/{name}"))
    assert told.startswith(
        f"the draft acme/{name} is one of {meant}, which vLLM would use in place of {method}; "
    )


def test_a_whole_model_may_draft(tmp_path: Path) -> None:
    target, draft = checkpoint(tmp_path / "t", TARGET), checkpoint(tmp_path / "d", ROPED)
    assert found(server("draft-model", 3, draft, target=target)) == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            server("eagle3", 3, "z-lab/Qwen3-8B-DFlash-b16", target="Qwen/Qwen3-8B"),
            "z-lab/Qwen3-8B-DFlash-b16 is called as a draft of dflash is; write 'method: dflash', or name another",
        ),
        (
            server("dflash", 7, "z-lab/Qwen3.6-35B-A3B-DFlash", target="Qwen/Qwen3-8B"),
            (
                "z-lab/Qwen3.6-35B-A3B-DFlash is the draft of Qwen/Qwen3.6-35B-A3B, and the target is Qwen/Qwen3-8B; "
                "name the draft that was trained for this target"
            ),
        ),
        (
            server("mtp", 1, target="Qwen/Qwen3-8B"),
            "Qwen/Qwen3-8B is not known to have mtp; known to go with it: none, eagle3, dflash, dspark",
        ),
        (
            server("mtp", 1, target="google/gemma-4-31B-it"),
            (
                "google/gemma-4-31B-it is not known to have mtp; "
                "known to go with it: none, gemma4-mtp, eagle3, dflash, dspark"
            ),
        ),
        (
            server("gemma4-mtp", 4, "acme/assistant", target="Qwen/Qwen3-8B"),
            "Qwen/Qwen3-8B is not known to have gemma4-mtp; known to go with it: none, eagle3, dflash, dspark",
        ),
    ],
)
def test_what_ids_alone_speak_against_is_warned_of(spec: LaunchSpec, message: str) -> None:
    assert f"warning: {message}" in found(spec)


@pytest.mark.parametrize("target", ["Qwen/Qwen3-8B", "acme/Qwen3-8B-AWQ"])
def test_a_target_made_of_another_takes_its_drafts(target: str) -> None:
    assert found(server("dflash", 7, "z-lab/Qwen3-8B-DFlash-b16", target=target)) == []


@pytest.mark.parametrize("name", list(recipes()))
def test_nothing_speaks_against_the_recipes(name: str) -> None:
    specs = list(from_recipe(recipes()[name], recipes()[name].methods))
    words = ("is not known to have", "is the draft of", "is called as", "is one of", "refuses max-num")
    assert not [
        str(one) for one in preflight(specs, Machine("rocm")) if any(word in one.wrong for word in words)
    ]


def test_a_draft_for_a_target_of_another_depth_is_none(tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "t", TARGET)
    dflash = TARGET | {"architectures": ["DFlashDraftModel"], "block_size": 16, "num_hidden_layers": 5}
    fitting = checkpoint(tmp_path / "fits", dflash | {"num_target_layers": 36})
    assert found(server("dflash", 7, fitting, target=target)) == []
    deeper = checkpoint(tmp_path / "deeper", dflash | {"num_target_layers": 64})
    assert found(server("dflash", 7, deeper, target=target)) == [
        "the draft is for a target of 64 layers, and this one has 36; name the draft that was trained for this target"
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"max-num-batched-tokens": 8, "max-num-seqs": 16},
            "vLLM refuses max-num-batched-tokens 8 below max-num-seqs 16; set max-num-batched-tokens to 16 or more",
        ),
        (
            {"max-num-active-seqs": 16, "max-num-seqs": 8},
            "vLLM refuses max-num-active-seqs 16 above max-num-seqs 8; set it to 8 at most",
        ),
        *(
            (
                {**off, "max-num-batched-tokens": 512},
                ("without chunked prefill vLLM refuses max-num-batched-tokens 512 below max_model_len 1024; "
                "set max-num-batched-tokens to 1024 or more, or max_model_len to 512"),
            )
            for off in ({"enable-chunked-prefill": False}, {"no-enable-chunked-prefill": True})
        ),
        (
            {"long-prefill-token-threshold": 2048},
            "vLLM refuses long-prefill-token-threshold 2048 above max_model_len 1024; set it to 1024 at most",
        ),
        (
            {"stream-interval": 10},
            ("warning: with stream-interval 10 the events of a stream do not tell its steps; "
            "remove stream-interval, or do without acceptance from streams"),
        ),
        *(
            (
                given,
                ("override-generation-config gives every request min_p 0.1, which it answers with 400 as it "
                "speculates; set override-generation-config.min_p to 0"),
            )
            for given in (
                {"override-generation-config": '{"min_p": 0.1}'}, {"override-generation-config.min_p": 0.1},
            )
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("said", [True, False])
def test_flags_that_do_not_go_together_are_told(
    tmp_path: Path, args: dict[str, Any], message: str, said: bool
) -> None:
    target = checkpoint(tmp_path / "t", TARGET)
    longest = 1024 if said else None
    assert found(server("ngram", 4, target=target, args=args, max_model_len=longest)) == [message]


@pytest.mark.parametrize(
    "args",
    [
        {"max-num-batched-tokens": 16, "max-num-seqs": 16},
        {"max-num-batched-tokens": 512},
        {"max-num-batched-tokens": 1024, "enable-chunked-prefill": False},
        {"stream-interval": 1},
        {"override-generation-config": '{"min_p": 0, "temperature": 0.7}'},
    ],
)
def test_flags_that_go_together_are_not(tmp_path: Path, args: dict[str, Any]) -> None:
    assert found(server("ngram", 4, target=checkpoint(tmp_path / "t", TARGET), args=args)) == []


@pytest.mark.parametrize(
    ("method", "args", "wrong"),
    [
        ("ngram", {}, True),
        ("none", {}, False),
        ("ngram", {"generation-config": "vllm"}, False),
        ("ngram", {"override-generation-config": '{"min_p": 0.0}'}, False),
    ],
)
def test_a_min_p_that_the_checkpoint_gives_is_refused_by_its_own_server(
    tmp_path: Path, method: str, args: dict[str, Any], wrong: bool
) -> None:
    target = checkpoint(tmp_path / "t", TARGET)
    (tmp_path / "t" / "generation_config.json").write_text('{"min_p": 0.05}', encoding="utf-8")
    message = (
        f"the generation_config.json of {target} gives every request min_p 0.05, which it answers with 400 as it "
        "speculates; set override-generation-config.min_p to 0"
    )
    spec = server(method, 4 if method == "ngram" else 0, target=target, args=args)
    assert found(spec) == ([message] if wrong else [])


@pytest.mark.parametrize("text", ["[]", "{", '{"min_p": "x"}', '{"temperature": 1}'])
def test_a_generation_config_that_gives_none_says_nothing(tmp_path: Path, text: str) -> None:
    target = checkpoint(tmp_path / "t", TARGET)
    (tmp_path / "t" / "generation_config.json").write_text(text, encoding="utf-8")
    assert found(server("ngram", 4, target=target)) == []


def test_where_vllm_is_not_at_hand_the_package_of_suffix_decoding_may_be_missing() -> None:
    elsewhere = Machine("rocm")
    assert found(server("suffix", 8), elsewhere) == [
        (
            "warning: suffix needs the package arctic_inference, which the usual image of vLLM may lack; "
            "add arctic-inference==0.1.1 to an image of your own and name it in launch.image"
        )
    ]
    assert found(server("suffix", 8, image="my/vllm"), elsewhere) == []


def test_medusa_has_no_choice_of_n() -> None:
    (told,) = found(server("medusa", 0, "acme/medusa"))
    assert told == (
        "medusa needs its number of draft tokens; "
        "add 'draft_tokens: 3', if the draft has so many heads: one token each"
    )


def test_the_gateway_and_the_method_files_begin_with_the_same_n() -> None:
    begun = {
        one.name: one.draft_tokens.default
        for one in methods().values()
        if one.draft_tokens.rule is not Rule.NONE
    }
    assert begun == FIRST_DRAFT_TOKENS
