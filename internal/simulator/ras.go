// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Trouble is what happens to the ranks of a job at a step.
type Trouble struct {
	From   int    // step from which it is so; 0: never
	Stops  bool   // no rank moves any more, and RDMA of the node carries nothing
	Rank   int    // that is behind or dead
	Behind uint64 // collectives
	Dead   bool
	Idle   bool // the GPU of the rank is idle; it is one of this node
}

// carried is the step up to which RDMA carries data.
func (n *Node) carried(step int) int {
	for _, j := range n.Jobs {
		if t := j.Trouble; t.Stops && t.From > 0 {
			step = min(step, t.From)
		}
	}
	return step
}

// carriedBy is the step up to which the statistics of an interface grow: those of an RDMA device count little but RDMA.
func (n *Node) carriedBy(d *NetDev, step int) int {
	if slices.ContainsFunc(n.HCAs, func(h HCA) bool { return h.PCI == d.PCI }) {
		return n.carried(step)
	}
	return step
}

// idle stops the GPUs of ranks that wait for something else.
func (n *Node) idle(step int) {
	for _, j := range n.Jobs {
		if t := j.Trouble; t.Idle && t.From > 0 && step >= t.From {
			pid := j.Ranks[t.Rank].Is.PID
			for i := range n.GPUs {
				if slices.ContainsFunc(n.GPUs[i].Processes, func(p Process) bool { return p.PID == pid }) {
					n.GPUs[i].Load = 0
				}
			}
		}
	}
}

// AskRAS answers as NCCL RAS in a process of the tree would: about its job, on all nodes.
func (t *Tree) AskRAS(pid int) (fabric.RASAnswer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.now.Jobs {
		j := &t.now.Jobs[i]
		if k := slices.IndexFunc(j.Ranks, func(r JobRank) bool { return r.Is.PID == pid }); k >= 0 {
			return j.ras(t.step), nil
		}
	}
	return fabric.RASAnswer{}, errors.New("no such process")
}

// ras is the answer at a step: one communicator of all ranks, which launches seven collectives in each step.
func (j *Job) ras(step int) fabric.RASAnswer {
	bad := j.Trouble
	if bad.From == 0 || step < bad.From {
		bad = Trouble{}
	} else if bad.Stops {
		step = bad.From
	}
	c := fabric.RASCommunicator{ID: "5eed-1-2", Size: j.Workload.Ranks, Complete: true}
	for rank := range c.Size {
		here := len(j.Ranks)
		at := fabric.RASPlace{Rank: rank, Host: jobHere, PID: 41000 + rank, GPU: rank % here}
		if rank < here {
			at.PID = j.Ranks[rank].Is.PID
		} else {
			at.Host = netip.AddrFrom4([4]byte{10, 0, 0, byte(17 + rank/here)})
		}
		launched := 10_000 + 7*uint64(step)
		if rank == bad.Rank {
			launched -= bad.Behind
		}
		if rank == bad.Rank && bad.Dead {
			c.Missing, c.MissingCount = append(c.Missing, fabric.RASMissing{RASPlace: at, Unresponsive: true, Dead: true}), 1
			continue
		}
		c.Ranks = append(c.Ranks, fabric.RASRank{RASPlace: at, Operations: launched, Counted: true})
		c.Spread.Add(launched)
	}
	return fabric.RASAnswer{Version: j.Ranks[0].Is.Maps.Value.Version, Communicators: []fabric.RASCommunicator{c}}
}

const (
	inspectorFolder   = "run/nccl_inspector"
	inspectorInterval = 60 // steps
	inspectorHours    = 1  // that a job writes for
	inspectorNCCL     = "2.28.9"
)

// inspecting is the configuration of a site that reads files of NCCL Inspector; ROOT stands for the root file system.
const inspecting = "nccl:\n  inspector_folder: ROOT/" + inspectorFolder + "\n"

