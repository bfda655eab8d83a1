#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the folder with prometheus and alertmanager: that of PROMETHEUS_PROGRAMS if it is set, else those of this Debian,
# unpacked into a cache folder: nothing is installed and root is not needed. Where they cannot be had it prints one line
# that says why and ends with status 77.
set -euo pipefail
[ -z "${PROMETHEUS_PROGRAMS:-}" ] || { echo "$PROMETHEUS_PROGRAMS"; exit; }
cache=${PROMETHEUS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpufabric-prometheus}
skip() { echo "skipped: $*"; exit 77; }
runs() { "$1" --version >/dev/null 2>&1; }
complete() { runs "$cache/usr/bin/prometheus" && runs "$cache/usr/bin/alertmanager"; }

! complete || { echo "$cache/usr/bin"; exit; }
command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "no apt-get here to fetch Debian's Prometheus with"

# Package lists of our own: those of the system may be missing or old.
rm -rf "$cache.new"; mkdir -p "$cache.new/apt/lists/partial"; touch "$cache.new/apt/status"; cd "$cache.new"
apt() {
  apt-get -qq -o Dir::State="$PWD/apt" -o Dir::State::status="$PWD/apt/status" -o Dir::Cache="$PWD/apt" -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=2 "$@" >apt/log 2>&1 \
    || skip "apt-get $1: $(grep -m 1 -e 'Failed to fetch' -e '^E:' apt/log || echo 'failed')"
}
apt update
apt download prometheus prometheus-alertmanager
for deb in *.deb; do dpkg -x "$deb" .; done
rm -rf apt ./*.deb etc lib var

# Debian's Alertmanager wants its templates in /usr/share: another path of that length leads to its working directory.
share=/usr/share/prometheus/alertmanager
LC_ALL=C sed -i "s#$share#./././././././././././././././././#g" usr/bin/prometheus-alertmanager
cat >usr/bin/alertmanager <<END
#!/bin/sh
cd "\$(dirname "\$0")/../..$share" && exec ../../../bin/prometheus-alertmanager "\$@"
END
chmod +x usr/bin/alertmanager
rm -rf "$cache"; mv "$cache.new" "$cache"
complete || skip "Debian's Prometheus does not run here"
echo "$cache/usr/bin"
