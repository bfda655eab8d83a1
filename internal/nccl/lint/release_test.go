// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// What real NCCL does with these was seen in test/nccl, with releases 2.22.3 and 2.29.7.
func TestReleases(t *testing.T) {
	const failover = "NCCL_IB_RESILIENCY_PORT_FAILOVER=1"
	for _, c := range []struct {
		line, release string
		verdict       Verdict
		better        string
	}{
		{"NCCL_BUFFSIZE=4M", "2.22.3", Refused, "NCCL_BUFFSIZE=4194304"},
		{"NCCL_BUFFSIZE=4M", "2.29.7", Refused, "NCCL_BUFFSIZE=4194304"},
		{"NCCL_BUFFSIZE=true", "2.29.7", Refused, "remove the line"},
		{"NCCL_BUFFSIZE=8388608 # x", "2.29.7", Works, ""},
		{"NCCL_MAX_CTAS=0", "2.22.3", Refused, "remove the line"},
		{"NCCL_MAX_CTAS=0", "2.29.7", Misread, "correct or remove the line"},
		{"NCCL_WORK_ARGS_BYTES=16", "2.29.7", Refused, "correct or remove the line"},
		{"NCCL_WORK_ARGS_BYTES=-1", "2.29.7", Works, ""},
		{"NCCL_NET=", "2.22.3", Refused, "remove the line"},
		{"NCCL_NET=", "2.29.7", Refused, "remove the line"},
		{"NCCL_GRAPH_FILE=", "2.29.7", Refused, "remove the line"},
		{"NCCL_COMM_ID=", "2.29.7", Refused, "remove the line"},
		{"NCCL_TOPO_FILE=", "2.29.7", Works, "remove the line"},
		{"NCCL_PROTO=", "2.22.3", Refused, "remove the line"},
		{"NCCL_PROTO=", "2.29.7", Works, "remove the line"},
		{`NCCL_ALGO="Ring"`, "2.29.7", Refused, "remove the line"},
		{`NCCL_ALGO="^Ring"`, "2.29.7", Refused, "NCCL_ALGO=^Ring"},
		{`NCCL_ALGO="Ring"`, "2.22.3", Misread, "remove the line"},
		{"NCCL_PROTO=Simpel", "2.22.3", Refused, "correct or remove the line"},
		{`NCCL_PROTO="Simple"`, "2.22.3", Refused, "remove the line"},
		{"NCCL_PROTO=Simpel,Simple", "2.22.3", Misread, "correct or remove the line"},
		{"NCCL_PROTO=^Simpel", "2.22.3", Misread, "correct or remove the line"},
		{failover, "2.29.7", Refused, "add NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME=1"},
		{failover + "\nNCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME=0", "2.29.7", Refused, "add NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME=1"},
		{failover + "\nNCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME=1", "2.29.7", Works, ""},
		{failover + "\nNCCL_IB_DISABLE=1", "2.29.7", Ignored, "remove the line"},
		{failover, "2.30.3", Works, ""},
		{"NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS=1", "2.30.7", Refused, "add NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME=1"},
		{"NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS=1\n" + failover, "2.30.7", Works, ""},
		{"NCCL_SOCKET_MAGIC=1", "2.29.7", Ignored, "remove the line"},
		{"NCCL_SOCKET_MAGIC=1", "2.30.5", Undecided, ""},
		{"NCCL_SOCKET_MAGIC=1", "2.30.7", Works, ""},
	} {
		in, err := Parse("nccl.conf", []byte(c.line+"\n"), FormatConf)
		if err != nil {
			t.Fatal(err)
		}
		version, err := fabric.ParseNCCLVersion(c.release)
		if err != nil {
			t.Fatal(err)
		}
		result := Judge([]Input{in}, version, nil)
		if f := result.Lines[0].Worst(); f.Verdict != c.verdict || f.Better != c.better {
			t.Errorf("%s with %s: %+v, want %s and %q", c.line, c.release, f, c.verdict, c.better)
		}
	}
}
