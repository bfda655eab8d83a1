// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/explain"
)

// fine is what explain finds in the log of a job that works: no failure. It cannot tell whether one GPU for each host should
// do GPUDirect RDMA, which those of the rig cannot.
const fine = ""

// fates are settings of a job of two hosts with an RDMA device each, and what becomes of it: in the first release of
// suites, and in later ones.
var fates = []struct {
	settings string // between "; "
	first    string // what is only for rank 1, between blanks
	old, now string
	explains string // the first failure that its log shows; empty: none
	unsaid   string // why lint does not call refused what does not work, or the other way round
}{
	{settings: "NCCL_IB_QPS_PER_CONNECTION=4; NCCL_IB_SPLIT_DATA_ON_QPS=1", old: works, now: works, explains: fine},
	{settings: "NCCL_IB_QPS_PER_CONNECTION=129", old: refused, now: refused, explains: "qp_create"},
	{settings: "NCCL_IB_QPS_PER_CONNECTION=0", old: refused, now: refused, explains: "qp_create"},
	{settings: "NCCL_IB_PKEY=5", old: works, now: works, explains: fine}, // Soft-RoCE does not look
	{settings: "NCCL_IB_TIMEOUT=32", old: refused, now: refused, explains: "qp_modify", unsaid: "a driver may take 5 bits of it"},
	{settings: "NCCL_IB_RETRY_CNT=8", old: works, now: works, explains: fine},
	{settings: "NCCL_IB_SL=16", old: works, now: works, explains: fine},
	{settings: "NCCL_IB_GID_INDEX=200", old: refused, now: refused, explains: "qp_modify", unsaid: "the table is that of a node"},
	{settings: "NCCL_IB_GID_INDEX=2000", old: refused, now: refused, explains: "gid_query", unsaid: "the table is that of a node"},
	{settings: "NCCL_IB_GID_INDEX=3", old: works, now: works, explains: fine}, // over the VLAN
	{settings: "NCCL_IB_ADDR_FAMILY=AF_INET6", old: works, now: works, explains: fine},
	{settings: "NCCL_IB_PCI_RELAXED_ORDERING=1", old: works, now: works, explains: fine},
	{settings: "NCCL_IB_HCA=absent", old: works, now: works, explains: "transport_tcp"},
	{settings: "NCCL_IB_DISABLE=true", old: works, now: works, explains: fine},
	{settings: "NCCL_NET=IB; NCCL_IB_HCA=absent", old: refused, now: refused, explains: "net_plugin", unsaid: "the devices are those of a node"},
	{settings: "NCCL_IB_HCA=rxe; NCCL_IB_MERGE_NICS=0", old: works, now: works, explains: fine},
	{settings: "NCCL_IB_TC=106", first: "NCCL_IB_DISABLE=1", old: refused, now: refused, explains: "bootstrap_mismatch", unsaid: "the other host decides"},
}

// TestGuestFates runs jobs over RDMA, and holds against their fate what lint says of the settings, and against their
// logs what explain says.
func TestGuestFates(t *testing.T) {
	n := newGuest(t)
	each(t, func(t *testing.T, r rig) {
		release, err := fabric.ParseNCCLVersion(r.release)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fates {
			settings := strings.Split(f.settings, "; ")
			own := [][]string{append(slices.Clip(rails[0]), settings...), append(slices.Clip(rails[1]), settings...)}
			own[1] = append(own[1], strings.Fields(f.first)...)
			ranks := n.job(t, r, 20, append(small, "RIG_COUNT=3", "NCCL_RAS_ENABLE=0"), own...)
			got, output := fateOf(t, ranks)
			want := f.now
			if r.suite == suites[0] {
				want = f.old
			}
			result, err := explain.Read(strings.NewReader(output + ranks[1].output()))
			if err != nil {
				t.Fatal(err)
			}
			first := ""
			if failure := result.First(); failure != nil {
				first = failure.Signature.ID
			}
			if got != want || first != f.explains {
				t.Errorf("%s: a job with NCCL %s: %s, explain says %q, expected %s, %q:\n%s", f.settings, r.release, got, first, want, f.explains, lastLines(output))
			}
			agrees(t, settings, release, got, f.unsaid)
			t.Logf("%s: %s, %s", f.settings, got, cmp.Or(first, result.Undecided(), healthy))
		}
	})
}

// lastLines leaves out what is not the end of a log or a warning.
func lastLines(output string) string {
	lines := strings.Split(output, "\n")
	var kept []string
	for i, line := range lines {
		if strings.Contains(line, "WARN") || i >= len(lines)-12 {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
