// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
	"gpufabric_exporter/internal/spelling"
)

// background is what lines state that are no failures, and that decide among reasons.
type background struct {
	saved, undone int64  // lines that say that work is saved, and that a loop is not at its end
	worked        int64  // the last line that says what work took
	passed        int64  // the line by which a test passed; 0: none, or one failed after it
	done          bool   // the work ended, and what failed made it slow at most
	connected     bool   // ranks are connected
	file          bool   // by which ranks meet
	far           string // "GPU 0 / HCA 1 (distance 7 > 4)"
	asked         string // GPUs of a test, ": -g 8"
}

// around takes a line of a program.
func (r *reading) around(text string, words signature.Word) {
	if words&(signature.OfBackground|signature.OfProgress|signature.OfEnd) == 0 {
		return
	}
	c := &r.said.background
	switch {
	case testPassed(log.Strip(text).Rest):
		c.passed = r.Lines
	case strings.Contains(text, "--- FAIL: "):
		c.passed = 0
	case has(text, []string{"raining time: ", "train_runtime"}):
		c.worked = r.Lines
	case has(text, []string{"uccessfully saved", "saved successfully", "raining completed"}):
		c.saved = r.Lines
	case strings.Contains(text, "%|"):
		if !strings.Contains(text, "100%|") {
			c.undone = r.Lines
		} else {
			c.undone = 0
		}
	case words&signature.OfProgress != 0 && words&signature.OfEnd == 0:
		c.undone = r.Lines
	}
	c.file = c.file || strings.Contains(text, "file://") && strings.Contains(text, "init")
}

// testPassed reports whether a line is a test of Go that passed, or the summary of those of Python,
// "== 7 passed in 7s ==".
func testPassed(line string) bool {
	line = strings.TrimSpace(line)
	framed := strings.HasPrefix(line, "==") && strings.HasSuffix(line, "==") && strings.Contains(line, " passed") &&
		strings.Contains(line, " in ")
	return strings.HasPrefix(line, "--- PASS: Test") || framed && !has(line, []string{"failed", "error"})
}

// states takes a line of NCCL at the level INFO.
func (r *reading) states(m string) {
	c := &r.said.background
	c.connected = c.connected || strings.HasPrefix(m, "Connected all ")
	if c.far != "" || !strings.HasPrefix(m, "GPU Direct") && !strings.HasPrefix(m, "NET/") {
		return
	}
	if _, far, found := strings.Cut(m, "GPU Direct RDMA Disabled for "); found && strings.Contains(far, "(distance") {
		c.far = log.Text(far)
	}
}

// asks takes the head of a test, "# nThread 1 nGpus 8 ...".
func (c *background) asks(line string) {
	_, rest, _ := strings.Cut(line, " nGpus")
	if f := strings.Fields(strings.TrimPrefix(rest, ":")); len(f) > 0 && ordinalOf(f[0]) > 1 {
		c.asked = ": -g " + f[0]
	}
}

// ofCommand reports whether a line is of a command that only looks: what it does not find is no failure of the job.
func ofCommand(line string) bool {
	return strings.HasPrefix(line, "ls: ") || strings.HasPrefix(line, "cat: ") || strings.HasPrefix(line, "grep: ")
}

// raised reports whether a line has the name and text of an exception of Python about the program itself.
func raised(line string) bool {
	name, _, found := strings.Cut(line, ": ")
	return found && strings.HasSuffix(name, "Error") && !strings.ContainsAny(name, " [(") && !has(line, wrappers) &&
		!has(line, []string{"NCCL", "Dist", "imeout", "imed out", "Connection"})
}

// passes reports whether a test passed, after all that NCCL logged.
func (s *said) passes() bool { return s.passed > s.informed }

// forgive takes what failed for a note where a test passed after it, and what makes a job slow for open where its work
// ended after it.
func (r *reading) forgive() {
	if r.said.passes() {
		for i := range r.Findings {
			f := &r.Findings[i]
			before := f.Line > 0 && f.last < r.said.passed && f.Code == signature.NoCode
			if before && class(f.Signature) >= 0 && f.Signature.Source != signature.Program {
				f.Signature = &signature.Passed
			}
		}
		return
	}
	slows := func(f Finding) bool {
		return class(f.Signature) < 0 || f.Signature == &signature.TCP || goesOn(f.Signature) && f.last < r.said.worked
	}
	if r.said.worked == 0 || r.said.stopped > 0 || r.Cut || r.Full || !r.complete() || r.Log.Failed != "" || r.said.first[severe] != nil || r.Unknown > 0 {
		return
	}
	if slices.ContainsFunc(r.Findings, func(f Finding) bool { return !slows(f) }) {
		return
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		slow := class(f.Signature) >= 0
		f.Open, r.said.done = f.Open || slow, r.said.done || slow
	}
}

// slower says what may make a job slow that works.
func (r *Result) slower() string {
	f := r.Open()
	if f == nil || !r.said.done && r.said.far == "" {
		return ""
	}
	return " If it is slower than it should be: " + f.Reasons[0].Cause + " " + f.Reasons[0].Remedy
}

// endsOpen says how far a log without the end of a set-up shows that all is well; empty: it does not show it.
func (r *Result) endsOpen() string {
	open := r.Open()
	direct := open != nil && open.Signature == &signature.NoGPUDirect
	switch {
	case open != nil && !direct:
		return ""
	case r.tests.measured:
		return "no failure so far: the ranks are connected, and a test has results; not seen: its end (it goes on, or the log is cut)"
	case r.said.connected:
		return "no failure so far: the ranks are connected; not seen: the end of the set-up, and what the job did then (it goes on, or the log is cut)"
	case direct:
		return "no failure so far: NCCL began" + r.withNetwork() + "; not seen: the set-up of a communicator, and what the job did then (the log is cut there)"
	}
	return ""
}

