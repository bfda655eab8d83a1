// SPDX-License-Identifier: Apache-2.0

package log

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// nothing is what an empty log says, with changes.
func nothing(change func(*Log)) Log {
	l := Log{Channels: Unknown, NVLSChannels: Unknown}
	change(&l)
	return l
}

func link(via Via, name string, device int, gdr bool) func(*Log) {
	return func(l *Log) { l.Links = []Link{{via, name, device, gdr, 1}} }
}

// TestLines has the lines of each release, as its format strings make them.
func TestLines(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       func(*Log)
	}{
		{"version 2.12, at level VERSION", "NCCL version 2.12.12+cuda11.6", func(l *Log) { l.Version, l.CUDA = "2.12.12", "11.6" }},
		{"version 2.27, at level INFO", "gpu1:41:41 [0] NCCL INFO NCCL version 2.27.3+cuda12.9", func(l *Log) { l.Version, l.CUDA = "2.27.3", "12.9" }},
		{"version of a release candidate", "NCCL version 2.30.1rc2+cuda13.0", func(l *Log) { l.Version, l.CUDA = "2.30.1rc2", "13.0" }},
		{"version, that is none", "NCCL version of my dreams", func(*Log) {}},
		{"driver", "gpu1:41:41 [0] NCCL INFO cudaDriverVersion 12040", func(l *Log) { l.Driver = 12040 }},

		{"network IB", "gpu1:41:50 [0] NCCL INFO Using network IB", func(l *Log) { l.Network = "IB" }},
		{"network of a plugin", "gpu1:41:50 [3] NCCL INFO Using network AWS Libfabric", func(l *Log) { l.Network = "AWS Libfabric" }},
		{"words of launchers before", "[rank0]: (Worker pid=7) 2026-01-02T03:04:05Z stdout F gpu1:41:50 [0] NCCL INFO Using network Socket", func(l *Log) { l.Network, l.Fallback = "Socket", true }},
		{"no device number", "gpu1:41:50 NCCL INFO Using network Socket", func(l *Log) { l.Network, l.Fallback = "Socket", true }},
		{"network of a site made of TCP", "gpu1:41:50 [0] NCCL INFO Using network FastSocket", func(l *Log) { l.Network = "FastSocket" }},
		{"nodes 2.20", "gpu1:41:50 [0] NCCL INFO comm 0x55d0 rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0", func(l *Log) { l.Nodes, l.Local, l.NoMNNVL = 2, 8, true }},
		{"nodes with NVLink between them", "gpu1:41:50 [0] NCCL INFO comm 0x55d0 rank 3 nRanks 8 nNodes 2 localRanks 4 localRank 3 MNNVL 1", func(l *Log) { l.Nodes, l.Local, l.MNNVL = 2, 4, true }},
		{"GPU of an NVLink domain", "gpu1:41:50 [0] NCCL INFO MNNVL busId 0x1000 fabric UUID 7f00aa.11bb22 cliqueId 0x7ffe state 3 healthMask 0x0", func(l *Log) { l.Clique = true }},
		{"GPU of none", "gpu1:41:50 [0] NCCL INFO MNNVL busId 0x1000 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0", func(*Log) {}},
		{"RCCL", "gpu1:41:50 [0] NCCL INFO ROCr version 1.18", func(l *Log) { l.RCCL = true }},
		{"nodes, that are no number", "gpu1:41:50 [0] NCCL INFO comm 0x55d0 rank 3 nRanks 8 nNodes many", func(*Log) {}},

		{"bootstrap 2.23", "gpu1:41:41 [21845] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>", func(l *Log) { l.Bootstrap = "eth0:10.0.0.1<0>" }},
		{"bootstrap 2.24", "gpu1:41:41 [0] NCCL INFO Bootstrap: Using eth0:fe80::1%eth0<0>", func(l *Log) { l.Bootstrap = "eth0:fe80::1%eth0<0>" }},

		{
			"IB devices", "gpu1:41:50 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_10:2/IB [RO]; OOB eth0:10.0.0.1<0>",
			func(l *Log) { l.Devices = []Device{{"mlx5_0", 1, "RoCE"}, {"mlx5_10", 2, "IB"}} },
		},
		{
			"IB devices, merged, 2.20 to 2.23", "gpu1:41:50 [0] NCCL INFO NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [1]mlx5_2:1/IB ; OOB eth0:10.0.0.1<0>",
			func(l *Log) { l.Devices = []Device{{"mlx5_0", 1, "RoCE"}, {"mlx5_1", 1, "RoCE"}, {"mlx5_2", 1, "IB"}} },
		},
		{
			"IB devices with rail and plane, 2.30.5", "gpu1:41:50 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1:3:0/IB [1]mlx5_1:1:-1/IB; OOB eth0:10.0.0.1<0>",
			func(l *Log) { l.Devices = []Device{{"mlx5_0", 1, "IB"}, {"mlx5_1", 1, "IB"}} },
		},
		{
			"IB devices with SHARP, HPC-X 2.18 (public log in NVIDIA/nccl#1357)", "gpu1:41:50 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_4:1/IB/SHARP [RO]; OOB ibp25s0:10.20.0.119<0>",
			func(l *Log) { l.Devices = []Device{{"mlx5_0", 1, "IB"}, {"mlx5_4", 1, "IB"}} },
		},
		{
			"one device, relaxed ordering, no OOB, 2.12", "gpu1:41:50 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE/SHARP [RO]",
			func(l *Log) { l.Devices = []Device{{"mlx5_0", 1, "RoCE"}} },
		},
		{"an OOB interface is no device", "gpu1:41:50 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB bond0.526:10.0.0.1<0>", func(l *Log) { l.Devices = []Device{{"mlx5_0", 1, "IB"}} }},
		{"no plugin, 2.18", "gpu1:41:50 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation", func(l *Log) { l.NoPlugin = true }},
		{"no plugin, 2.26", "gpu1:41:50 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.", func(l *Log) { l.NoPlugin = true }},
		{"no plugin, loader", "gpu1:41:50 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory : when loading libnccl-net.so", func(l *Log) { l.NoPlugin = true }},
		{"plugin without a library", "gpu1:41:50 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libfabric.so.1: cannot open shared object file: No such file or directory : when loading libnccl-net.so", func(l *Log) { l.Unloadable = "libfabric.so.1" }},
		{"no IB device", "gpu1:41:50 [0] NCCL INFO NET/IB : No device found.", func(l *Log) { l.NoDevices = true }},
		{
			"socket interfaces", "gpu1:41:50 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>",
			func(l *Log) { l.Sockets = []string{"eth0:10.0.0.1<0>", "eth1:10.0.1.1<0>"} },
		},
		{
			"interfaces of FastSocket (public log in NVIDIA/nccl#1519)", "gpu1:41:50 [0] NCCL INFO NET/FastSocket : Using [0]enp0s12:10.0.0.6<0> [1]enp6s0f0:10.0.1.4<0>",
			func(l *Log) { l.Sockets = []string{"enp0s12:10.0.0.6<0>", "enp6s0f0:10.0.1.4<0>"} },
		},
		{"what else FastSocket says", "gpu1:41:50 [0] NCCL INFO NET/FastSocket : Tx CPU start: -2", func(*Log) {}},
		{"socket threads", "gpu1:41:50 [0] NCCL INFO NET/Socket: Using 2 threads and 8 sockets per thread", func(*Log) {}},

		{"GDR of an HCA", "gpu1:41:50 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 3 'mlx5_3'", func(l *Log) { l.HCAs = []HCA{{"IB", 3, "mlx5_3", true}} }},
		{
			"no GDR of an HCA of a plugin", "gpu1:41:50 [0] NCCL INFO NET/AWS Libfabric : GPU Direct RDMA Disabled for HCA 0 'rdmap1-rdm'",
			func(l *Log) { l.HCAs = []HCA{{"AWS Libfabric", 0, "rdmap1-rdm", false}} },
		},
		{"GDR of a pair is about its distance", "gpu1:41:50 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 5 > 4)", func(*Log) {}},
		{"GDR of a pair, 2.26", "gpu1:41:50 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for GPU 0 / HCA 0 (distance 3 <= 4), read 1 mode Default", func(*Log) {}},
		{"DMA-BUF", "gpu1:41:50 [0] NCCL INFO DMA-BUF is available on GPU device 0", func(l *Log) { l.DMABuf = true }},
		{"rings without GDR", "gpu1:41:50 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0", func(l *Log) { l.RingsGPUDirect = No }},
		{"rings with GDR", "gpu1:41:50 [0] NCCL INFO Connected all rings, use ring PXN 1 GDR 1", func(l *Log) { l.RingsGPUDirect, l.PXN = Yes, true }},
		{"rings before 2.24", "gpu1:41:50 [0] NCCL INFO Connected all rings", func(*Log) {}},

		{"channel 2.12, bus ids", "gpu1:41:50 [0] NCCL INFO Channel 00/0 : 1[1b000] -> 0[d000] [receive] via NET/IB/0/GDRDMA", link(Net, "IB", 0, true)},
		{"channel 2.18", "gpu1:41:50 [0] NCCL INFO Channel 01/0 : 1[0] -> 0[0] [send] via NET/IB/3", link(Net, "IB", 3, false)},
		{"channel 2.26, all suffixes", "gpu1:41:50 [0] NCCL INFO Channel 01/0 : 1[0] -> 0[0] [send] via NET/IB/7/GDRDMA(PCI)/Shared", link(Net, "IB", 7, true)},
		{"channel with PXN", "gpu1:41:50 [0] NCCL INFO Channel 01/0 : 1[0] -> 0[0] [send] via NET/IBext_v8/1(5)/GDRDMA/Shared", func(l *Log) { link(Net, "IBext_v8", 1, true)(l); l.PXN = true }},
		{"channel of a plugin", "gpu1:41:50 [0] NCCL INFO Channel 01/0 : 1[0] -> 0[0] [send] via NET/AWS Libfabric/2/GDRDMA", link(Net, "AWS Libfabric", 2, true)},
		{"channel of a plugin with a slash", "gpu1:41:50 [0] NCCL INFO Channel 01/0 : 1[0] -> 0[0] [send] via NET/A/B/2", link(Net, "A/B", 2, false)},
		{"channel over TCP", "gpu1:41:50 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket/0", link(Net, "Socket", 0, false)},
		{"channel to nowhere", "gpu1:41:50 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket", func(*Log) {}},
		{"P2P 2.12", "gpu1:41:50 [0] NCCL INFO Channel 00 : 0[1b000] -> 1[43000] via P2P/IPC/read", link(P2P, "IPC", Unknown, false)},
		{"P2P in a process", "gpu1:41:50 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read", link(P2P, "direct pointer", Unknown, false)},
		{"P2P 2.20", "gpu1:41:50 [0] NCCL INFO Channel 15/0 : 0[0] -> 1[1] via P2P/CUMEM", link(P2P, "CUMEM", Unknown, false)},
		{"P2P through another GPU", "gpu1:41:50 [0] NCCL INFO Channel 02/0 : 0[0] -> 5[5] via P2P/indirect/1[1]", link(P2P, "indirect", Unknown, false)},
		{"SHM to 2.30.4", "gpu1:41:50 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", link(SHM, "direct", Unknown, false)},
		{"SHM 2.30.5", "gpu1:41:50 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct", link(SHM, "direct", Unknown, false)},
		{"order of a ring", "gpu1:41:50 [0] NCCL INFO Channel 00/04 :    0   1   2   3", func(*Log) {}},
		{
			"SHARP", "gpu1:41:50 [0] NCCL INFO CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA",
			func(l *Log) { link(CollNet, "SHARP", 0, true)(l); l.CollNet = true },
		},
		{"SHARP connected", "gpu1:41:50 [0] NCCL INFO rank 0 Connected CollNet", func(l *Log) { l.CollNet = true }},

		{"counts 2.12", "gpu1:41:50 [0] NCCL INFO 4 coll channels, 8 p2p channels, 2 p2p channels per peer", func(l *Log) { l.Channels = 4 }},
		{"counts 2.17", "gpu1:41:50 [0] NCCL INFO 24 coll channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer", func(l *Log) { l.Channels, l.NVLSChannels = 24, 16 }},
		{"counts 2.21", "gpu1:41:50 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer", func(l *Log) { l.Channels, l.NVLSChannels = 2, 0 }},
		{"absurd counts", "gpu1:41:50 [0] NCCL INFO 99999999999999999999 coll channels, -4 nvls channels, 1 p2p channels", func(*Log) {}},
		{"multicast", "gpu1:41:50 [0] NCCL INFO NVLS multicast support is available on dev 0", func(l *Log) { l.NVLSMulticast = Yes }},
		{"no multicast", "gpu1:41:50 [0] NCCL INFO NVLS multicast support is not available on dev 0", func(l *Log) { l.NVLSMulticast = No }},

		{"init 2.12", "gpu1:41:50 [0] NCCL INFO comm 0x55d0 rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE", func(l *Log) { l.Complete = true }},
		{"init 2.27", "gpu1:41:50 [0] NCCL INFO ncclCommInitRankConfig comm 0x55d0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7d - Init COMPLETE", func(l *Log) { l.Complete = true }},
		{"init begins, 2.29", "gpu1:41:50 [0] NCCL INFO [Rank 0] ncclCommInitRankConfig comm 0x55d0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7d - Init START", func(*Log) {}},

		{
			"timings 2.23", "gpu1:41:50 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 2 total 2.00 (kernels 0.20, bootstrap 1.30, rest 0.50)",
			func(l *Log) { l.Setup = &Timings{0, 2, "bootstrap", 1.3} },
		},

		{"setting, a number", "gpu1:41:50 [0] NCCL INFO NCCL_IB_TC set by environment to 106.", func(l *Log) { l.Settings = []Setting{{"NCCL_IB_TC", "106"}} }},
		{"setting, a text", "gpu1:41:50 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0.", func(l *Log) { l.Settings = []Setting{{"NCCL_SOCKET_IFNAME", "eth0."}} }},
		{"setting of HCAs", "gpu1:41:50 [0] NCCL INFO NCCL_IB_HCA set to =mlx5_0:1", func(l *Log) { l.Settings = []Setting{{"NCCL_IB_HCA", "=mlx5_0:1"}} }},
		{"no setting", "gpu1:41:50 [0] NCCL INFO The level was set to 3", func(*Log) {}},

		{"WARN to 2.25", "gpu1:41:50 [0] init.cc:1785 NCCL WARN Duplicate GPU detected : rank 1", func(l *Log) { l.Warnings = []string{"Duplicate GPU detected : rank 1"} }},
		{
			"WARN 2.26", "[2026-01-02 03:04:05] gpu1:41:50 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer",
			func(l *Log) { l.Warnings = []string{"NET/IB : Got completion from peer"} },
		},
		{"WARN 2.30.5", "[2026-01-02 03:04:05] gpu1:41:50 [0] init.cc:7 (ncclFoo(int)) NCCL WARN no\x1b[31m\xff", func(l *Log) { l.Warnings = []string{"no [31m?"} }},
		{"trace of a failure", "gpu1:41:50 [0] NCCL INFO init.cc:1785 -> 1", func(l *Log) { l.Failed = "init.cc:1785 -> 1" }},
		{"trace of a failure in a thread", "gpu1:41:50 [0] NCCL INFO group.cc:64 -> 5 [Async thread]", func(l *Log) { l.Failed = "group.cc:64 -> 5 [Async thread]" }},
		{
			"trace of a failure, 2.30.5 (public log in NVIDIA/nccl#2237)", "gpu1:41:50 [0] NCCL INFO transport/net_ib/gdaki/gin_host_gdaki.cc:683 (ncclGinGdakiCreateContext) -> 2",
			func(l *Log) {
				l.Failed = "transport/net_ib/gdaki/gin_host_gdaki.cc:683 (ncclGinGdakiCreateContext) -> 2"
			},
		},
		{
			"trace of a failed system call, 2.30.5", "gpu1:41:50 [0] NCCL INFO misc/socket.cc:90 (socketBind) -> 2 (Address already in use)",
			func(l *Log) { l.Failed = "misc/socket.cc:90 (socketBind) -> 2 (Address already in use)" },
		},
		{"a call that is in progress", "gpu1:41:50 [0] NCCL INFO init.cc:1785 -> 7", func(*Log) {}},
		{"no trace", "gpu1:41:50 [0] NCCL INFO init.cc:1785 bytes -> 2", func(*Log) {}},
		{"a tree", "gpu1:41:50 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1", func(*Log) {}},
		{"another program", "NCCL? never heard of NCCL", func(*Log) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, want := Parse([]byte(tt.line+"\n"), nil, 0), nothing(tt.want); !reflect.DeepEqual(got, want) {
				t.Errorf("%s\ngot      %+v\nexpected %+v", tt.line, got, want)
			}
		})
	}
}

