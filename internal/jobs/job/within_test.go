// SPDX-License-Identifier: Apache-2.0

package job

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Two ranks of one host that exchange data over loopback, as real ones do with NCCL_SHM_DISABLE=1 and
// NCCL_P2P_DISABLE=1 (TestTransports in test/nccl). Gloo's sockets look the same: without these settings they
// are not reported as NCCL's.
func TestSocketsWithinHost(t *testing.T) {
	set := func(name string, n int64) fabric.NCCLVariable {
		return fabric.NCCLVariable{Name: name, Number: n, IsNumber: true}
	}
	shm, p2p := set("NCCL_SHM_DISABLE", 1), set("NCCL_P2P_DISABLE", 1)
	for name, c := range map[string]struct {
		settings []fabric.NCCLVariable
		bytes    uint64
		peer     uint16 // of the other end of what the first rank has
		want     string
		cause    Cause
	}{
		"forced":              {[]fabric.NCCLVariable{shm, p2p}, 5e9, 40002, "tcp, confirmed", CauseNoSharedMemory},
		"P2P is possible":     {[]fabric.NCCLVariable{shm}, 5e9, 40002, "tcp, suspected", CauseNoSharedMemory},
		"shared memory works": {[]fabric.NCCLVariable{p2p}, 5e9, 40002, "local, suspected", CauseNone},
		"may be Gloo":         {nil, 5e9, 40002, "local, suspected", CauseNone},
		"quiet":               {[]fabric.NCCLVariable{shm, p2p}, 0, 40002, "local, confirmed", CauseNone},
		"to another service":  {[]fabric.NCCLVariable{shm, p2p}, 5e9, 40999, "local, confirmed", CauseNone},
		"only P2P that is 2":  {[]fabric.NCCLVariable{set("NCCL_SHM_DISABLE", 2), p2p}, 5e9, 40002, "local, suspected", CauseNone},
	} {
		var tr Tracker
		var last Jobs
		for i := range uint64(2) {
			at := epoch.Add(time.Duration(i) * 10 * time.Second)
			ends := []uint16{40001, c.peer}
			var list []fabric.RankCandidate
			for k, local := range []uint16{40001, 40002} {
				r := rankOf(100+k, 0, 0)
				r.Settings.Value = c.settings
				here := netip.MustParseAddr("10.0.0.1")
				remote := ends[1-k]
				r.Sockets.Value = []fabric.Socket{{
					Inode: uint64(r.PID)*10 + 1, Local: netip.AddrPortFrom(here, local), Remote: netip.AddrPortFrom(here, remote),
					Sent: i * c.bytes, Received: i * c.bytes, Counted: true,
				}}
				list = append(list, r)
			}
			last = tr.Update(nodeOf(at, list...))
		}
		v := last.List[0].Verdict
		if got := v.State(); got != c.want || v.Cause != c.cause {
			t.Errorf("%s: %s, cause %q, expected %s, cause %q: %q", name, got, v.Cause, c.want, c.cause, v.Evidence)
		}
		if c.bytes > 0 && c.peer == 40002 && !slices.ContainsFunc(v.Evidence, func(s string) bool {
			return s == "connections between ranks on this node carried 1.0 GB/s and 1.0 GB/s"
		}) {
			t.Errorf("%s: the evidence does not say what they carried: %q", name, v.Evidence)
		}
	}
}
