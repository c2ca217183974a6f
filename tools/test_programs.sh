#!/bin/sh
# Install the programs that some tests drive: Prometheus with promtool, Chromium with its driver. Where they cannot
# be had, those tests are skipped and say so.
set -eu
wanted=""
command -v promtool >/dev/null 2>&1 || wanted="$wanted prometheus"
command -v chromedriver >/dev/null 2>&1 || wanted="$wanted chromium chromium-driver"
[ -n "$wanted" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
    echo "not installed:$wanted; their tests will be skipped"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # several words
{ apt-get update -q && apt-get install -q -y --no-install-recommends $wanted; } >/dev/null ||
    echo "could not be installed:$wanted; their tests will be skipped"
