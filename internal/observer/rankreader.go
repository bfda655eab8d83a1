// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/cgroup"
	"gpufabric_exporter/internal/host/netlink"
	"gpufabric_exporter/internal/host/numa"
	"gpufabric_exporter/internal/host/podresources"
	"gpufabric_exporter/internal/host/rdmanl"
	"gpufabric_exporter/internal/host/sockdiag"
	"gpufabric_exporter/internal/host/sysfs"
	"gpufabric_exporter/internal/jobs/owned"
	"gpufabric_exporter/internal/jobs/rank"
	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/settings"
)

// namedRanks are processes whose pods have the names that the kubelet of the node has for them.
type namedRanks struct {
	*rank.Reader
	pods   *podresources.Namer
	log    *slog.Logger
	failed bool // the last question
}

func (r *namedRanks) Read(gpus *fabric.GPUDriver, now time.Time) ([]fabric.RankCandidate, fabric.Fact[uint64], error) {
	list, netns, err := r.Reader.Read(gpus, now)
	unnamed := r.pods.Name(context.Background(), list, now)
	if unnamed != nil && !r.failed {
		r.log.Warn("jobs in pods have the UID of their pod for a name", "err", unnamed)
	}
	r.failed = unnamed != nil
	return list, netns, err
}

// ranksOf opens the reader of the processes of this kernel. It loads no module: neither tcp_diag nor, by a
// socket, ib_core.
func ranksOf(o *Options, sys *sysfs.FS) (Ranks, error) {
	var distances func(cpus string) []int
	if nodes, err := numa.Read(o.Sysfs); err == nil { // else the machine has no NUMA, or nothing is known of it
		distances = nodes.From
	}
	r, err := rank.Open(o.Procfs, rank.Sources{
		Distances: distances,
		Variable:  settings.Exposed,
		Conf:      settings.ExposedConf,
		Log:       logOf,
		Users:     owned.UsersOf(o.Rootfs),
		Sockets: func(namespace *os.File) (rank.Sockets, error) {
			switch {
			case !sockdiag.Loaded(o.Procfs, o.Rootfs):
				return nil, fabric.Because(fabric.ReasonMissing, "tcp_diag is not loaded: run modprobe tcp_diag")
			case namespace != nil:
				return sockdiag.DialIn(namespace)
			}
			return sockdiag.Dial()
		},
		Cgroup: cgroup.New(filepath.Join(o.Sysfs, "fs/cgroup")).ID,
		Verbs:  func(process func(int) int) (map[int]*fabric.VerbsUse, error) { return verbsUse(sys, process) },
	})
	if err != nil {
		return nil, err
	}
	kubelet := podresources.New(filepath.Join(o.Rootfs, podresources.DefaultSocket))
	return &namedRanks{Reader: r, pods: podresources.NewNamer(kubelet.Containers), log: o.Log}, nil
}

// logOf returns which networks NCCL says that it made connections over.
func logOf(head, tail []byte, dropped int64) fabric.NCCLLog {
	var said fabric.NCCLLog
	for _, link := range log.Parse(head, tail, dropped).Links {
		switch carrier := log.CarrierOf(link.Name); {
		case link.Via != log.Net:
		case carrier == log.Verbs:
			said.Verbs = true
		case carrier == log.Sockets && link.Name != log.FastSocket:
			said.Sockets = true
		default:
			said.Other = true
		}
	}
	return said
}

// verbsUse returns what processes have of verbs, by their PIDs.
func verbsUse(sys *sysfs.FS, process func(task int) int) (map[int]*fabric.VerbsUse, error) {
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
	use, err := c.Use(devices, process)
	return use.ByProcess, err
}
