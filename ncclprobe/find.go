// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"gpufabric_exporter/internal/library"
	"gpufabric_exporter/internal/ownership"
)

// Find says what to load as NCCL: given if that is not empty; else libnccl.so.2, if libraryPath
// (LD_LIBRARY_PATH) or the loader's cache has it; else the library in a Python package, the first one that is
// found. Those are taken only if no one but root and the user of this process can have put them there
// (package ownership), because what is in them will run; Vet holds the others to the same. The error, which
// is fs.ErrNotExist if there is none at all, says what was passed over.
//
// It reads directories and loads nothing. root is where the file system begins, "/" but for tests.
func Find(root, given, libraryPath string) (string, error) {
	if given != "" {
		return given, nil
	}
	if len(library.Locate(root, defaultNCCL, libraryPath)) > 0 {
		return defaultNCCL, nil
	}
	passed := fs.ErrNotExist
	packaged, complete := library.Packaged(root, library.NCCLPackaged)
	for _, name := range packaged {
		if _, err := ownership.Check(root, name); err != nil {
			passed = err
			continue
		}
		return filepath.Join(root, name), nil
	}
	if !complete {
		return "", fmt.Errorf("look for %s: more than %d, none of them trusted: %w", defaultNCCL, len(packaged), passed)
	}
	return "", fmt.Errorf("look for %s, which neither the loader nor Python has: %w", defaultNCCL, passed)
}
