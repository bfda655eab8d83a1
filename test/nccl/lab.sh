#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# lab.sh [-FLAG...]: runs the tests TestGuest* of this folder in a guest of test/lab, whose kernel has RDMA devices.
#   lab.sh -test.run TestGuestJobs    some of them
#   lab.sh -update                    writes what was verified to variables.tsv
# What cannot be had is skipped, and the last lines say why. What the guest leaves is in $LAB/nccl.
set -euo pipefail
export LAB=${LAB:-${XDG_CACHE_HOME:-$HOME/.cache}/gpufabric-lab} TIMEOUT=${TIMEOUT:-3600}
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$LAB"
exec 9>"$LAB/lock"
if command -v flock >/dev/null; then flock 9; fi   # one guest at a time

"$here/../lab/setup.sh" || { status=$?; [ $status = 77 ] && exit 0; exit $status; }
job=$LAB/nccl
rm -rf "$job"; mkdir "$job"
for suite in trixie sid; do
  rig=$job/rigs/$suite
  mkdir -p "$rig"
  status=0
  { said=$("$here/fetch.sh" $suite) && read -r dev version <<<"$said" && said=$("$here/build.sh" "$dev" "$rig" "${version%%-*}"); } || status=$?
  case $status in
  0) echo "${version%%-*}" >"$rig/release" ;;
  77) echo "$said" >"$rig/missing" ;;
  *) echo "$said" >&2; exit $status ;;
  esac
done
cuda=$here/../../ncclprobe/testdata # the stand-in of the probe for the driver
echo '{ global: cu*; standinFault; local: *; };' >"$job/rigs/cuda.map"
gcc -shared -O1 -fPIC -std=gnu17 -Wl,--version-script="$job/rigs/cuda.map" -o "$job/rigs/libcuda.so.1" "$cuda"/{cuda,memory,stream,machine}.c -lpthread -ldl
table=$here/../../internal/nccl/settings/variables.tsv
cp "$table" "$job"; cp "$table" "$job/before.tsv"
cd "$here/../.."
go test -c -tags nccl -o "$job/nccl.test" ./test/nccl
status=0
"$here/../lab/run.sh" "$job" ./nccl.test -guest -test.run '^TestGuest' -test.v -test.timeout 55m "$@" || status=$?
cmp -s "$job/variables.tsv" "$job/before.tsv" || cp "$job/variables.tsv" "$table"
exit $status
