// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// ranks are the lines of a communicator that is set up, a host for each of its first ranks.
func ranks(of int, hosts ...string) string {
	var log strings.Builder
	for i, host := range hosts {
		fmt.Fprintf(&log, "%s:41:50 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank %d nranks %d cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7d - Init COMPLETE\n", host, i, of)
	}
	return log.String()
}

func says(message string) string { return "gpu1:41:50 [0] NCCL INFO " + message + "\n" }

// TCP and host memory are judged by the network and its HCAs where the log shows no connection: what crosses
// hosts fails, what may cross them is unknown, and what does not is fine.
func TestNetworkWithoutConnections(t *testing.T) {
	sockets := says("NET/IB : No device found.") + says("NET/Socket : Using [0]ens7:10.0.0.3<0>") + says("Using network Socket")
	disabled := says("Using network IB") + says("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'")
	both := disabled + says("NET/IB : GPU Direct RDMA Enabled for HCA 1 'mlx5_1'")
	nodes := func(n int) string {
		return says(fmt.Sprintf("comm 0x55d0 rank 0 nRanks 16 nNodes %d localRanks 8 localRank 0 MNNVL 0", n))
	}
	const nvlink = "Channel 00/0 : 0[0] -> 1[0] via P2P/MNNVL"
	for name, tt := range map[string]struct{ log, failed, unknown string }{
		"sockets, a rank is missing":          {sockets + ranks(2, "gpu1"), "", "the network Socket"},
		"sockets, then another network":       {sockets + says("Using network IB") + ranks(2, "gpu1"), "", "the network Socket"},
		"sockets, two hosts":                  {sockets + ranks(4, "gpu1", "gpu2"), "transport_tcp", ""},
		"sockets, NCCL counts two hosts":      {sockets + nodes(2) + ranks(16, "gpu1"), "transport_tcp", ""},
		"sockets, NCCL counts one host":       {sockets + nodes(1) + ranks(16, "gpu1"), "", ""},
		"sockets, all ranks on a host":        {sockets + ranks(2, "gpu1", "gpu1"), "", ""},
		"sockets, a single rank":              {sockets + ranks(1, "gpu1"), "", ""},
		"sockets, NVLink between hosts":       {sockets + says(nvlink) + ranks(2, "gpu1", "gpu2"), "", ""},
		"sockets, NVLink, a rank is missing":  {sockets + says(nvlink) + ranks(2, "gpu1"), "", "the network Socket"},
		"sockets, MNNVL can be used":          {sockets + strings.Replace(nodes(2), "MNNVL 0", "MNNVL 1", 1) + ranks(16, "gpu1"), "", "the network Socket"},
		"FastSocket, two hosts":               {says("Using network FastSocket") + ranks(2, "gpu1", "gpu2"), "", ""},
		"RDMA, a rank is missing":             {says("Using network IB") + ranks(2, "gpu1"), "", ""},
		"disabled, a rank is missing":         {disabled + ranks(16, "gpu1"), "", "GPUDirect RDMA is disabled for mlx5_0"},
		"disabled, two hosts":                 {disabled + ranks(16, "gpu1", "gpu2"), "gpudirect_unused", ""},
		"disabled, all ranks on a host":       {disabled + ranks(2, "gpu1", "gpu1"), "", ""},
		"disabled for one of two, two hosts":  {both + ranks(16, "gpu1", "gpu2"), "", "GPUDirect RDMA is disabled for mlx5_0"},
		"disabled for one that is not used":   {both + says("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/1/GDRDMA") + ranks(2, "gpu1", "gpu2"), "", ""},
		"disabled for one that others may":    {both + says("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/1/GDRDMA") + ranks(4, "gpu1", "gpu2"), "", "GPUDirect RDMA is disabled for mlx5_0"},
		"disabled, as its connections are":    {both + says("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0") + ranks(2, "gpu1", "gpu2"), "gpudirect_unused", ""},
		"rings without, of a rank not here":   {says("Using network IB") + says("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/1/GDRDMA") + says("Connected all rings, use ring PXN 0 GDR 0") + says("Connected all rings, use ring PXN 0 GDR 1") + ranks(4, "gpu1"), "gpudirect_unused", ""},
		"rings without, over EFA":             {says("Using network AWS Libfabric") + says("Connected all rings, use ring PXN 0 GDR 0") + ranks(4, "gpu1"), "", ""},
		"enabled":                             {says("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'") + ranks(16, "gpu1"), "", ""},
		"EFA, of which some have none":        {says("Using network AWS Libfabric") + says("NET/AWS Libfabric : GPU Direct RDMA Disabled for HCA 0 'rdmap16s27'") + ranks(2, "gpu1", "gpu2"), "", ""},
		"HPC-X, a rank is missing":            {says("Using network IBext_v8") + says("NET/IBext_v8 : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'") + ranks(16, "gpu1"), "", "mlx5_0"},
		"before 2.16, two communicators":      {sockets + strings.ReplaceAll(ranks(4, "gpu1", "gpu2"), "commId 0x7d ", ""), "", "the network Socket"},
		"before 2.16, all ranks on one host":  {sockets + strings.ReplaceAll(ranks(2, "gpu1", "gpu1"), "commId 0x7d ", ""), "", ""},
		"the line has no host":                {sockets + strings.ReplaceAll(ranks(2, "gpu1", ""), "\n:41:50 [0] ", "\n"), "", ""},
		"NVLink on a host, a rank is missing": {sockets + says("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM") + ranks(16, "gpu1"), "", "the network Socket"},
	} {
		r := read(t, tt.log)
		failed := ""
		if f := r.First(); f != nil {
			failed = f.Signature.ID
		}
		if why := r.Undecided(); failed != tt.failed || failed == "" && ((why == "") != (tt.unknown == "") || !strings.Contains(why, tt.unknown)) {
			t.Errorf("%s: failed %q, unknown %q; expected %q, %q", name, failed, why, tt.failed, tt.unknown)
		}
	}
}

// A pipe may have no end. What was read of it is judged, and never as fine.
func TestLogWithoutEnd(t *testing.T) {
	warning := "gpu1:41:50 [0] x.cc:1 NCCL WARN Cuda failure 'out of memory'\n"
	log := complete + says("Using network IB") + warning
	r, err := readSome(t, strings.NewReader(log), int64(len(log)-len(warning)))
	if err != nil || !r.Cut || r.Failed() || r.Lines != 2 || !strings.Contains(r.Undecided(), "the log is longer than") {
		t.Errorf("%v, %+v", err, r)
	}
	if r, err = readSome(t, strings.NewReader(log), int64(len(log))); err != nil || r.Cut || !r.Failed() {
		t.Errorf("%v, %+v", err, r)
	}
}

func readSome(t *testing.T, from io.Reader, most int64) (*Result, error) {
	t.Helper()
	r := newReading()
	if err := r.read("", from, most); err != nil {
		return nil, err
	}
	return r.result(), nil
}
