#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tagged.sh VERSION: ends with 0 where the tree is the commit that the tag vVERSION names, without changes, packaging/images pins
# all base images by digest, and CHANGELOG.md has a dated section for it. Otherwise it says what is missing: all builds of a version
# must be from the same commit, and its image on the same images.
set -eu
version=$1
fail() {
	echo "release $version: $1, or run make release SNAPSHOT=1 for a build that is not released" >&2
	exit 1
}
changed=$(git status --porcelain) || fail "this is no git repository: clone it"
[ -z "$changed" ] || fail "the tree has changes that are not committed: commit them"
unpinned=$(grep -Ev '^#|^[A-Z_]+=[^@[:space:]]+@sha256:[0-9a-f]{64}$' packaging/images || test $? = 1) || fail "packaging/images is missing"
[ -z "$unpinned" ] || fail "packaging/images has no digest of ${unpinned%%=*}: run make pin and commit it"
git tag --points-at HEAD | grep -qxF "v$version" || fail "the commit has no tag v$version: check out the tag, or write the version of the tag into VERSION"
grep -Eq "^## $(printf '%s' "$version" | sed 's/\./\\./g') / [0-9]{4}-[0-9]{2}-[0-9]{2}\$" CHANGELOG.md || fail "CHANGELOG.md has no line '## $version / YYYY-MM-DD': add it"
