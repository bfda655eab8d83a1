// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/spelling"
)

// xids are errors that kernels of programs had on GPUs, as the driver reports them.
type xids struct{ list []xid }

// xid is one kind of them on a GPU.
type xid struct {
	gpu   string
	code  int
	count int
	pids  []string // first ones
	first Finding
}

// Limits of what is kept of them.
const (
	maxXids    = 64
	maxXidPIDs = 8
)

// add takes a line, "NVRM: Xid (PCI:0000:3b:00): 43, pid=77, ...".
func (x *xids) add(f *Finding) {
	_, rest, found := strings.Cut(f.raw, "Xid (PCI:")
	gpu, rest, closed := strings.Cut(rest, ")")
	if !found || !closed {
		return
	}
	gpu = shown(gpu)
	at := slices.IndexFunc(x.list, func(one xid) bool { return one.gpu == gpu && one.code == f.Code })
	if at < 0 {
		if len(x.list) == maxXids {
			return
		}
		at = len(x.list)
		x.list = append(x.list, xid{gpu: gpu, code: f.Code, first: *f})
	}
	one := &x.list[at]
	one.count++
	_, pid, named := strings.Cut(rest, "pid=")
	pid, _, _ = strings.Cut(pid, ",")
	if pid = strings.Trim(pid, "'"); named && len(one.pids) < maxXidPIDs && !slices.Contains(one.pids, pid) {
		one.pids = append(one.pids, strings.Clone(pid))
	}
}

// repeated is what came again on a GPU, of several processes; what stops a kernel comes before what follows from it.
// nil: nothing did.
func (x *xids) repeated() *xid {
	const stopped = 43 // and 45: the driver or the program ended it
	var best *xid
	for i := range x.list {
		one := &x.list[i]
		if one.count > 1 && len(one.pids) > 1 && (best == nil || best.code >= stopped && one.code < stopped) {
			best = one
		}
	}
	return best
}

// tell has a finding name the GPU on which errors come again, and count those of the others.
func (x *xids) tell(f *Finding) {
	best := x.repeated()
	if best == nil {
		return
	}
	var others []string
	for i := range x.list {
		if one := &x.list[i]; one != best {
			others = append(others, one.String())
		}
	}
	text := best.String()
	if len(others) > 0 {
		text += "; " + spelling.Few(others, 3)
	}
	f.Line, f.File, f.Code, f.Host, f.time = best.first.Line, best.first.File, best.code, best.first.Host, best.first.time
	f.Text = shown(text + ": " + best.first.Text)
}

func (x *xid) String() string {
	return fmt.Sprintf("Xid %d on %s %s, of %s", x.code, x.gpu, spelling.Plural(x.count, "time", "times"),
		spelling.Plural(len(x.pids), "process", "processes"))
}
