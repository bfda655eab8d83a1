#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the path of a promtool that knows keep_firing_for (2.42 or later): the one in PATH, else that of Debian's
# package prometheus, unpacked into a cache folder. Nothing is installed and root is not needed.
# Where neither can be had it prints one line that says why and ends with status 77.
set -euo pipefail
cache=${PROMTOOL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpufabric-promtool}
skip() { echo "promtool: skipped: $*"; exit 77; }

# recent PROGRAM: prints its path if it is recent enough
recent() {
  local version
  version=$("$1" --version 2>/dev/null | sed -n '1s/^promtool, version \([0-9]*\.[0-9]*\).*/\1/p') || return 1
  [ -n "$version" ] && [ "$(printf '2.42\n%s\n' "$version" | sort -V | head -n 1)" = 2.42 ] && command -v "$1"
}

recent promtool && exit
recent "$cache/usr/bin/promtool" && exit
command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "no promtool 2.42 or later in PATH, and no apt-get to fetch one with"

# Package lists of our own: those of the system may be missing or old.
rm -rf "$cache.new"; mkdir -p "$cache.new/apt/lists/partial"; touch "$cache.new/apt/status"; cd "$cache.new"
apt() {
  apt-get -qq -o Dir::State="$PWD/apt" -o Dir::State::status="$PWD/apt/status" -o Dir::Cache="$PWD/apt" -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=2 "$@" >apt/log 2>&1 \
    || skip "apt-get $1: $(grep -m 1 -e 'Failed to fetch' -e '^E:' apt/log || echo 'failed')"
}
apt update
apt download prometheus
dpkg -x prometheus_*.deb .
rm -rf apt prometheus_*.deb etc lib var usr/bin/prometheus usr/share
rm -rf "$cache"; mv "$cache.new" "$cache"
recent "$cache/usr/bin/promtool" || skip "Debian's promtool is older than 2.42, or does not run here"
