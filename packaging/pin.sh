#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# pin.sh [FILE]: gets the digests of the base images in a file (default: packaging/images) from their registries, and
# writes them into it. A digest is that of the index, which has all architectures. Nothing is written unless all are
# known.
set -eu
file=${1:-$(dirname "$0")/images}
lines=$(grep -E '^[A-Z_]+=' "$file")
new=$(cat "$file")
for line in $lines; do
	image=${line#*=}
	image=${image%@*}
	digest=$("${SKOPEO:-skopeo}" inspect --format '{{.Digest}}' "docker://$image")
	printf '%s\n' "$digest" | grep -Eq '^sha256:[0-9a-f]{64}$' || {
		echo "$image: the digest is '$digest', expected sha256: and 64 hexadecimal digits" >&2
		exit 1
	}
	new=$(printf '%s\n' "$new" | sed "s|^${line%%=*}=.*|${line%%=*}=$image@$digest|")
done
printf '%s\n' "$new" >"$file"
