// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"io/fs"
	"os"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/ncclconf"
	"gpufabric_exporter/internal/host/netlink"
	"gpufabric_exporter/internal/host/rank"
	"gpufabric_exporter/internal/host/rdmanl"
	"gpufabric_exporter/internal/host/sockdiag"
	"gpufabric_exporter/internal/host/sysfs"
)

// ranksOf opens the reader of the processes of this kernel. It loads no module: neither tcp_diag nor, by a socket, ib_core.
func ranksOf(o *Options, sys *sysfs.FS) (Ranks, error) {
	return rank.Open(o.Procfs, rank.Sources{
		Variable: ncclconf.Exposed,
		Conf:     ncclconf.ExposedConf,
		Sockets: func(namespace *os.File) (rank.Sockets, error) {
			switch {
			case !sockdiag.Loaded(o.Procfs, o.Rootfs):
				return nil, fabric.Because(fabric.ReasonMissing, "tcp_diag is not loaded: run modprobe tcp_diag")
			case namespace != nil:
				return sockdiag.DialIn(namespace)
			}
			return sockdiag.Dial()
		},
		Verbs: func() (map[int]*fabric.VerbsUse, error) { return verbsUse(sys) },
	})
}

// verbsUse returns what threads have of verbs, by their IDs.
func verbsUse(sys *sysfs.FS) (map[int]*fabric.VerbsUse, error) {
	if _, err := sys.Devices(); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
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
	use, err := c.Use(devices)
	return use.ByTask, err
}
