// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// job is what may be the environment of a job: the index of the setting that counts, by name.
type job map[string]int

// decided returns a job without the settings whose value is not known: such a value hides the known one that
// it replaces.
func (j job) decided(in *Input) job {
	decided := maps.Clone(j)
	maps.DeleteFunc(decided, func(_ string, i int) bool { return in.settings[i].dynamic })
	return decided
}

// add adds a finding to a line that does not have it.
func add(l *Line, f Finding) {
	if !slices.Contains(l.Findings, f) {
		l.Findings = append(l.Findings, f)
	}
}

// combined reports settings that another variable of the same job replaces or gives another meaning.
func combined(in Input, jobs []job, lines []Line, version Version) {
	for _, j := range jobs {
		j.void(&in, lines)
		j.wanted(&in, lines)
		j.contained(&in, lines)
		j.sockets(in, lines)
		j.ahead(in, lines, version)
		j.files(in, lines)
		j.network(in, lines)
	}
}

// withoutNode reports settings that are harmful or not depending on the node.
func withoutNode(in Input, jobs []job, lines []Line) {
	for _, j := range jobs {
		j.overTCP(&in, lines)
		if n, ok := j.number(in, noPeers); ok && n == 1 {
			add(&lines[j[noPeers]], Finding{
				Undecided, verdict.Info,
				"Only a node shows whether its GPUs reach each other directly, over NVLink or PCIe",
				"run lint on such a node with --host",
			})
		}
	}
}

// value is the value of a variable of the job.
func (j job) value(in Input, name string) string {
	if i, set := j[name]; set {
		return in.settings[i].Value
	}
	return ""
}

// number is the number that NCCL reads of a variable of the job.
func (j job) number(in Input, name string) (int64, bool) {
	v, _ := settings.Describe(name)
	value := j.value(in, name)
	n, ok := v.Number(value)
	return n, ok && value != ""
}

// void reports settings that others make void. What else is to be said of them does not matter then.
func (j job) void(in *Input, lines []Line) {
	another := j.another(in)
	for _, by := range slices.Sorted(maps.Keys(j)) {
		value := j.value(*in, by)
		for _, v := range settings.VoidBy(by, value) {
			because := fmt.Sprintf("No effect, because %s=%s: %s", by, value, v.By.Text)
			one := Finding{Verdict(v.By.Verdict), verdict.Severity(v.By.Severity), because, v.By.Better}
			switch {
			case by == rdmaOff && (another != "" || strings.EqualFold(j.value(*in, "NCCL_NET"), "Socket")):
				continue // a plugin may read them, or NCCL_NET makes them void
			case one.Verdict == Refused:
				one.Reason = fmt.Sprintf("%s=%s: %s", by, value, v.By.Text)
			}
			for name, i := range j {
				if v.Concerns(name, in.settings[i].Value) {
					replace(&lines[i], one)
				}
			}
		}
	}
}

// replace adds a finding to a line in place of notes on a value that does not count.
func replace(l *Line, f Finding) {
	notes := []Verdict{NotRecommended, Deprecated, Default, Works}
	l.Findings = slices.DeleteFunc(l.Findings, func(o Finding) bool {
		return !o.Severity.AtLeast(verdict.Warning) && slices.Contains(notes, o.Verdict)
	})
	add(l, f)
}

// ahead judges receives that NCCL posts before it knows what they are for: it then finds none by its index, which it
// looks for unless it is told otherwise or, from 2.30.3 on, does failover.
func (j job) ahead(in Input, lines []Line, version Version) {
	const scheme, failover = "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME", "NCCL_IB_RESILIENCY_PORT_FAILOVER"
	on := func(name string) bool {
		n, set := j.number(in, name)
		return set && n == 1 && lines[j[name]].Worst().Verdict != Ignored
	}
	if !version.AtLeast("2.29.7") || on(scheme) || on(failover) && version.AtLeast("2.30.3") {
		return
	}
	for _, name := range []string{failover, "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS"} {
		if on(name) {
			add(&lines[j[name]], Finding{
				Refused, verdict.Warning, "Without " + scheme + "=1 the first collective over RDMA ends the job",
				"add " + scheme + "=1",
			})
		}
	}
}

// What NCCL takes of the threads and sockets of a TCP connection at most (MAX_THREADS and MAX_SOCKETS,
// src/transport/net_socket.cc).
const (
	maxSocketThreads = 16
	maxSockets       = 64
)

// sockets judges the threads and the sockets of each, which NCCL multiplies.
func (j job) sockets(in Input, lines []Line) {
	const threads, each = "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"
	n, hasThreads := j.number(in, threads)
	m, hasEach := j.number(in, each)
	n = min(n, maxSocketThreads)
	switch {
	case !hasEach || m < 0:
	case !hasThreads || n == -2:
		add(&lines[j[each]], Finding{Works, verdict.Info, "It counts for each thread of " + threads +
			", of which there are none by default except on AWS and Google Cloud", ""})
	case n == 0:
		add(&lines[j[each]], Finding{
			Ignored, verdict.Warning, threads + "=0: there is no thread that it counts for",
			"set " + threads + ", or remove the line",
		})
	case n > 0 && n*min(m, maxSockets+1) > maxSockets:
		add(&lines[j[each]], Finding{
			Misread, verdict.Warning,
			fmt.Sprintf("%d threads with %d sockets each are more than %d sockets: NCCL takes %d for each", n, m, maxSockets,
				maxSockets/n),
			each + "=" + strconv.FormatInt(maxSockets/n, 10),
		})
	}
}

func (j job) files(in Input, lines []Line) {
	if i, set := j["NCCL_IB_ADDR_RANGE"]; set {
		value := in.settings[i].Value
		what := settings.CheckAddressRange(value, j.value(in, "NCCL_IB_ADDR_FAMILY"))
		if what != "" && value != "" && lines[i].Worst().Verdict == Works {
			add(&lines[i], Finding{
				Misread, verdict.Warning, fmt.Sprintf("NCCL_IB_ADDR_RANGE=%q %s", value, what),
				"correct or remove the line",
			})
		}
	}
	i, set := j["NCCL_CONF_FILE"]
	switch {
	case !set:
	case in.Format == FormatConf:
		add(&lines[i], Finding{
			Ignored, verdict.Warning,
			"NCCL looks for NCCL_CONF_FILE in the environment alone, before it reads files",
			"set it in the environment of the job",
		})
	case in.environment:
		add(&lines[i], Finding{
			Undecided, verdict.Info, "The settings in that file are not judged here",
			"run lint with the file as argument",
		})
	}
}
