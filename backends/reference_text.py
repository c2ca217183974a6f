"""Prose of docs/methods.md, between the tables that :mod:`backends.reference` makes."""

from typing import Final

HEAD: Final = """\
# Speculative decoding methods

<!-- Written by `python -m backends.reference` from backends/methods, backends/recipes, backends/evidence. -->

A server of any method is three lines of a backend in `fleet.yaml`: the last three here, beside a baseline.

```yaml
version: 1
backends:
  - name: plain
    url: http://127.0.0.1:8101
    model: Qwen/Qwen3-8B
  - name: dflash7
    url: http://127.0.0.1:8102
    model: Qwen/Qwen3-8B
    method: dflash
    draft_tokens: 7
    draft: z-lab/Qwen3-8B-DFlash-b16
```

`specroute launch` checks such a fleet, writes what starts it, or runs it on this machine:

```
specroute launch --fleet fleet.yaml --check             # can it be started, and what would be right if not?
specroute launch --recipe qwen3.6-35b-a3b --methods none,mtp,dflash --print compose
specroute launch --fleet fleet.yaml --python /opt/vllm/bin/python --write running.yaml
```

The check compares method, draft, N, parallelism, flags, GPUs and ports with what is known below, with the
`config.json` of both checkpoints where they are on this machine, and with what vLLM itself builds
from its flags before it loads anything (its parser and `create_engine_config`) where `--python` names an
interpreter that has vLLM; what could not be looked at is said. `--print` writes `fleet`, `argv`, `compose` or
`kubernetes`. A run starts the servers in order, each on GPUs of its own and in a session of its own,
restarts one that ends with a growing pause, looks every minute whether each still is what it should be, and
stops them all with Ctrl-C. `--write` names the fleet file of a running gateway, which then takes the
servers in.

In Compose a server's port is open at the address of its URL: on this machine alone for `127.0.0.1`, on all
addresses for a name, and on none for the name of its own service, by which a gateway in the same Compose
project reaches it. In Kubernetes each server is a Service of its name (in small letters, digits and dashes)
on port 8000, whatever its URL says: the fleet file of the gateway there has `http://NAME:8000`, from
another namespace `http://NAME.NAMESPACE:8000`. Weights are in a volume claim `models` that you make, which
servers on several nodes have to be able to mount at the same time.

A server is started with the key that the variable in `api_key_env` holds, and asked with it; `--print` names
the variable alone (in Kubernetes a key of the secret `vllm-keys`). With `ssl-certfile` in `launch.args` and
`https` in its URL its own certificate is believed here; a gateway believes it if `SSL_CERT_FILE` names it, or
who signed it.

Nothing that a server shows names its method. It is taken from the fleet file and confirmed by behaviour:
drafts are counted or not, there is one counter for each place in a draft, and answers tell their
acceptance.
"""

COMPARED: Final = """\
Each server got the same requests through the gateway: chat and text completions, streams and whole answers,
greedy and sampled, alone and up to eight at a time. Then what the gateway's `specroute_speculation_*` and
`specroute_output_tokens`, read off answers, had grown by was compared with what the server's own
`vllm:spec_decode_*` and `vllm:generation_tokens` had: all requests, all numbers. One request past the gateway
makes the two differ, as tests see to. vLLM before 0.32.0 loses the acceptance of a stream whose last two
pieces it puts into one; such an answer tells none, and the two then differ by no more than it can have had.
Known beforehand: the checkpoints of the tests draft right and wrong where they were made to, so that what
requests alone on a server bring can be worked out.
"""

LATENCY: Final = """\
No vLLM tells how long a server drafts, so it is estimated and labelled `estimate`: a step of the server less
a step of the baseline that computes as many tokens (for n sequences and N drafted tokens one of (N + 1) n
sequences), both from the servers' own counters, by batch, prompts computed in between taken off.
Verification may cost less than that step of the baseline, which reads more keys and values, so the estimate
is low rather than high; `at most` is what a step takes beyond one of the baseline with as many sequences.
Each has to be at about the same batch for a minute, and the baseline at (N + 1) times as many sequences as
the other: with 11 drafted tokens 12 at a time for each one there, which a `baseline_share` of a few per cent
gives only under load. Where that was not seen, the command says what is missing. On simulated servers, whose
true cost is known, it is 1 to 6 % off.

```
specroute drafts http://gateway:8000
```

`specroute_backend_draft_latency_seconds` is the same at the batch that a server was most at.
"""
