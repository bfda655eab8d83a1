// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/log"
)

// setup is what a log said so far of how NCCL was set up, of all communicators together.
type setup struct {
	gap      bool // some lines were not read: what the others lack is unknown
	complete bool // a communicator was made
	network  log.Carrier
	fallback bool // the network is Socket, which NCCL falls back to
	spread   bool // ranks of a communicator are on several hosts
	mnnvl    bool // NVLink may connect them
	links    links
	nvls     nvls
	sharp    bool // the job requests sums in switches
	few      bool // only from a number of nodes on
	chosen   bool // the job names the algorithms that it wants (NCCL_ALGO)
	collNet  bool // there are connections for them
	pxn      bool // a connection goes over the NIC of another GPU
	off      struct{ nvls, pxn bool }
	longest  time.Duration // set-up of a communicator on a rank
}

// links are the kinds of connections between nodes.
type links struct{ gdr, rdma, tcp, other bool }

// nvls is about sums in NVSwitches: whether a GPU can take part, and whether the numbers of channels were
// logged and above 0. Before NCCL 2.21 the number is above 0 where they are not used, too (ncclNvlsInit in
// transport/nvls.cc).
type nvls struct{ can, counted, used, vague bool }

func (s *setup) add(l *log.Log) {
	s.complete = s.complete || l.Complete
	if l.Network != "" {
		s.network, s.fallback = log.CarrierOf(l.Network), l.Network == "Socket"
	}
	s.spread, s.mnnvl = s.spread || l.Nodes > 1, s.mnnvl || l.MNNVL
	for i := range l.Links {
		s.link(&l.Links[i])
	}
	if l.Setup != nil {
		s.longest = max(s.longest, time.Duration(l.Setup.Total*float64(time.Second)))
	}
	s.nvls.can = s.nvls.can || l.NVLSMulticast == log.Yes
	s.nvls.counted = s.nvls.counted || l.NVLSChannels >= 0
	s.nvls.used = s.nvls.used || l.NVLSChannels > 0
	s.collNet = s.collNet || l.CollNet
	s.pxn = s.pxn || l.PXN
	if release, err := fabric.ParseNCCLVersion(l.Version); err == nil && !release.AtLeast("2.21") {
		s.nvls.vague = true
	}
	for _, v := range l.Settings {
		s.set(v)
	}
}

func (s *setup) set(v log.Setting) {
	switch v.Name {
	case "NCCL_NVLS_ENABLE":
		s.off.nvls = s.off.nvls || v.Value == "0"
	case "NCCL_COLLNET_ENABLE":
		s.sharp = s.sharp || v.Value == "1"
	case "NCCL_COLLNET_NODE_THRESHOLD":
		s.few = true
	case "NCCL_PXN_DISABLE":
		s.off.pxn = s.off.pxn || v.Value == "1"
	case "NCCL_ALGO":
		s.chosen = true
	}
}

func (s *setup) link(l *log.Link) {
	if l.Via != log.Net {
		return
	}
	switch carrier := log.CarrierOf(l.Name); {
	case carrier == log.Verbs && l.GPUDirect:
		s.links.gdr = true
	case carrier == log.Verbs:
		s.links.rdma = true
	case carrier == log.Sockets && l.Name != log.FastSocket:
		s.links.tcp = true
	default:
		s.links.other = true
	}
}

// transport is the worst of the connections, or without any the network, if ranks on several hosts need it:
// NCCL logs its network in jobs of one host, too.
func (s *setup) transport() fabric.LogTransport {
	switch {
	case s.links.tcp:
		return fabric.LogTCP
	case s.links.other:
		return fabric.LogOther
	case s.links.rdma:
		return fabric.LogRDMA
	case s.links.gdr:
		return fabric.LogGDR
	case !s.spread || s.mnnvl:
		return fabric.LogUnknown
	case s.network == log.Verbs:
		return fabric.LogRDMA
	case s.network == log.Sockets && s.fallback:
		return fabric.LogTCP
	case s.network != "":
		return fabric.LogOther
	}
	return fabric.LogUnknown
}

// offloads reports whether what could be used is used. For sums in switches this is unknown where the job
// chooses algorithms itself.
func (s *setup) offloads() fabric.Offloads {
	var o fabric.Offloads
	between := s.links != (links{})
	if !s.chosen {
		if !s.nvls.vague {
			o.NVLS = s.offload(s.nvls.used, s.nvls.can && s.nvls.counted, s.off.nvls)
		}
		// a NIC that can says nothing of the switches
		o.SHARP = s.offload(s.collNet, s.sharp && !s.few && between && s.complete, false)
	}
	o.PXN = s.offload(s.pxn, false, s.off.pxn && between)
	return o
}

// offload says it of one. A log of which a part was not read may have said that it is used.
func (s *setup) offload(used, could, off bool) fabric.Offload {
	switch {
	case used:
		return fabric.OffloadUsed
	case off:
		return fabric.OffloadOff
	case could && !s.gap:
		return fabric.OffloadUnused
	}
	return ""
}
