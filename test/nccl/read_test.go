// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/nccl/settings"
)

var update = flag.Bool("update", false, "write what was verified to variables.tsv")

// TestVariables runs NCCL with the variables of the table and sees which it says that it reads, and what it
// reads there. Those are verified, and the table has to say so of exactly these, for each release that it
// names.
func TestVariables(t *testing.T) {
	whole(t)
	each(t, func(t *testing.T, r rig) {
		verified := map[string]bool{}
		n := newNode(t, "")
		readNumbers(t, n, r, jobs, verified)
		if err := os.WriteFile(filepath.Join(n.work, "conf"), []byte("NCCL_BUFFSIZE=2097152\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if seeWord(t, n, r, w, "NCCL_NET=Socket") {
				verified[w.name] = true
			}
		}
		judgeVerified(t, r, verified)
	})
}

// judgeVerified writes what was seen to the table, or compares it with that.
func judgeVerified(t *testing.T, r rig, verified map[string]bool) {
	t.Helper()
	known := 0
	for _, v := range settings.Variables() {
		if v.Status == settings.StatusCurrent && reads(t, r, v) {
			known++
		}
	}
	t.Logf("NCCL %s: %d of %d variables verified", r.release, len(verified), known)
	if *update {
		mark(t, r.mark(), verified)
		return
	}
	compare(t, r, verified)
}

// mark is the word for the release in the column verified. What no job without RDMA shows has one of the guest.
func (r rig) mark() string {
	if *guest {
		return r.release + settings.OverRDMA
	}
	return r.release
}

// compare holds the column verified against what was seen.
func compare(t *testing.T, r rig, verified map[string]bool) {
	named := false
	for _, v := range settings.Variables() {
		named = named || slices.Contains(v.Verified, r.mark())
	}
	if !named {
		t.Skipf("the table was verified with other releases than %s: go test -tags nccl ./test/nccl -run TestVariables -update", r.release)
	}
	for _, v := range settings.Variables() {
		if *guest && slices.Contains(v.Verified, r.release) {
			continue
		}
		if said := slices.Contains(v.Verified, r.mark()); said != verified[v.Name] {
			t.Errorf("%s: the table says verified with %s: %t; seen: %t", v.Name, r.mark(), said, verified[v.Name])
		}
	}
}

// A spelling is a way to write a number, which our reader of numbers is held against.
type spelling struct {
	name  string
	write func(int64) string
}

var spellings = []spelling{
	{"with a unit", func(n int64) string { return fmt.Sprintf("%dM", n) }},
	{"hexadecimal", func(n int64) string { return fmt.Sprintf("%#x ", n) }},
	{"octal", func(n int64) string { return fmt.Sprintf(" %#o", n) }},
}

// harmless are numbers for variables whose default is none, or for those that others depend on.
var harmless = map[string]int64{
	"NCCL_COMM_BLOCKING":         1,
	"NCCL_GIN_TYPE":              2,
	"NCCL_IB_ADAPTIVE_ROUTING":   1, // or NCCL_IB_AR_THRESHOLD is not read
	"NCCL_P2P_DISABLE":           1,
	"NCCL_RAS_ENABLE":            0,
	"NCCL_RUNTIME_CONNECT":       0,
	"NCCL_SET_STACK_SIZE":        1,
	"NCCL_UID_STAGGER_THRESHOLD": 1,
	"NCCL_WORK_ARGS_BYTES":       1 << 62, // 0 never ends
}

// A reach is a job that reaches a part of NCCL.
type reach struct {
	ranks  [][]string
	common []string
}

var jobs = map[string]reach{
	"one rank":  {[][]string{nil}, nil},
	"one host":  {gpus, []string{"RIG_OTHERS=1", "NCCL_NET=Socket"}},
	"two hosts": {hosts, []string{"NCCL_NET=Socket"}},
	"threads":   {hosts, []string{"NCCL_NET=Socket", "NCCL_SOCKET_NTHREADS=2", "NCCL_NSOCKS_PERTHREAD=2", "NCCL_OOB_NET_ENABLE=1", "NCCL_TOPO_DUMP_FILE=/dev/null"}},
}

var logged = regexp.MustCompile(`(NCCL_[A-Z0-9_]+) set by environment to (\S+)`)

// readNumbers sets every number in each spelling and notes those that NCCL reads as we do.
func readNumbers(t *testing.T, n *node, r rig, jobs map[string]reach, verified map[string]bool) {
	for _, s := range spellings {
		readSpelling(t, n, r, s, jobs, verified)
	}
}

func readSpelling(t *testing.T, n *node, r rig, s spelling, jobs map[string]reach, verified map[string]bool) {
	var env []string
	want := map[string]string{}
	for _, v := range settings.Variables() {
		if v.Status != settings.StatusCurrent || v.Parser != settings.ParserNumber && v.Parser != settings.ParserOne && v.Parser != settings.ParserBoolean {
			continue
		}
		value := s.write(number(v))
		if v.Parser == settings.ParserBoolean {
			value = strconv.FormatInt(number(v), 10)
		}
		if read, ok := v.Number(value); ok {
			env, want[v.Name] = append(env, v.Name+"="+value), strconv.FormatInt(read, 10)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		job := jobs[name]
		common := append(append(env, job.common...), "RIG_COUNT=3")
		for _, c := range job.common {
			c, value, _ := strings.Cut(c, "=")
			want[c] = value
		}
		ranks := n.job(t, r, 100, common, job.ranks...)
		for i, p := range ranks {
			if end := p.ended(t, 30*time.Second); !end.Success() {
				t.Errorf("%s, %s: rank %d: %v:\n%s", s.name, name, i, end, tail(p.output()))
			}
			for _, m := range logged.FindAllStringSubmatch(p.output(), -1) {
				expected, set := want[m[1]]
				switch read := strings.TrimSuffix(m[2], "."); {
				case !set:
				case read != expected:
					t.Errorf("%s, %s: NCCL reads %s as %s, we as %s", s.name, name, m[1], read, expected)
				case isNumber(m[1]):
					verified[m[1]] = true
				}
			}
		}
		for _, c := range job.common {
			c, _, _ := strings.Cut(c, "=")
			delete(want, c)
		}
	}
}

func isNumber(name string) bool {
	v, _ := settings.Describe(name)
	_, ok := v.Number("1")
	return ok
}

// number returns one for a variable: its default, or one that it takes.
func number(v settings.Variable) int64 {
	if n, ok := harmless[v.Name]; ok {
		return n
	}
	digits := regexp.MustCompile(`^-?\d+`).FindString(v.Default)
	if digits == "" && len(v.Ranges) > 0 {
		return max(0, v.Ranges[len(v.Ranges)-1].Min)
	}
	n, _ := settings.ParseNumber(cmp.Or(digits, "0"))
	return n
}

// mark writes the column verified for a release.
func mark(t *testing.T, release string, verified map[string]bool) {
	path := filepath.Join("..", "..", "internal", "nccl", "settings", "variables.tsv")
	if *guest {
		path = "variables.tsv" // lab.sh takes it from there
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	for i, line := range lines {
		name, _, _ := strings.Cut(line, "\t")
		at := strings.LastIndexByte(line, '\t')
		if i == 0 || at < 0 {
			continue
		}
		releases := slices.DeleteFunc(strings.Fields(line[at:]), func(s string) bool { return s == release })
		if without, _, _ := strings.Cut(release, settings.OverRDMA); verified[name] && !slices.Contains(releases, without) {
			releases = append(releases, release)
		}
		lines[i] = line[:at+1] + strings.Join(releases, " ") + "\n"
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}
