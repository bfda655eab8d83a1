// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// parseCgroup reads from /proc/PID/cgroup who runs a process: lines "hierarchy:controllers:path", one for
// version 2 and one for each hierarchy of version 1.
//
//   - Slurm: job_<id> right below slurmstepd.scope, which only slices are above, or below slurm or slurm_<node> in
//     the root;
//   - Kubernetes: pod<uid> below kubepods, or kubepods-...-pod<uid>.slice, in which "_" stands for "-". Where this
//     process has a control group namespace, as in a pod, paths are relative to its own group
//     ("/../../podUID/..."), and kubepods may be missing;
//   - containers: 64 hexadecimal digits, after the name of the runtime and before ".scope"; those of LXC and of
//     systemd-machined have names.
//
// A path is read from the root downwards, up to the first of these, or to a group that may be delegated: what
// is below it, root of the container or the user may have made. It is used as a name only, and the workload
// is Stated. The owner is what the path shows before; none where it shows none.
func parseCgroup(b []byte) (fabric.Workload, fabric.Owner) {
	var p place
	for line := range bytes.Lines(b) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ":")
		if _, path, ok := strings.Cut(rest, ":"); ok {
			p = p.and(placeOf(path))
		}
	}
	w := fabric.Workload{Scheduler: "none", Pod: p.pod, ContainerID: p.container, Rank: -1}
	switch {
	case p.pod != "":
		w.Scheduler, w.Job = "kubernetes", p.pod
		if p.claimedJob != "" {
			w.Scheduler, w.Job, w.Stated = "slurm", p.claimedJob, true
		}
		return w, fabric.Owner{Kind: fabric.OwnerPod, ID: p.pod}
	case p.container != "":
		w.Scheduler, w.Job = "container", p.container[:12]
		return w, fabric.Owner{Kind: fabric.OwnerContainer, ID: p.container}
	case p.machine != "":
		return w, fabric.Owner{Kind: fabric.OwnerContainer, ID: p.machine}
	case p.job != "":
		w.Scheduler, w.Job = "slurm", p.job
		return w, fabric.Owner{Kind: fabric.OwnerJob, ID: p.job}
	case p.claimed != "":
		w.Scheduler, w.Job, w.ContainerID, w.Stated = "container", p.claimed[:12], p.claimed, true
	}
	return w, fabric.Owner{}
}

// place is what the path of a control group shows.
type place struct {
	pod, container, machine, job string
	claimed                      string // a container below what is delegated to a user
	claimedJob                   string // a job of Slurm in a pod
	disputed                     bool   // hierarchies show different jobs
	contested                    bool   // hierarchies show different pods or containers
}

// within is what the process is isolated in.
func (p place) within() string { return cmp.Or(p.pod, p.container, p.machine) }

func (p place) isolated() bool { return p.pod != "" || p.container != "" || p.machine != "" }

// and joins what two hierarchies show: a container is inside of a job, and of two jobs, pods or containers
// neither is believed: a group of one hierarchy may be delegated where the others are not, and runtimes join
// all under one name.
func (p place) and(q place) place {
	switch {
	case p.isolated() && q.isolated() && p.within() != q.within():
		return place{contested: true}
	case p.contested || q.contested:
		return place{contested: true}
	case p.isolated():
		p.container = cmp.Or(p.container, q.container)
		return p
	case q.isolated():
		return q
	case p.job != "" && q.job != "" && p.job != q.job:
		p.job, p.disputed = "", true
	case !p.disputed:
		p.job = cmp.Or(p.job, q.job)
	}
	p.claimed = cmp.Or(p.claimed, q.claimed)
	return p
}

// placeOf reads a path up to the first part below which its processes may have made groups.
func placeOf(path string) (p place) {
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	above := true // only slices so far
	for i, part := range parts {
		rest := parts[i+1:]
		switch {
		case part == "..":
			continue
		case podOf(part) != "":
			p.pod, p.container = podOf(part), containerOf(part)
			if p.container == "" && len(rest) > 0 {
				p.container = containerOf(rest[0])
			}
			p.claimedJob = claimedJob(rest)
			return p
		case containerOf(part) != "":
			p.container = containerOf(part)
			return p
		case isMachine(parts[:i], part):
			p.machine = plain(part, 64)
			return p
		case part == "slurmstepd.scope" && above, strings.HasSuffix(part, "_slurmstepd.scope") && above,
			(part == "slurm" || strings.HasPrefix(part, "slurm_")) && isFirst(parts[:i]):
			p.job = jobIn(rest)
			return p
		case isDelegated(part) || part == "user" && isFirst(parts[:i]): // the latter is what pam_cgfs makes
			p.claimed = firstContainer(rest)
			return p
		}
		above = above && strings.HasSuffix(part, ".slice")
	}
	return p
}

func isFirst(before []string) bool {
	return !slices.ContainsFunc(before, func(part string) bool { return part != ".." })
}

