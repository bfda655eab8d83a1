// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/ncclconf"
)

// Version is a release of NCCL.
type Version = fabric.NCCLVersion

// Newest is the newest release that the table of variables knows.
func Newest() Version {
	v, _ := fabric.ParseNCCLVersion(ncclconf.NewestNCCL)
	return v
}