func (r *Result) withNetwork() string {
	if r.Log.Network == "" {
		return ""
	}
	return ", with the network " + r.Network()
}

// serialised reports whether launches wait for their kernels in a job of several hosts that shows no work.
func (r *Result) serialised() bool {
	set := func(s log.Setting) bool { return s.Name == "CUDA_LAUNCH_BLOCKING" && s.Value == "1" }
	return slices.ContainsFunc(r.Log.Settings, set) && r.severalHosts() && r.allEnded() &&
		r.said.progress == 0 && !r.tests.measured
}

// outOfBand notes the interface of a host, "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>".
func (r *reading) outOfBand(e log.Event) {
	if !strings.HasPrefix(e.Message, "NET/IB") {
		return
	}
	_, rest, found := strings.Cut(e.Message, "; OOB ")
	text, _, closed := strings.Cut(rest, "<")
	if _, known := r.hosts[e.Host]; !known || !found || !closed {
		return
	}
	if _, known := r.addresses[e.Host]; !known {
		r.addresses[e.Host] = log.Text(text)
	}
}

// apart are the first two hosts whose interfaces differ by name and network; none: there are not.
func (r *Result) apart() []string {
	first := ""
	var name string
	var network netip.Prefix
	for _, host := range r.Hosts {
		before, address, _ := strings.Cut(r.addresses[host], ":")
		a, err := netip.ParseAddr(address)
		if err != nil || !a.Is4() {
			continue
		}
		const bits = 24
		p, _ := a.Prefix(bits)
		if first == "" {
			first, name, network = host, before, p
		} else if name != before && network != p {
			return []string{first, host}
		}
	}
	return nil
}

func (r *Result) interfacesOfHosts() string {
	var list []string
	for _, host := range r.apart() {
		list = append(list, host+": "+r.addresses[host])
	}
	return spelling.Few(list, 4)
}

// interfacesApart is apart before the hosts are sorted.
func (r *reading) interfacesApart() bool { return r.apart() != nil }

// oddNames are how interfaces of containers and virtual machines begin.
var oddNames = []string{"br-", "veth", "virbr", "docker", "cni", "cali", "flannel", "cbr", "podman", "lxc"}

// oddInterfaces are those among NCCL's, beside another one.
func (r *Result) oddInterfaces() (names []string) {
	for _, s := range r.Log.Sockets {
		name, _, _ := strings.Cut(s, ":")
		if slices.ContainsFunc(oddNames, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
			names = append(names, shown(name))
		}
	}
	if len(names) == len(r.Log.Sockets) {
		return nil
	}
	return names
}

// oldCards are words of the names of GPUs that releases of CUDA leave out.
var oldCards = []string{"K80", "K40", "M40", "M60", "P100", "P40", "GTX 9", "GTX 10", "TITAN X", "GTX TITAN"}

// gpusUnlike reports whether a test lists GPUs that are old, or of several kinds.
func (r *Result) gpusUnlike() bool {
	return strings.Count(strings.TrimSpace(r.gpus), "\n") > 0 || has(r.gpus, oldCards)
}

// spoken is a time as people write it.
func spoken(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%d s", int(d.Seconds()))
}

// surrounding are the facts of the background.
var surrounding = map[signature.Fact]func(r *Result, f *Finding) bool{
	signature.TimeoutTiny: func(_ *Result, f *Finding) bool {
		return patience(f.raw) > 0 && patience(f.raw) < time.Second
	},
	signature.TimeoutShort: func(_ *Result, f *Finding) bool {
		const short = 5 * time.Minute
		return patience(f.raw) > 0 && patience(f.raw) < short
	},
	signature.WorkSaved: func(r *Result, f *Finding) bool {
		return r.said.saved > 0 && r.said.saved < f.order && r.said.undone < r.said.saved
	},
	signature.RendezvousFile:  func(r *Result, _ *Finding) bool { return r.said.file },
	signature.GPUsUnlike:      func(r *Result, _ *Finding) bool { return r.gpusUnlike() },
	signature.InterfacesOdd:   func(r *Result, _ *Finding) bool { return len(r.oddInterfaces()) > 0 },
	signature.InterfacesApart: func(r *Result, _ *Finding) bool { return r.apart() != nil },
	signature.InHorovod: func(r *Result, _ *Finding) bool {
		return slices.ContainsFunc(r.Findings, func(f Finding) bool { return strings.Contains(f.raw, "orovod") }) ||
			strings.Contains(r.said.stack, "orovod")
	},
	signature.DeviceFar:      func(r *Result, _ *Finding) bool { return r.said.far != "" },
	signature.OfAMD:          func(r *Result, _ *Finding) bool { return r.Log.RCCL },
	signature.PeerMemoryNone: func(r *Result, _ *Finding) bool { return r.Log.PeerMemory },
	signature.GPUsExclusive:  func(r *Result, _ *Finding) bool { return r.Log.Exclusive },
	signature.PinsNot: func(r *Result, f *Finding) bool {
		return r.Log.FreeAboveAll || r.sparkNICs(f) || r.withoutGDR()
	},
	signature.ManyRanks: func(r *Result, _ *Finding) bool {
		const many = 512
		off := func(s log.Setting) bool { return s.Name == "NCCL_PXN_DISABLE" && strings.HasPrefix(s.Value, "1") }
		return r.world() >= many || r.Log.Processes >= many || slices.ContainsFunc(r.Log.Settings, off)
	},
}
