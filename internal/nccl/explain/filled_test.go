// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
)

// Sentences where a log has values are not taken over.
func TestSentencesAsValues(t *testing.T) {
	set := func(name, value string) string { return says(name + " set by environment to " + value) }
	socket := warn("bootstrap.cc:7", "Bootstrap : no socket interface found")
	const far = "GPU Direct RDMA Disabled for GPU 7000 / HCA 7 (distance 9 > 4)"
	const channel = "Channel 00/0 : 1[7000] -> 0[7000] [send] via NET/IB/0"
	for name, log := range map[string]string{
		"a setting":  set("NCCL_SOCKET_IFNAME", "eth0 is fine. The host evil7 is broken") + socket,
		"quotes":     set("NCCL_SOCKET_IFNAME", `eth0"evil`) + socket,
		"long":       set("NCCL_SOCKET_IFNAME", strings.Repeat("evil", 20)) + socket,
		"a distance": says(far+". The host evil7 is broken") + says(channel) + says("Connected all rings"),
		"another":    says("GPU Direct RDMA Disabled for evil7 (distance 9 > 4)") + says(channel) + says("Connected all rings"),
	} {
		if got := shows(read(t, log)); strings.Contains(got, "evil") || !strings.Contains(got, "certain") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := shows(read(t, set("NCCL_SOCKET_IFNAME", "^=eth7:1,ib_7.1")+socket)); !strings.Contains(got, "NCCL_SOCKET_IFNAME=^=eth7:1,ib_7.1 fits") {
		t.Error(got)
	}
}

// Link-local GIDs are usual on InfiniBand, and a file that is not there is not damaged.
func TestUsualAndAbsent(t *testing.T) {
	completion := warn("net_ib.cc:7", "NET/IB : Got completion from peer 10.7.0.2<77> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fe80::7 remoteGids fe80::8")
	topology := func(why string) string {
		return warn("graph/xml.cc:7", "Could not open XML topology file /zzz : "+why)
	}
	const linkLocal, absent = "link-local", "FAILED certain graph_file_wrong: The file of topology or graphs is not there"
	for name, tt := range map[string]struct {
		log, want string
		not       bool
	}{
		"InfiniBand": {says("NET/IB : Using [0]mlx5_7:1/IB [RO]; OOB eth7:10.7.0.1<0>") + completion, linkLocal, true},
		"RoCE":       {says("NET/IB : Using [0]mlx5_7:1/RoCE [RO]; OOB eth7:10.7.0.1<0>") + completion, linkLocal, false},
		"no file":    {topology("No such file or directory"), absent, false},
		"no right":   {topology("Permission denied"), absent, false},
		"damaged":    {says("NCCL_TOPO_FILE set by environment to /zzz") + topology("zzz"), "FAILED likely graph_file_wrong: The topology file", false},
	} {
		if got := shows(read(t, tt.log)); strings.Contains(got, tt.want) == tt.not {
			t.Errorf("%s: %s, expected %s: %v", name, got, tt.want, !tt.not)
		}
	}
}
