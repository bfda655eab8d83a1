// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"time"

	"gpufabric_exporter/internal/fabric"
)

// NCCLFiles says where the site keeps NCCL configuration beside /etc/nccl.conf.
type NCCLFiles struct {
	Environment string // KEY=value file that jobs get as environment; empty: none
	Home        string // folder whose .nccl.conf counts; empty: none
}

// NCCL reads the NCCL configuration of the host.
type NCCL interface {
	Read(now time.Time) (fabric.NCCLConfig, error)
}

// wantNCCLFiles is for what NCCL's configuration is read: the roles of devices follow it too.
const wantNCCLFiles = fabric.WantNCCL | fabric.WantHCA

// readNCCL reads the files that are configured when it begins.
func (ob *Observer) readNCCL(_ fabric.NCCLConfig, now time.Time) (fabric.NCCLConfig, error) {
	ob.mu.Lock()
	conf := ob.conf
	ob.mu.Unlock()
	return conf.Read(now)
}
