#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# container.sh STORE ARGS...: podman ARGS with its images and containers in folder STORE, as root.
#
# It works in machines that have neither cgroup v2 nor CAP_SYS_RESOURCE, too: crun refuses a mixture of cgroup versions even
# with --cgroups=disabled, so podman gets a mount namespace of its own in which version 2 is the only one, and /dev/null is a
# copy: crun gives it to the user of the container, whose standard input it is.
set -eu
if [ "${OWN_MOUNTS:-}" = "" ]; then
	OWN_MOUNTS=yes exec unshare --mount --propagation=private -- "$0" "$@"
fi
store=$1
shift
while mountpoint -q /sys/fs/cgroup; do umount -R /sys/fs/cgroup; done
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p "$store/dev"
mount -t tmpfs -o mode=755 none "$store/dev"
mknod -m 666 "$store/dev/null" c 1 3
mount --bind "$store/dev/null" /dev/null
exec podman --root="$store/images" --runroot="$store/run" --tmpdir="$store/tmp" --storage-driver=vfs --cgroup-manager=cgroupfs --events-backend=none "$@"
