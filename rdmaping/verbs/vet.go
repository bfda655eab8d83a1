// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"gpufabric_exporter/internal/library"
	"gpufabric_exporter/internal/ownership"
)

// drivers is where libibverbs finds which providers to load.
const drivers = "/etc/libibverbs.d"

// Vet returns why no process may be started that loads libibverbs, of that path if one is given: users other than
// root and that of this process could have put there what would run (package ownership). public reports whether
// every user may read it. root is where the file system begins, "/" but for tests.
func Vet(root, given string) (public bool, err error) {
	found := []string{given}
	switch {
	case strings.Contains(given, "$"):
		return false, fmt.Errorf("%q: expected no $, which the loader expands", given)
	case !strings.Contains(given, "/"):
		name := cmp.Or(given, defaultLibrary)
		if found = library.Locate(root, name, ""); len(found) == 0 {
			return false, fmt.Errorf("%s (package libibverbs1 or rdma-core): %w", name, fs.ErrNotExist)
		}
	case !path.IsAbs(given):
		return false, fmt.Errorf("%q: expected an absolute path", given)
	}
	public = true
	for _, file := range append(found, drivers) {
		f, err := ownership.Check(root, file)
		if err != nil && (file != drivers || f.Others != nil || !errors.Is(err, fs.ErrNotExist)) {
			return false, err
		}
		public = public && (f.Public || file == drivers)
	}
	return public, nil
}