func TestCarriers(t *testing.T) {
	for network, want := range map[string]Carrier{
		"IB": Verbs, "IBext": Verbs, "IBext_v6": Verbs, "IBext_v8": Verbs, "IBext_v11": Verbs, "gIB": Verbs,
		"Socket": Sockets, "FastSocket": Sockets,
		"AWS Libfabric": OtherCarrier, "Libfabric": OtherCarrier, "UCX": OtherCarrier, "UCX_v8": OtherCarrier, "FasTrak": OtherCarrier, "GPUDirectTCPX_v7": OtherCarrier,
		"IBextreme": OtherCarrier, "SHARP": OtherCarrier, "": OtherCarrier,
	} {
		if got := CarrierOf(network); got != want {
			t.Errorf("%q is carried by %s, expected %s", network, got, want)
		}
	}
}

func TestParseWhereBytesWereDropped(t *testing.T) {
	const line = "gpu1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA\n"
	for at := range len(line) {
		if got := Parse([]byte(line+line[:at]), []byte(line[at:]+line), 0).Links; !reflect.DeepEqual(got, []Link{{Net, "IB", 0, true, 3}}) {
			t.Errorf("cut at %d with nothing dropped: %+v, expected 3 connections", at, got)
		}
		// What is left of a line that was cut must not be taken for another one: "via NET/IB/0" has no GPUDirect.
		if got := Parse([]byte(line+line[:at]), []byte(line[at:]+line), 7).Links; !reflect.DeepEqual(got, []Link{{Net, "IB", 0, true, 2}}) {
			t.Errorf("cut at %d: %+v, expected 2 connections", at, got)
		}
	}
}

func TestParseIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "x NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/n%d/0\n", i)
		fmt.Fprintf(&b, "x NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA %d 'x'\n", i)
		fmt.Fprintf(&b, "x NCCL INFO NCCL_X%d set by environment to %d.\n", i, i)
		fmt.Fprintf(&b, "x y.cc:1 NCCL WARN %d %s\n", i, strings.Repeat("w", 9000))
	}
	l := Parse([]byte(b.String()), nil, 0)
	if len(l.Links) != maxLinks || len(l.HCAs) != maxDevices || len(l.Settings) != maxSettings || len(l.Warnings) != maxWarnings || len(l.Warnings[0]) != MaxText {
		t.Errorf("%d links, %d HCAs, %d settings, %d warnings", len(l.Links), len(l.HCAs), len(l.Settings), len(l.Warnings))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("a NCCL INFO Channel 00/0 : 0[0] -> 1[1] via NET/IB/0/GDRDMA\nb NCCL WARN x\n"), []byte("NCCL version 2.1+cuda1\n"), int64(0))
	f.Add([]byte("a NCCL INFO NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] m:1/IB} [RO]; OOB e:1<0>\n"), []byte("x NCCL INFO 1 coll channels, 2 nvls channels"), int64(1))
	f.Add([]byte("a NCCL INFO NCCL_A set by environment to 1.\n"), []byte("a NCCL INFO NET/Socket : Using [0]e:1<0>\na NCCL INFO x.cc:1 -> 2"), int64(-1))
	f.Fuzz(func(t *testing.T, head, tail []byte, dropped int64) {
		l := Parse(head, tail, dropped)
		if len(l.Links) > maxLinks || len(l.Devices) > maxDevices || len(l.Sockets) > maxDevices || len(l.HCAs) > maxDevices ||
			len(l.Settings) > maxSettings || len(l.Warnings) > maxWarnings || l.Channels < Unknown || l.NVLSChannels < Unknown {
			t.Errorf("not bounded: %+v", l)
		}
		texts := slices.Concat(l.Warnings, l.Sockets, []string{l.Version, l.CUDA, l.Network, l.Bootstrap, l.Failed})
		for _, v := range l.Links {
			texts = append(texts, v.Name)
		}
		for _, v := range l.Settings {
			texts = append(texts, v.Name, v.Value)
		}
		for _, v := range l.Devices {
			texts = append(texts, v.Name, v.LinkLayer)
		}
		for _, s := range texts {
			if len(s) > MaxText || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q is not fit to be printed", s)
			}
		}
	})
}
