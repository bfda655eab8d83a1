// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/settings"
)

// Version is a release of NCCL.
type Version = fabric.NCCLVersion

// Newest is the newest release that the table of variables knows.
func Newest() Version {
	v, _ := fabric.ParseNCCLVersion(settings.NewestNCCL)
	return v
}

// LibraryVersion returns the release of the NCCL library of a node and its path, else the given release.
func LibraryVersion(node *fabric.Node, otherwise Version) (v Version, path string) {
	found, known := node.NCCL.Library.Get()
	if !known {
		return otherwise, ""
	}
	v, err := fabric.ParseNCCLVersion(found.Version)
	if err != nil {
		return otherwise, ""
	}
	return v, found.Path
}
