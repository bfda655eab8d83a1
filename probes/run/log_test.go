// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/probes"
)

// Lines of NCCL, without what comes before.
const (
	logIB       = "Using network IB"
	logSocket   = "Using network Socket"
	logOFI      = "Using network AWS Libfabric"
	logComplete = "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE"
	logGDR      = "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'"
	logNoGDR    = "NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'"
	viaIB       = "Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/0/GDRDMA"
	viaIBHost   = "Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/0"
	viaSocket   = "Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket/0"
	viaOFI      = "Channel 00/0 : 1[0] -> 0[0] [send] via NET/AWS Libfabric/0/GDRDMA"
	viaP2P      = "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
	viaSHM      = "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct"
	viaSHARP    = "CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA"
	countsNVLS  = "16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 16 p2p channels per peer"
	countsPlain = "4 coll channels, 4 collnet channels, 0 nvls channels, 4 p2p channels, 4 p2p channels per peer"
)

// word is a fact in short: its value, - if it is absent, ? if it is not known.
func word[T any](f probes.Fact[T]) string {
	switch f.State {
	case fabric.OK:
		return fmt.Sprint(f.Value)
	case fabric.Absent:
		return "-"
	}
	return "?"
}

func TestPaths(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind probes.Kind
		logs [][]string
		want string // path, network, GPUDirect, NVLS, SHARP, channels
	}{
		{"nothing logged", probes.Node, [][]string{{}, {}}, "? '' ? ? ? ?"},
		{"ended early", probes.Transport, [][]string{{logIB}}, "ib 'IB' ? ? ? ?"},
		{"one rank, IB", probes.Transport, [][]string{{logIB, logGDR, countsPlain, logComplete}}, "ib 'IB' true false false 4"},
		{"one rank, IB, no GDR on one HCA", probes.Transport, [][]string{{logIB, logNoGDR, logGDR, logComplete}}, "ib 'IB' false ? false ?"},
		{"one rank, an HCA of a network that is not used", probes.Transport, [][]string{{logOFI, logNoGDR, logComplete}}, "plugin 'AWS Libfabric' ? ? false ?"},
		{"one rank, TCP", probes.Transport, [][]string{{logSocket, logComplete}}, "socket 'Socket' - ? false ?"},
		{"node over NVLink", probes.Node, [][]string{{logIB, logGDR, viaP2P, countsPlain, logComplete}, {logIB, viaP2P, logComplete}}, "p2p 'IB' true false false 4"},
		{"node without network", probes.Node, [][]string{{logSocket, viaP2P, logComplete}, {logSocket, viaP2P, logComplete}}, "p2p 'Socket' - ? false ?"},
		{"node, one pair through memory", probes.Node, [][]string{{logSocket, viaP2P, logComplete}, {logSocket, viaP2P, viaSHM, logComplete}}, "shm 'Socket' - ? false ?"},
		{"node with NVLS alone", probes.Node, [][]string{{logIB, logGDR, countsNVLS, logComplete}, {logIB, countsNVLS, logComplete}}, "nvls 'IB' true true false 16"},
		{"node with NVLS and rings", probes.Node, [][]string{{logIB, logGDR, viaP2P, countsNVLS, logComplete}, {logIB, countsNVLS, logComplete}}, "p2p 'IB' true true false 16"},
		{"rail", probes.Rail, [][]string{{logIB, viaIB, logComplete}, {logIB, viaIB, logComplete}}, "ib 'IB' true ? false ?"},
		{"rail, GDR lost", probes.Rail, [][]string{{logIB, logGDR, viaIB, viaIBHost, logComplete}, {logIB, viaIB, logComplete}}, "ib 'IB' false ? false ?"},
		{"rail, the second GPU is far", probes.Rail, [][]string{{logIB, viaIB, logComplete}, {logIB, viaIBHost, logComplete}}, "ib 'IB' true ? false ?"},
		{"two nodes in one, GDR lost", probes.Socket, [][]string{{logIB, viaIB, logComplete}, {logIB, viaIBHost, logComplete}}, "ib 'IB' false ? false ?"},
		{"sockets", probes.Socket, [][]string{{logSocket, viaSocket, logComplete}, {logSocket, viaSocket, logComplete}}, "socket 'Socket' - ? false ?"},
		{"one rank fell back to TCP", probes.Rail, [][]string{{logIB, viaIB}, {logSocket, viaSocket}}, "socket 'Socket' true ? ? ?"},
		{"plugin", probes.Rail, [][]string{{logOFI, viaOFI, logComplete}, {logOFI, viaOFI, logComplete}}, "plugin 'AWS Libfabric' true ? false ?"},
		{"HPC-X", probes.Rail, [][]string{{"Using network IBext_v8", "Channel 00/0 : 1[0] -> 0[0] [send] via NET/IBext_v8/0/GDRDMA", logComplete}, {"Using network IBext_v8", logComplete}}, "ib 'IBext_v8' true ? false ?"},
		{"HPC-X without GDR", probes.Rail, [][]string{{"Using network IBext_v8", "Channel 00/0 : 1[0] -> 0[0] [send] via NET/IBext_v8/1", logComplete}, {"Using network IBext_v8", logComplete}}, "ib 'IBext_v8' false ? false ?"},
		{"HPC-X, one rank", probes.Transport, [][]string{{"Using network IBext_v11", "NET/IBext_v11 : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", logComplete}}, "ib 'IBext_v11' true ? false ?"},
		{"gIB", probes.Transport, [][]string{{"Using network gIB", logComplete}}, "ib 'gIB' ? ? false ?"},
		{"FastSocket", probes.Transport, [][]string{{"Using network FastSocket", logComplete}}, "socket 'FastSocket' - ? false ?"},
		{"FastSocket has no GPUDirect to lose", probes.Socket, [][]string{{"Using network FastSocket", "Channel 00/0 : 1[0] -> 0[0] [send] via NET/FastSocket/0", logComplete}, {logComplete}}, "socket 'FastSocket' - ? false ?"},
		{"TCPX", probes.Transport, [][]string{{"Using network GPUDirectTCPX_v7", logComplete}}, "plugin 'GPUDirectTCPX_v7' ? ? false ?"},
		{"SHARP", probes.Node, [][]string{{logIB, viaP2P, viaSHARP, logComplete}, {logIB, logComplete}}, "plugin 'IB' true ? true ?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := probes.Result{Key: probes.Key{Kind: tt.kind}, At: time.Now()}
			var logs []log.Log
			for _, lines := range tt.logs {
				var b strings.Builder
				for _, line := range lines {
					b.WriteString("gpu1:1:1 [0] NCCL INFO " + line + "\n")
				}
				logs = append(logs, log.Parse([]byte(b.String()), nil, 0))
			}
			tellPaths(&r, logs)
			got := fmt.Sprintf("%s '%s' %s %s %s %s", word(r.Path), r.Network, word(r.GPUDirect), word(r.NVLS), word(r.SHARP), word(r.Channels))
			if got != tt.want {
				t.Errorf("%s, expected %s", got, tt.want)
			}
		})
	}
}

