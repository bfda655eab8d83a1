// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/nccl/log"
)

// progress takes what programs print of their progress: bars of tqdm, the tables of nccl-tests.
func (r *reading) progress(line string) {
	if line[0] != '#' && tabular(line) { // behind what a launcher put before it
		line = log.Strip(line).Rest
	}
	bare := strings.TrimLeft(line, " ")
	if strings.HasPrefix(bare, "#") || strings.HasPrefix(bare, bounds) || strings.HasPrefix(bare, "nThread ") {
		r.table("# " + strings.Replace(strings.TrimLeft(bare, "# "), "nThread: ", "nThread ", 1))
		return
	}
	r.row(bare)
	name, bar, found := strings.Cut(line, "%|")
	if !found {
		return
	}
	at := len(name)
	for at > 0 && name[at-1] >= '0' && name[at-1] <= '9' {
		at--
	}
	percent := name[at:]
	const most = 120
	if percent == "" || percent == "0" || percent == "100" || strings.IndexByte(bar, '[') < 0 || len(name) > most {
		return
	}
	r.loop, r.looped = log.Strip(name).Rest, elapsed(bar)
}

// elapsed is how long a loop runs, of "| 7/77 [05:50<3:17:42, 1.24s/it]"; 0: the bar does not say it.
func elapsed(bar string) (d time.Duration) {
	_, rest, _ := strings.Cut(bar, "[")
	text, _, found := strings.Cut(rest, "<")
	if !found {
		return 0
	}
	for part := range strings.SplitSeq(text, ":") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > maxRanks {
			return 0
		}
		const sixty = 60
		d = d*sixty + time.Duration(n)*time.Second
	}
	return d
}

// patience is how long a rank waited before the line of its time-out, "Timeout(ms)=600000", "timed out after 600000ms";
// 0: the line does not say it.
func patience(line string) time.Duration {
	for _, before := range []string{"Timeout(ms)=", "timed out after ", "out waiting "} {
		_, rest, _ := strings.Cut(line, before)
		if n, err := strconv.Atoi(rest[:len(rest)-len(strings.TrimLeft(rest, digits))]); err == nil && n < 1<<40 {
			return time.Duration(n) * time.Millisecond
		}
	}
	return 0
}

// goesLong reports whether a loop of the log runs about as long as a rank waited, so that it did not end with the wait.
func (r *Result) goesLong(f *Finding) bool {
	waited := patience(f.raw)
	return r.loop != "" && (r.looped == 0 || waited == 0 || 2*r.looped >= waited)
}

// types are how the names of types of nccl-tests begin.
var types = []string{"float", "half", "double", "bf", "int", "uint", "f8", "fp8"}

// bounds is how nccl-tests begin the line that says how many values are wrong, old ones without a "#" before it.
const bounds = "Out of bounds values"

// tabular reports whether a line may be one of the tables of nccl-tests.
func tabular(line string) bool {
	last := line[len(line)-1]
	return strings.IndexByte(line, '#') > 0 || strings.Contains(line, bounds) ||
		(isDigit(last) || last == 'A') && has(line, types)
}

// row takes a line that may be a row of the results of nccl-tests: size, count, type and numbers, of which the last and
// the fifth last count wrong values. Before they were counted, the column was an error, with an exponent.
func (r *reading) row(line string) {
	if line == "" || !isDigit(line[0]) {
		return
	}
	const columns, longest = 11, 13
	f := strings.Fields(line)
	if len(f) < columns || strings.Trim(f[0]+f[1], digits) != "" ||
		!slices.ContainsFunc(types, func(name string) bool { return strings.HasPrefix(f[2], name) }) {
		return
	}
	r.tests.measured, r.tests.rows = true, true
	wrong := f[len(f)-1] + f[len(f)-5]
	if len(f) <= longest && strings.Trim(wrong, digits) == "" && strings.Trim(wrong, "0") != "" {
		r.tests.wrong = "#wrong: " + shown(line)
	}
}

const digits = "0123456789"

// busy names the loop whose progress bar the log ends in, "Running tokenizer 9 %".
func (r *Result) busy() string {
	name := strings.TrimRight(r.loop, "0123456789")
	percent := r.loop[len(name):]
	return shown(strings.TrimSpace(strings.TrimRight(name, " :") + " " + percent + " %"))
}

// table takes "# nThread 1 nGpus 8 ...", "#  Rank  0 Group  0 Pid 7 on gpu1 device  0 [0000:17:00] NVIDIA A100-PCIE-40GB"
// and "# Avg bus bandwidth : 33.3".
func (r *reading) table(line string) {
	switch {
	case strings.HasPrefix(line, "# nThread "):
		r.tests = benchmark{wrong: r.tests.wrong, first: r.tests.first, apart: r.tests.apart, worlds: r.tests.worlds}
		r.tests.worlds.head(line)
		r.said.asks(line)
	case strings.HasPrefix(line, "# "+bounds):
		_, values, _ := strings.Cut(line, ":")
		if strings.Contains(values, "FAILED") && !strings.HasPrefix(strings.TrimLeft(values, " "), "0 ") {
			r.tests.wrong = shown(strings.TrimPrefix(line, "# "))
		}
		r.tests.ended = r.tests.ended || strings.Contains(line, " OK")
	case strings.Contains(line, " busbw "):
		r.tests.began = true
	case strings.HasPrefix(line, "# Avg bus bandwidth"):
		r.tests.apart = r.tests.apart || r.tests.ended && r.tests.averaged && r.tests.rows
		r.tests.ended, r.tests.averaged, r.tests.rows = true, true, false
		r.tests.worlds.average(line)
	case strings.Contains(line, " Rank ") && strings.Contains(line, " device "):
		f := strings.Fields(line)
		r.tests.worlds.rank(f)
		if len(f) > 2 && f[2] == "0" {
			_, rest, _ := strings.Cut(line, " on ")
			host, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
			if known := strings.Contains(" "+r.tests.first, " "+host+" "); !known && len(r.tests.first) < maxWaiters {
				r.tests.first += host + " "
			}
		}
		const most = 4096
		if _, name, found := strings.Cut(line, "] "); found && len(r.gpus) < most && !strings.Contains(r.gpus, name) {
			r.gpus += name + "\n"
		}
	}
}

// Tested reports whether a test of nccl-tests ended with results that are right.
func (r *Result) Tested() bool { return r.tests.measured && r.tests.ended && r.tests.wrong == "" }

// withoutGDR reports whether the names of GPUs or hosts are of those that have no GPUDirect RDMA.
func (r *Result) withoutGDR() bool {
	return r.gpusWithoutGDR() || slices.ContainsFunc(r.Hosts, func(h string) bool {
		return strings.Contains(h, "spark") || strings.Contains(h, "gx10") // DGX Spark has a GB10
	})
}

// gpusWithoutGDR reports whether the names of GPUs are of those that have no GPUDirect RDMA.
func (r *Result) gpusWithoutGDR() bool {
	return strings.Contains(r.gpus, "GeForce") || strings.Contains(r.gpus, "GB10") || strings.Contains(r.gpus, "TITAN")
}

// neverGDR reports whether the GPUs have no GPUDirect RDMA for sure: by their names, or by those of hosts and of NICs,
// which other machines may have each on its own.
func (r *Result) neverGDR() bool { return r.gpusWithoutGDR() || r.withoutGDR() && r.inSpark() }

// stalled reports whether a test of NCCL began, and has no result.
func (r *Result) stalled() bool { return r.tests.began && !r.tests.measured && !r.tests.ended }
