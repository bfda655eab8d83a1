// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// Bounds of an environment.
const (
	maxEnvironment = 8 << 20 // bytes; execve(2) takes 6 MiB at most
	maxName        = 64      // bytes
	maxValue       = 1 << 10 // bytes of a value that is looked at
	maxSettings    = 128
)

// environment is all that leaves /proc/PID/environ.
type environment struct {
	settings []fabric.NCCLVariable
	numbers  map[string]int // of schedulers: ranks, sizes, job ids
	log      string         // name of the file in NCCL_DEBUG_FILE, without folders; it does not leave the package
}

// scan reads NAME=value strings, each with a NUL at its end, in a buffer of its own that it clears. Of a
// string with another name than those on the lists, and of a value that says more than a number or a word, it
// makes no copy. The first of two strings with one name counts, as it does for getenv(3).
func scan(f io.Reader, variable func(name, value string) (fabric.NCCLVariable, bool)) (environment, error) {
	const longest = maxName + 1 + maxValue
	buffer := make([]byte, 16<<10)
	defer func() { clear(buffer) }()
	e := environment{numbers: map[string]int{}}
	total, n := 0, 0
	skipping := false // in a string that is longer than the buffer
	for {
		got, err := f.Read(buffer[n:])
		if total += got; total > maxEnvironment {
			return environment{}, fabric.Because(fabric.ReasonMalformed,
				"environment of more than "+strconv.Itoa(maxEnvironment)+" bytes")
		}
		rest := buffer[:n+got]
		for {
			s, after, whole := bytes.Cut(rest, []byte{0})
			if !whole {
				break
			}
			if !skipping {
				e.take(s, variable)
			}
			skipping, rest = false, after
		}
		if n = copy(buffer, rest); n > longest { // too long for what is looked for, whatever its end is
			if !skipping {
				e.take(buffer[:longest+1], variable)
			}
			skipping, n = true, 0
		}
		switch {
		case errors.Is(err, io.EOF):
			if n > 0 && !skipping {
				e.take(buffer[:n], variable)
			}
			slices.SortFunc(e.settings, func(a, b fabric.NCCLVariable) int { return cmp.Compare(a.Name, b.Name) })
			return e, nil
		case err != nil:
			return environment{}, err
		}
	}
}

// take notes a string if its name is on a list.
func (e *environment) take(s []byte, variable func(name, value string) (fabric.NCCLVariable, bool)) {
	name, value, ok := bytes.Cut(s, []byte("="))
	if !ok || len(name) == 0 || len(name) > maxName {
		return
	}
	switch {
	case bytes.HasPrefix(name, []byte("NCCL_")) && variable != nil:
		if len(e.settings) == maxSettings || slices.ContainsFunc(e.settings,
			func(v fabric.NCCLVariable) bool { return v.Name == string(name) }) {
			return
		}
		long := len(value) > maxValue
		if long {
			value = nil
		}
		if string(name) == logVariable && len(value) > 0 {
			e.log = path.Base(string(value))
		}
		if v, ok := variable(string(name), string(value)); ok {
			if long {
				v = fabric.NCCLVariable{Name: v.Name, Value: "set", Masked: true}
			}
			v.Source = "environ"
			e.settings = append(e.settings, v)
		}
	case string(name) == slurmJob || slices.Contains(ranks(), string(name)) || slices.Contains(sizes(), string(name)):
		if _, twice := e.numbers[string(name)]; twice || len(value) > 10 {
			return
		}
		if n, err := strconv.ParseUint(string(value), 10, 32); err == nil {
			e.numbers[string(name)] = int(n)
		}
	}
}

// ranks and sizes are the variables in which launchers pass the rank of a process and the number of ranks,
// the most specific first.
func ranks() []string {
	return []string{"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}
}

func sizes() []string {
	return []string{"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}
}

const slurmJob = "SLURM_JOB_ID"

// first returns the first of these numbers that is given and not larger.
func (e environment) first(names []string, most, none int) int {
	for _, name := range names {
		if n, ok := e.numbers[name]; ok && n <= most {
			return n
		}
	}
	return none
}

// complete returns the workload with what the environment reports about it. What control groups say comes
// first: a process cannot change them.
func (e environment) complete(w fabric.Workload) fabric.Workload {
	const most = 1 << 24
	w.Rank, w.Ranks = e.first(ranks(), most-1, -1), e.first(sizes(), most, 0)
	if w.Ranks > 0 && w.Rank >= w.Ranks {
		w.Rank, w.Ranks = -1, 0 // one of them is a lie
	}
	if id, ok := e.numbers[slurmJob]; ok && id > 0 && (w.Scheduler == "none" || w.Scheduler == "container") {
		w.Scheduler, w.Job, w.Stated = "slurm", strconv.Itoa(id), true
	}
	return w
}
