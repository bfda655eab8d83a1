// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

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

// kmsg is a message of the kernel as /dev/kmsg gives it. Its time is beyond the uptime of any machine: readers take it for now.
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
