// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/nccl/log"
)

// report is what torchrun says at its end of a rank that failed, before the traceback of that rank.
type report struct {
	line        int64 // 0: none
	host        string
	rank, local int
}

// reported takes "  host      : gpu7" and "  rank      : 7 (local_rank: 7)".
func (r *reading) reported(text string) {
	name, value, found := strings.Cut(text, " : ")
	if !found {
		return
	}
	const near = 8
	switch name = strings.TrimSpace(name); {
	case name == "host":
		r.report = report{r.Lines, log.Text(strings.TrimSpace(value)), Unknown, Unknown}
	case name == "rank" && r.report.line > 0 && r.Lines-r.report.line < near:
		rank, rest, _ := strings.Cut(strings.TrimSpace(value), " ")
		_, local, _ := strings.Cut(rest, "local_rank: ")
		r.report.rank, r.report.local = ordinalOf(rank), ordinalOf(strings.TrimSuffix(local, ")"))
	}
}

func ordinalOf(text string) int {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && n < maxRanks {
		return n
	}
	return Unknown
}

// told reports whether a line is of the traceback that a launcher repeats.
func (p *report) told(line int64, text string) bool {
	const near = 128
	return p.line > 0 && line-p.line < near && strings.HasPrefix(text, "  ")
}

// ordinal is the highest number that a GPU of a host would have for the ranks that the launcher starts there.
func (r *Result) ordinal(f *Finding) int {
	highest := r.Log.PerHost - 1
	if f.Line > 0 && r.report.line > 0 && f.Rank == r.report.rank {
		highest = max(highest, r.report.local)
	}
	return highest
}

// ordinals compares the ranks of a host with its GPUs.
func (r *Result) ordinals(f *Finding) string {
	text := fmt.Sprintf("%d processes for each host", r.Log.PerHost)
	if r.ordinal(f) >= r.Log.PerHost {
		text = fmt.Sprintf("local rank %d", r.ordinal(f))
	}
	from := "that CUDA_VISIBLE_DEVICES leaves"
	if r.Log.Visible == 0 {
		from = "that nvidia-smi lists"
	}
	return fmt.Sprintf("%s against %d %s (numbers 0 to %d)", text, r.visible(), from, r.visible()-1)
}

// visible is how many GPUs a process sees; 0: not known.
func (r *Result) visible() int { return cmp.Or(r.Log.Visible, r.Log.GPUs) }

// lockedLittle reports whether the limit of locked memory is less than what any job needs.
func (r *Result) lockedLittle() bool {
	const enough = 1 << 20 // KiB
	n, err := strconv.Atoi(r.Log.Memlock)
	return err == nil && n < enough
}

// pair is the addresses of both devices of a connection, of this side first; empty: the line has none.
func (f *Finding) pair() string {
	a, known := f.gid("local GID", "localGid")
	b, both := f.gid("remote GID", "remoteGid")
	if !known || !both {
		return ""
	}
	return a.String() + " to " + b.String()
}

// ofOneHost reports whether both devices of a connection are of one host: the far one is the near one of another
// connection there, or a file that is given lists it.
func (r *Result) ofOneHost(f *Finding) bool {
	here := func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err == nil && (slices.Contains(r.Log.Addresses, a.String()) || slices.ContainsFunc(f.Pairs,
			func(p string) bool {
				near, _, _ := strings.Cut(p, " to ")
				return near == a.String() && len(f.Hosts) < 2
			}))
	}
	return slices.ContainsFunc(f.Pairs, func(p string) bool {
		_, far, _ := strings.Cut(p, " to ")
		return here(far)
	})
}
