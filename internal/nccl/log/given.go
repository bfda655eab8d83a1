// SPDX-License-Identifier: Apache-2.0

package log

import (
	"slices"
	"strconv"
	"strings"
)

// Given is what a log, or a file that is given with it, lists of what the job runs in.
type Given struct {
	Memlock   string   // limit of locked memory, in KiB or "unlimited"; empty: not said
	Visible   int      // most GPUs that CUDA_VISIBLE_DEVICES leaves a process; 0: not said
	PerHost   int      // processes that the launcher starts on each host; 0: not said
	Packages  []string // of NCCL, as pip lists them, "nvidia-nccl-cu12 2.18.1"
	Addresses []string // of the host, as ip lists them

	Node
	GPUs      int // that nvidia-smi -L lists; 0: not said
	Container Container

	limit bool   // the next line is what ulimit -l says
	named string // the next line has the value of this setting, as in manifests
}

// Container is what the command that starts a container passes to it.
type Container struct {
	Run   bool // there is such a command
	SHM   bool // it gives more shared memory than is usual
	Verbs bool // it gives devices of RDMA

	goes bool // on in the next line
}

// takes reads a line of the command, "docker run --gpus all ...".
func (c *Container) takes(line string) {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) })
	}
	c.Run = true
	c.SHM = c.SHM || has("--shm-size", "--ipc=host", "--ipc host", "/dev/shm")
	c.Verbs = c.Verbs || has("/dev/infiniband", "--privileged")
	c.goes = strings.HasSuffix(strings.TrimRight(line, " "), `\`)
}

// Limits of what is kept.
const (
	maxPackages  = 8
	maxAddresses = 256
)

// Take takes from a line what it sets or lists: settings ("NCCL_X=1", "export NCCL_X=1", "mpirun -x NCCL_X=1",
// "docker run -e NCCL_X=1", "ENV NCCL_X=1", "NCCL_X: 1"), limits, packages, addresses. Prose that names one does not
// count.
func (l *Log) Take(line string) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return
	}
	before, leading := "", true // only settings are before this word
	for i, word := range words {
		name, value, sets := strings.Cut(word, "=")
		quoted := strings.HasSuffix(word, "':") || strings.HasSuffix(word, `":`)
		if key := strings.TrimLeft(word, "({"); !sets && i+1 < len(words) && (quoted || leading && i+2 == len(words) && strings.HasSuffix(key, ":")) {
			name, value, sets = key[strings.LastIndexByte(key, '(')+1:len(key)-1], words[i+1], true
		}
		named := sets && l.sets(name, value, leading || quoted || before == "-x" || before == "-e" || before == "--env")
		leading = leading && (named || slices.Contains(leaders, word))
		l.processes(before, word)
		before = word
	}
	l.listed(words, line)
}

// leaders are words before settings.
var leaders = []string{"export", "ENV", "env", "set", "+", "$", "-", "{", "#", "setenv"}

// sets keeps one, and reports whether it is one.
func (l *Log) sets(name, value string, given bool) bool {
	const capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
	name, value = strings.Trim(name, `'"`), strings.Trim(strings.TrimRight(value, `,;})`), `'"`)
	known := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	if strings.Trim(name, capitals) != "" || !slices.ContainsFunc(families, known) {
		return false
	}
	s := Setting{Name: Text(name), Value: Text(value)}
	if given && len(l.Settings) < maxSettings && !slices.Contains(l.Settings, s) {
		l.Settings = append(l.Settings, s)
	}
	if given && name == "CUDA_VISIBLE_DEVICES" && value != "" && value != "-1" && !strings.ContainsRune(value, '$') {
		l.Visible = max(l.Visible, strings.Count(value, ",")+1)
	}
	return true
}

// families are how names of settings begin that are kept.
var families = []string{
	"NCCL_", "TORCH_NCCL_", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GLOO_", "FI_", "UCX_", "HSA_",
	"CUDA_LAUNCH_BLOCKING",
}

// processes takes how many a launcher starts on each host, "--nproc_per_node=8", "--nproc-per-node 8".
func (l *Log) processes(before, word string) {
	name, value, valued := strings.Cut(word, "=")
	if !valued {
		name, value = before, word
	}
	if name != "--nproc_per_node" && name != "--nproc-per-node" {
		return
	}
	if n, err := strconv.Atoi(value); err == nil && n > 0 && n < maxRanks {
		l.PerHost = max(l.PerHost, n)
	}
}

// listed takes limits, packages and addresses.
func (l *Log) listed(words []string, line string) {
	last := words[len(words)-1]
	l.shows(words, line)
	switch {
	case strings.Contains(line, "docker run "), strings.Contains(line, "podman run "):
		l.Container.takes(line)
	case strings.Contains(line, "ulimit -l"):
		l.limit = true
	case len(words) == 3 && words[0] == "-" && words[1] == "name:":
		l.named = Text(words[2])
	case words[0] == "GPU" && len(words) > 2 && strings.Contains(line, "(UUID: GPU-"):
		if n, err := strconv.Atoi(strings.TrimSuffix(words[1], ":")); err == nil && n >= 0 && n < maxRanks {
			l.GPUs = max(l.GPUs, n+1)
		}
	case strings.HasPrefix(words[0], "nvidia-nccl"):
		name := strings.Join(words[:min(len(words), 2)], " ")
		name = Text(strings.Replace(name, "==", " ", 1))
		if !slices.Contains(l.Packages, name) && len(l.Packages) < maxPackages && strings.ContainsRune(name, ' ') {
			l.Packages = append(l.Packages, name)
		}
	case (words[0] == "inet" || words[0] == "inet6") && len(words) > 1:
		address, _, _ := strings.Cut(words[1], "/")
		if len(l.Addresses) < maxAddresses {
			l.Addresses = append(l.Addresses, Text(address))
		}
	case strings.HasPrefix(line, "max locked memory"):
		l.locked(last, 1)
	case strings.HasPrefix(line, "Max locked memory") && len(words) > 3:
		const kilo = 1024
		l.locked(words[3], kilo)
	}
}

// locked keeps the smallest limit of locked memory.
func (l *Log) locked(value string, unit int) {
	n, err := strconv.Atoi(value)
	if err != nil && value != "unlimited" {
		return
	}
	before, wrong := strconv.Atoi(l.Memlock)
	switch {
	case err != nil && l.Memlock == "":
		l.Memlock = value
	case err == nil && (wrong != nil || n/unit < before):
		l.Memlock = strconv.Itoa(n / unit)
	}
}

// Answer takes the line behind one that asks, or that goes on: the limit of locked memory, the value of a setting, the
// command of a container.
func (l *Log) Answer(line string) {
	if l.Container.goes {
		l.Container.takes(line)
	}
	if !l.limit && l.named == "" {
		return
	}
	line = strings.TrimSpace(line)
	if l.limit {
		l.locked(line, 1)
	}
	if value, is := strings.CutPrefix(line, "value:"); is {
		l.sets(l.named, strings.TrimSpace(value), true)
	}
	l.limit, l.named = false, ""
}
