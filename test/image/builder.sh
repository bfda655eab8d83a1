#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# builder.sh build ARGS...: the podman of packaging/image.sh, with its images in folder STORE, modules from folder MODULES and
# compiled packages in folder CACHE.
set -eu
shift
exec "$(dirname "$0")/container.sh" "$STORE" build --isolation=chroot --layers=false --pull-never \
	--volume="$MODULES:/proxy:ro" --volume="$CACHE:/root/.cache/go-build" "$@"
