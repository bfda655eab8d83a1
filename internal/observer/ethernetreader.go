// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/dcbnl"
	"gpufabric_exporter/internal/host/ethtool"
	"gpufabric_exporter/internal/host/netlink"
	"gpufabric_exporter/internal/host/sysfs"
)

// ethernetReader asks the drivers of a kernel's interfaces. Its sockets are opened with the first question: a node
// without an Ethernet port needs none.
type ethernetReader struct {
	dialDCB  func() (*dcbnl.Client, error)
	openTool func() (*ethtool.Client, error)

	dcb  *dcbnl.Client
	tool *ethtool.Client
	// asked counts what sockets before these were used for.
	asked fabric.Commands
}

// ethernetOf returns what answers for the interfaces of a sysfs: its kernel, recordings in a folder, or nil. A copy
// of some sysfs has nothing to do with this kernel's interfaces.
func ethernetOf(recordings string, sys *sysfs.FS) (*ethernetReader, error) {
	r := &ethernetReader{dialDCB: dcbnl.Dial, openTool: ethtool.Open, asked: fabric.Commands{}}
	switch {
	case recordings != "":
		dcb, err := recorded(recordings, dcbnl.File)
		tool, toolErr := recorded(recordings, ethtool.File)
		if err = errors.Join(err, toolErr); err != nil || dcb == nil && tool == nil {
			return nil, err
		}
		r.dialDCB = func() (*dcbnl.Client, error) { return dcbnl.Replay(dcb), nil }
		r.openTool = func() (*ethtool.Client, error) { return ethtool.Replay(tool) }
	case !sys.IsKernel():
		return nil, nil
	}
	return r, nil
}

// recorded loads exchanges from a file in a folder of recordings; nil where there is none, as in a capture of a copy
// of some sysfs.
func recorded(folder, file string) ([]netlink.Exchange, error) {
	list, err := netlink.Load(filepath.Join(folder, file))
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(folder)
		return nil, err
	}
	return list, err
}

func (r *ethernetReader) open() (err error) {
	if r.dcb == nil {
		if r.dcb, err = r.dialDCB(); err != nil {
			return err
		}
	}
	if r.tool == nil {
		r.tool, err = r.openTool()
	}
	return err
}

// ReadQoS asks over both ways, even if one of them fails.
func (r *ethernetReader) ReadQoS(netdev string, q *fabric.QoS, now time.Time) error {
	if err := r.open(); err != nil {
		return err
	}
	err := errors.Join(r.dcb.Read(netdev, q, now), r.tool.Read(netdev, q, now))
	r.drop(err)
	return err
}

// drop closes a socket that can no longer be trusted; the next question opens a new one. What it asked stays counted.
func (r *ethernetReader) drop(err error) {
	if errors.Is(err, netlink.ErrBroken) {
		r.asked.Add(r.dcb.Commands())
		r.dcb.Close()
		r.dcb = nil
	}
}

func (r *ethernetReader) Statistics(netdev string, wanted func(string) bool, now time.Time) ([]fabric.Counter, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	return r.tool.Statistics(netdev, wanted, now)
}

// Instance returns the number of the interface that was read last.
func (r *ethernetReader) Instance(netdev string) uint32 {
	if r.tool == nil {
		return 0
	}
	return r.tool.Instance(netdev)
}

// answers reports whether the kernel has ethtool netlink.
func (r *ethernetReader) answers() bool {
	return r.open() == nil && r.tool.HasNetlink()
}

func (r *ethernetReader) Commands() fabric.Commands {
	asked := maps.Clone(r.asked)
	if r.dcb != nil {
		asked.Add(r.dcb.Commands())
	}
	if r.tool != nil {
		asked.Add(r.tool.Commands())
	}
	return asked
}

func (r *ethernetReader) Close() {
	if r.dcb != nil {
		r.dcb.Close()
	}
	if r.tool != nil {
		r.tool.Close()
	}
	r.dcb, r.tool, r.asked = nil, nil, fabric.Commands{}
}
