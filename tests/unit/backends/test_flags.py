from __future__ import annotations

import pytest

from backends.flags import Kind, listed, name, settings, shorts


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("max-model-len", "max-model-len"),
        ("max_model_len", "max-model-len"),
        ("--max_model_len", "max-model-len"),
        ("--max-model_len=4096", "max-model-len"),
        ("max-model", "max-model-len"),
        ("speculative_config.method", "speculative-config.method"),
        ("speculative-config.draft_load_config", "speculative-config.draft_load_config"),
        ('--speculative_config={"method": "mtp"}', "speculative-config"),
        ("-tp", "tensor-parallel-size"),
        ("pp", "pipeline-parallel-size"),
        ("-dp", "data-parallel-size"),
        ("-sc.method", "speculative-config.method"),
        ("attention_config.indexer_kv_dtype", "attention-config.indexer_kv_dtype"),
        ("no_enable_prefix_caching", "no-enable-prefix-caching"),
        ("max-num", "max-num"),  # the beginning of several
        ("of-tomorrow", "of-tomorrow"),
        ("", ""),
        ("--", ""),
    ],
)
def test_a_flag_is_read_as_vllm_reads_it(written: str, read: str) -> None:
    assert name(written) == read


def test_flags_are_known_with_what_follows_them() -> None:
    assert listed()["enable-prefix-caching"] is Kind.SWITCH
    assert listed()["max-num-seqs"] is Kind.VALUE
    assert listed()["disable-log-stats"] is Kind.BARE
    assert listed()["hf-token"] is Kind.OPTIONAL
    assert not set(shorts()) & set(listed())


def test_settings_are_found_however_they_are_written() -> None:
    assert settings({"max_num_seqs": 4, "-pp": 2}) == {"max-num-seqs": 4, "pipeline-parallel-size": 2}
