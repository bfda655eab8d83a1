#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# image.sh NAME REVISION ARCH...: builds the image of a release for these architectures, as one manifest list, on the base
# images of packaging/images, or of the environment. It refuses a base image that is not pinned by digest: a tag may name
# another image later, and the release could not be built again. Times in the image are SOURCE_DATE_EPOCH.
set -eu
cd "$(dirname "$0")/.."
pinned() { # NAME VALUE
	printf '%s\n' "$2" | grep -Eq '^[^@[:space:]]+@sha256:[0-9a-f]{64}$' && return
	echo "$1 is '$2', expected NAME@sha256:DIGEST: run make pin, and commit packaging/images" >&2
	exit 1
}
build=${BUILD_IMAGE:-$(sed -n 's/^BUILD_IMAGE=//p' packaging/images)}
runtime=${RUNTIME_IMAGE:-$(sed -n 's/^RUNTIME_IMAGE=//p' packaging/images)}
pinned BUILD_IMAGE "$build"
pinned RUNTIME_IMAGE "$runtime"
timestamp=${SOURCE_DATE_EPOCH:?"expected the time of the commit: git log -1 --format=%ct"}
unset SOURCE_DATE_EPOCH # Podman 5.6 and later refuse it beside --timestamp, which earlier ones have, too
name=$1 revision=$2
shift 2
platforms=$(printf ',linux/%s' "$@")
# Podman before 4.4 does not know BUILDPLATFORM by itself. With the format of Docker, it writes the random name of the container that it
# builds in into the image. That of OCI has no HEALTHCHECK, about which Podman warns.
exec "${IMAGE_BUILDER:-podman}" build --format oci --timestamp "$timestamp" --platform "${platforms#,}" \
	--build-arg "BUILDPLATFORM=linux/$(go env GOHOSTARCH)" \
	--build-arg "BUILD_IMAGE=$build" --build-arg "RUNTIME_IMAGE=$runtime" --build-arg "REVISION=$revision" --manifest "$name" .