// inspected has a job use NCCL Inspector in its JSON mode: each rank writes the last collective of two
// communicators in each interval, one of all ranks and one of those on the node. From a step on, if it is not
// 0, the first has a third of its bandwidth.
func (n *Node) inspected(slowFrom int) {
	// which owns the files
	n.train(jobPlan{
		devices: rails8(), queuePairs: 64, version: inspectorNCCL,
		edit: func(_ int, r *JobRank) { r.Is.User = uint32(os.Getuid()) },
	})
	for rank, r := range n.Jobs[len(n.Jobs)-1].Ranks {
		name := path.Join(inspectorFolder, "4242", fmt.Sprintf("%s-pid%d.log", n.Host.Name, r.Is.PID))
		for step := 0; step < inspectorHours*3600; step += inspectorInterval {
			c := collective{"AllReduce", 0x7f8c496ae9f661, rank, 16, 2, 512 << 20, 360, 2796}
			if slowFrom > 0 && step >= slowFrom {
				c.bandwidth, c.microseconds = 120, 8389
			}
			number := 240 * (step/inspectorInterval + 1)
			n.logged(name, step, c.record(n.Host.Name, r.Is.PID, number),
				collective{"AllGather", 0xe62dedaa97644a, rank, 8, 1, 64 << 20, 350, 168}.record(n.Host.Name, r.Is.PID, 2*number))
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
		c.communicator, c.rank, c.ranks, c.nodes, host, pid, c.operation, number, c.size, c.microseconds,
		float64(c.size)/float64(c.microseconds)/1e3, c.bandwidth)
}

// Log is a file to which lines are appended over time.
type Log struct {
	Path  string // below the root file system
	Lines []Line
}

// Line is a line that is written at a step.
type Line struct {
	From int
	Text string
}

// Where logs of jobs and the messages of the kernel lie below the root file system.
const (
	jobLogs = "var/log/jobs"
	devKmsg = "dev/kmsg"
)

// following is the configuration of a site that follows both; ROOT stands for the root file system.
const following = "nccl:\n  log_files: [\"ROOT/" + jobLogs + "/*.log\"]\nkernel:\n  messages: ROOT/" + devKmsg + "\n"

// kmsg is a message of the kernel as /dev/kmsg gives it. Its time is beyond the uptime of any machine:
// readers take it for now.
func kmsg(text string) string { return fmt.Sprintf("3,4711,%d,-;%s", uint64(50*365*24*3600*1e6), text) }

// logged has a job, or the kernel, write lines to a log from a step on.
func (n *Node) logged(name string, from int, lines ...string) {
	i := slices.IndexFunc(n.Logs, func(l Log) bool { return l.Path == name })
	if i < 0 {
		i = len(n.Logs)
		n.Logs = append(n.Logs, Log{Path: name})
	}
	for _, text := range lines {
		n.Logs[i].Lines = append(n.Logs[i].Lines, Line{from, text})
	}
}

// logs lays out the logs as far as they are written at a step.
func (f files) logs(n *Node) {
	for _, l := range n.Logs {
		var b strings.Builder
		for _, line := range l.Lines {
			b.WriteString(line.Text + "\n")
		}
		f[path.Join(rootfs, l.Path)] = entry{kind: regular, text: b.String()}
	}
}

// written leaves the lines that are written at a step.
func written(logs []Log, step int) []Log {
	next := slices.Clone(logs)
	for i := range next {
		next[i].Lines = slices.DeleteFunc(slices.Clone(next[i].Lines), func(l Line) bool { return l.From > step })
	}
	return next
}

// continued are logs of which these lines were written before, all of them from the first step on.
func continued(was, logs []Log) []Log {
	n := &Node{}
	for _, l := range was {
		n.logged(l.Path, 0)
		for _, line := range l.Lines {
			n.logged(l.Path, 0, line.Text)
		}
	}
	for _, l := range logs {
		n.logged(l.Path, 0)
		for _, line := range l.Lines {
			n.logged(l.Path, line.From, line.Text)
		}
	}
	return n.Logs
}
