// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"os"
	"path"
)

const (
	inspectorFolder   = "run/nccl_inspector"
	inspectorInterval = 60 // steps
	inspectorHours    = 1  // that a job writes for
	inspectorNCCL     = "2.28.9"
)

// inspecting is the configuration of a site that reads files of NCCL Inspector; ROOT stands for the root file system.
const inspecting = "nccl:\n  inspector_folder: ROOT/" + inspectorFolder + "\n"

// inspected has a job use NCCL Inspector in its JSON mode: each rank writes the last collective of two communicators in each
// interval, one of all ranks and one of those on the node. From a step on, if it is not 0, the first has a third of its bandwidth.
func (n *Node) inspected(slowFrom int) {
	n.train(jobPlan{devices: rails8(), queuePairs: 64, version: inspectorNCCL, edit: func(_ int, r *JobRank) { r.Is.User = uint32(os.Getuid()) }}) // which owns the files
	for rank, r := range n.Jobs[len(n.Jobs)-1].Ranks {
		name := path.Join(inspectorFolder, "4242", fmt.Sprintf("%s-pid%d.log", n.Host.Name, r.Is.PID))
		for step := 0; step < inspectorHours*3600; step += inspectorInterval {
			c := collective{"AllReduce", 0x7f8c496ae9f661, rank, 16, 2, 512 << 20, 360, 2796}
			if slowFrom > 0 && step >= slowFrom {
				c.bandwidth, c.microseconds = 120, 8389
			}
			number := 240 * (step/inspectorInterval + 1)
			n.logged(name, step, c.record(n.Host.Name, r.Is.PID, number), collective{"AllGather", 0xe62dedaa97644a, rank, 8, 1, 64 << 20, 350, 168}.record(n.Host.Name, r.Is.PID, 2*number))
		}
	}
}

// collective is what Inspector measures.
type collective struct {
	operation          string
	communicator       uint64
	rank, ranks, nodes int
	size               uint64
	bandwidth          float64 // GB/s, of the bus
	microseconds       int
}

// record is a line as inspector.cc of NCCL 2.28.9 writes it.
func (c collective) record(host string, pid, number int) string {
	return fmt.Sprintf(`{"header":{"id":"0x%x","rank":%d,"n_ranks":%d,"nnodes":%d},`+
		`"metadata":{"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":1795392000000000,"hostname":"%s","pid":%d},`+
		`"coll_perf":{"coll":"%s","coll_sn":%d,"coll_msg_size_bytes":%d,"coll_exec_time_us":%d,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":%f,"coll_busbw_gbs":%f}}`,
		c.communicator, c.rank, c.ranks, c.nodes, host, pid, c.operation, number, c.size, c.microseconds, float64(c.size)/float64(c.microseconds)/1e3, c.bandwidth)
}
