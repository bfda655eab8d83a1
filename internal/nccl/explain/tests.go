// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/nccl/signature"
)

// worlds are the ranks that nccl-tests list, of all tests of a log.
type worlds struct {
	open, ended int  // heads without an average after them, and averages
	atOnce      bool // a head came before the average of the one before it
	several     bool // a rank other than 0
	idle        bool // an average is 0, as with one rank
	devices     bool // a GPU other than the first of its host
	spread      bool // ranks of one list are on several hosts
	large       bool // messages of 4 GiB or more
	host        string
}

// head begins another test, "# nThread 1 nGpus 8 minBytes 8 maxBytes 4294967296 step: 2(factor) ...".
func (w *worlds) head(line string) {
	w.atOnce = w.atOnce || w.open > 0
	w.open++
	w.host = ""
	const limit = 1 << 32
	_, rest, _ := strings.Cut(line, " maxBytes ")
	size, _, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(size, 10, 64)
	w.large = w.large || err == nil && n >= limit
}

// average ends a test, "# Avg bus bandwidth    : 0".
func (w *worlds) average(line string) {
	_, value, _ := strings.Cut(line, ":")
	f := strings.Fields(value)
	if len(f) == 0 {
		return
	}
	n, err := strconv.ParseFloat(f[0], 64)
	w.idle = w.idle || err == nil && n == 0
	w.open = max(0, w.open-1)
	w.ended++
}

// rank takes the fields of "#  Rank  7 Group  0 Pid 7 on gpu1 device  0 [0x17] NVIDIA A100".
func (w *worlds) rank(f []string) {
	after := func(name string) string {
		if at := slices.Index(f, name); at >= 0 && at+1 < len(f) {
			return f[at+1]
		}
		return ""
	}
	w.several = w.several || after("Rank") != "0"
	w.devices = w.devices || after("device") != "0"
	host := after("on")
	w.spread = w.spread || w.host != "" && host != w.host
	w.host = host
}

// lonely reports whether each test of the log has one rank only, so that nothing went between GPUs.
func (r *Result) lonely() bool {
	w := &r.tests.worlds
	return r.tests.first != "" && !w.several && r.world() <= 1 && (w.idle || w.atOnce && w.ended > 1)
}

// severed reports whether these ran at once, as processes of one test do.
func (r *Result) severed() bool {
	return r.tests.worlds.atOnce && (r.tests.worlds.ended > 1 || len(strings.Fields(r.tests.first)) > 1)
}

// judgeTests adds what follows from the results of tests, and from those that are missing.
func (r *reading) judgeTests() {
	if r.tests.wrong != "" {
		r.follow(&signature.WrongResults, r.tests.wrong)
	}
	switch {
	case r.lonely():
		text := "each test lists one rank, on " + strings.Join(strings.Fields(r.tests.first), ", ")
		r.follow(&signature.TestsApart, shown(text)).Open = !r.severed()
	case r.standsStill():
		r.follow(&signature.Stalled, "the last line of progress: "+shown(r.said.bar)).Open = true
	case r.stalled():
		r.follow(&signature.Stalled, "the table of results is empty").Open = true
	case r.stopped() && r.findFirst() < 0:
		r.follow(&signature.Stalled, "someone stopped the program by hand (KeyboardInterrupt)"+inPlace(r.said.at.place())).Open = true
	case r.silentAfterSetup():
		text := "GPUs use P2P, and nothing comes after the set-up"
		if r.iommuWarned() {
			text = "RCCL misses iommu=pt, " + text
		}
		r.follow(&signature.Stalled, text).Open = true
	}
}

// silentAfterSetup reports whether the set-up of all ranks ended on one host, whose GPUs use P2P, or one where RCCL
// says that the IOMMU translates; and nothing shows that the program worked after it.
func (r *reading) silentAfterSetup() bool {
	t := r.Transports()
	plain := t.RDMA+t.TCP+t.Plugin == 0 && r.Log.NVLSChannels <= 0 && len(r.Hosts) == 1 && r.allRanks() &&
		!r.said.closed && r.said.spoke < r.said.informed
	return (plain || r.iommuWarned()) && t.P2P > 0 && r.complete() && r.said.progress == 0 && !r.tests.measured
}

// inPlace is a place behind a text; empty: it is not known.
func inPlace(place string) string {
	if place == "" {
		return ""
	}
	return ", in " + place
}

// stopped reports whether someone stopped the program by hand after its set-ups, and before it showed progress.
func (r *Result) stopped() bool {
	return r.said.stopped > 0 && r.allEnded() && !r.wentFurther() && !r.tests.measured
}
