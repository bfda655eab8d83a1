// SPDX-License-Identifier: Apache-2.0

package rank_test

import (
	"errors"
	"os"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
	"gpufabric_exporter/internal/host/rdmanl"
	"gpufabric_exporter/internal/host/sockdiag"
	"gpufabric_exporter/internal/jobs/rank"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/observer"
)

// A Reader is what the observer takes.
var _ observer.Ranks = (*rank.Reader)(nil)

// The readers of sockets and of RDMA objects as sources of a Reader.
func Example() {
	const procfs, sysfs, rootfs = "/proc", "/sys", "/"
	r, err := rank.Open(procfs, rank.Sources{
		Variable: settings.Exposed,
		Sockets: func(namespace *os.File) (rank.Sockets, error) {
			switch {
			case !sockdiag.Loaded(procfs, rootfs): // this program has no module loaded
				return nil, fabric.Because(fabric.ReasonMissing, "tcp_diag is not loaded: run modprobe tcp_diag")
			case namespace != nil:
				return sockdiag.DialIn(namespace)
			}
			return sockdiag.Dial()
		},
		Verbs: func(process func(task int) int) (map[int]*fabric.VerbsUse, error) {
			if _, err := os.Stat(sysfs + "/class/infiniband"); errors.Is(err, os.ErrNotExist) {
				return nil, nil // no RDMA: a socket would load ib_core
			}
			c, err := rdmanl.Dial()
			if err != nil {
				return nil, err
			}
			defer c.Close()
			devices, err := c.Devices()
			if errors.Is(err, netlink.ErrInterrupted) { // a device came or went
				devices, err = c.Devices()
			}
			if err != nil {
				return nil, err
			}
			use, err := c.Use(devices, process)
			return use.ByProcess, err
		},
	})
	if err != nil {
		return
	}
	defer r.Close()
}