// isDelegated reports whether the processes of a group may make others below it: of services and scopes that
// is not seen, but for the services of container runtimes, whose groups they make themselves.
func isDelegated(part string) bool {
	switch part {
	case "containerd.service", "docker.service", "crio.service", "kubelet.service", "k3s.service", "k3s-agent.service",
		"rke2-server.service", "rke2-agent.service":
		return false
	}
	return strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope")
}

// isMachine reports whether a group is that of a container of LXC or of systemd-machined.
func isMachine(before []string, part string) bool {
	up := ""
	if len(before) > 0 {
		up = before[len(before)-1]
	}
	return strings.HasPrefix(part, "lxc.payload") || up == "lxc" && isFirst(before[:len(before)-1]) ||
		up == "machine.slice" && (strings.HasSuffix(part, ".scope") || strings.HasSuffix(part, ".service"))
}

// jobIn returns the number in job_<id> or uid_<user>/job_<id>.
func jobIn(rest []string) string {
	if len(rest) > 1 && strings.HasPrefix(rest[0], "uid_") {
		rest = rest[1:]
	}
	if len(rest) > 0 {
		if id, is := strings.CutPrefix(rest[0], "job_"); is && isNumber(id) {
			return id
		}
	}
	return ""
}

// claimedJob is that of a slurmd in a pod.
func claimedJob(rest []string) string {
	for i, part := range rest {
		if part == "slurm" || strings.HasPrefix(part, "slurm_") || strings.HasSuffix(part, "slurmstepd.scope") {
			return jobIn(rest[i+1:])
		}
	}
	return ""
}

func firstContainer(rest []string) string {
	for _, part := range rest {
		if id := containerOf(part); id != "" {
			return id
		}
	}
	return ""
}

// unifiedCgroup returns the path of the control group of version 2 from the root of the hierarchy; empty: it
// is the root, there is none, or it lies outside the control group namespace of this process.
func unifiedCgroup(b []byte) string {
	for line := range bytes.Lines(b) {
		p, ok := strings.CutPrefix(strings.TrimSuffix(string(line), "\n"), "0::/")
		if ok && p != "" && len(p) < 4<<10 && !slices.Contains(strings.Split(p, "/"), "..") {
			return p
		}
	}
	return ""
}

func isNumber(s string) bool {
	n, err := strconv.ParseUint(s, 10, 32)
	return err == nil && n > 0
}

// podOf returns the UID of a pod, with "-", or nothing.
func podOf(part string) string {
	// "<slice>:<runtime>:<container>", where kubelet uses systemd and the runtime does not
	part, _, _ = strings.Cut(part, ":")
	part = strings.TrimSuffix(part, ".slice")
	i := strings.LastIndex(part, "pod")
	if i < 0 || i > 0 && (part[i-1] != '-' || !strings.Contains(part[:i], "kubepods")) {
		return ""
	}
	uid := strings.ReplaceAll(part[i+len("pod"):], "_", "-")
	digits := strings.ReplaceAll(uid, "-", "")
	if len(digits) != 32 || len(uid) != 32 && len(uid) != 36 || !isHex(digits) { // pods of files have 32 digits
		return ""
	}
	return uid
}

// containerOf returns the ID of a container, or nothing.
func containerOf(part string) string {
	part = strings.TrimSuffix(part, ".scope")
	part = part[strings.LastIndexAny(part, "-:")+1:]
	if len(part) != 64 || !isHex(part) {
		return ""
	}
	return part
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// parseNamespace reads where a link below ns/ leads, "net:[4026531840]".
func parseNamespace(link, kind string) (uint64, bool) {
	digits, ok := strings.CutPrefix(link, kind+":[")
	digits, also := strings.CutSuffix(digits, "]")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && also && err == nil && n > 0
}

// parseMemlock finds the soft limit of locked memory in limits (proc_pid_limits of fs/proc/base.c), in bytes.
func parseMemlock(b []byte) (uint64, bool) {
	for line := range bytes.Lines(b) {
		row, ok := bytes.CutPrefix(line, []byte("Max locked memory "))
		if !ok {
			continue
		}
		f := strings.Fields(string(row))
		if len(f) != 3 || f[2] != "bytes" {
			return 0, false
		}
		if f[0] == "unlimited" {
			return math.MaxUint64, true
		}
		n, err := strconv.ParseUint(f[0], 10, 64)
		return n, err == nil
	}
	return 0, false
}

// parseStatus finds the real user and the allowed CPUs in status (proc_pid_status of fs/proc/array.c).
func parseStatus(b []byte) (user uint32, cpus string, ok bool) {
	found := 0
	for line := range bytes.Lines(b) {
		key, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ":\t")
		switch key {
		case "Uid":
			first, _, _ := strings.Cut(value, "\t")
			n, err := strconv.ParseUint(first, 10, 32)
			if err != nil {
				return 0, "", false
			}
			user = uint32(n)
			found++
		case "Cpus_allowed_list":
			if len(value) > 4<<10 || strings.Trim(value, "0123456789,-") != "" {
				return 0, "", false
			}
			cpus = value
			found++
		}
	}
	return user, cpus, found == 2
}