func TestExcerpt(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	kept := strings.Repeat(line, 655) // 64 KiB, less 36 bytes
	for _, tt := range []struct {
		name       string
		head, tail string
		dropped    int64
		want       string
	}{
		{"all", "a\n\n  b\x1b[31m\xff\n", "c", 0, "a\nb [31m?\nc\n"},
		{"cut in a line, nothing dropped", "one li", "ne\n", 0, "one line\n"},
		{"nothing", "", "", 0, ""},
		{"long", kept, kept, 0, strings.Repeat(line, 30) + "[122900 bytes left out]\n" + strings.Repeat(line, 51)},
		{"gigabytes", kept, kept, 5e9, strings.Repeat(line, 30) + "[5000122900 bytes left out]\n" + strings.Repeat(line, 51)},
		{"gigabytes in one line", strings.Repeat("y", 65536), strings.Repeat("z", 65536), 5e9, "[5000125952 bytes left out]\n" + strings.Repeat("z", maxExcerptTail) + "\n"},
		{"little dropped", "a\nb", "c\nd\n", 3, "a\n[6 bytes left out]\nd\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := excerpt([]byte(tt.head), []byte(tt.tail), tt.dropped); got != tt.want {
				t.Errorf("got\n%.200s...\nexpected\n%.200s...", got, tt.want)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	for code, want := range map[int]string{22703: "2.27.3", 21200: "2.12.0", 2804: "2.8.4", 23007: "2.30.7", 20905: "2.9.5"} {
		if got := versionOf(code); got != want {
			t.Errorf("NCCL %d is %s, expected %s", code, got, want)
		}
	}
	for code, want := range map[int]string{0: "", 13000: "13.0", 12040: "12.4", 11080: "11.8"} {
		if got := cudaVersionOf(code); got != want {
			t.Errorf("CUDA %d is %s, expected %s", code, got, want)
		}
	}
}
