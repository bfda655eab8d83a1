#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the test suite of this folder against the exporter on a real kernel with RDMA devices, in an emulated
# guest: no root, no KVM, no RDMA hardware. The first run builds the lab (about two minutes).
#   test.sh [-test.FLAG...]      for instance -test.run TestLab/gids
# With SUSPEND=1 the guest runs TestSuspend, from memory: QEMU's 9p does not outlast a suspend, nor does an ELF kernel, which it
# loads anew when the guest resumes.
# With PING=1 it runs TestPing and TestPingStops, in a guest whose clock does not depend on how busy the host is: eight nodes that ping each other.
# With FULL=1 what hangs is scraped 1,000 times instead of 50, and costs are compared with node_exporter's.
# What the guest leaves is in $LAB/last: output, dmesg, console, a scrape and the landing page.
set -euo pipefail
export LAB=${LAB:-${XDG_CACHE_HOME:-$HOME/.cache}/gpufabric-lab}
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$LAB"
exec 9>"$LAB/lock"
if command -v flock >/dev/null; then flock 9; fi   # one at a time

"$here/setup.sh" || { status=$?; [ $status = 77 ] && exit 0; exit $status; }
job=$LAB/last
rm -rf "$job"; mkdir "$job"
cd "$here/../.."
go build -o "$job/gpufabric_exporter" .
go test -c -tags lab -o "$job/lab.test" ./test/lab
gcc -shared -fPIC -O1 -o "$job/libnvidia-ml.so.1" internal/host/nvml/testdata/libnvidia-ml.c   # a stand-in
if [ -n "${FULL:-}" ]; then
  (cd tools && CGO_ENABLED=0 go build -o "$job/node_exporter" github.com/prometheus/node_exporter)
  set -- -full "$@"
fi
if [ -n "${SUSPEND:-}" ]; then
  export KERNEL=vmlinuz
  exec "$here/run.sh" "$job" exec dash ./memory.sh ./lab.test -suspend -test.run '^TestSuspend$' -test.v -test.timeout 10m "$@"
fi
if [ -n "${PING:-}" ]; then
  programs=$(./test/prometheus/fetch.sh) || { echo "$programs"; exit 0; }
  cp "$programs/prometheus" alerts/{hard,ping,ping_small}.rules.yml "$job"
  export MACHINE=fabric TIMEOUT=${TIMEOUT:-28800}
  exec "$here/run.sh" "$job" ./lab.test -ping -test.run '^TestPing' -test.v -test.timeout 8h "$@"
fi
"$here/run.sh" "$job" ./lab.test -test.v -test.timeout 20m "$@"   # a busy host takes four times as long
