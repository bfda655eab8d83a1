// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// parseCgroup reads from /proc/PID/cgroup who runs a process: lines "hierarchy:controllers:path", one for version 2 and one
// for each hierarchy of version 1.
//
//   - Slurm: job_<id> somewhere below slurmstepd.scope, slurm or slurm_<node>;
//   - Kubernetes: pod<uid> below kubepods, or kubepods-...-pod<uid>.slice, in which "_" stands for "-". Where this process has a
//     control group namespace, as in a pod, paths are relative to its own group ("/../../podUID/..."), and kubepods may be
//     missing;
//   - containers: 64 hexadecimal digits, after the name of the runtime and before ".scope".
//
// A user may make groups of any name below user@<uid>.service, which systemd delegates, and root of a pod may do so in its pod. Below
// the former neither Slurm nor a kubelet is looked for; what else is found there is stated by the user, and so is Slurm in a pod.
func parseCgroup(b []byte) fabric.Workload {
	var job, pod, container string
	stated := false
	for line := range bytes.Lines(b) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ":")
		_, path, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		slurm, delegated := false, false
		for part := range strings.SplitSeq(path, "/") {
			delegated = delegated || strings.HasPrefix(part, "user@") && strings.HasSuffix(part, ".service")
			if id := containerOf(part); id != "" {
				container, stated = id, delegated // the innermost
			}
			if delegated {
				continue
			}
			slurm = slurm || part == "slurm" || strings.HasPrefix(part, "slurm_") || strings.HasSuffix(part, "slurmstepd.scope")
			if id, is := strings.CutPrefix(part, "job_"); is && slurm && job == "" && isNumber(id) {
				job = id
			}
			if uid := podOf(part); pod == "" {
				pod = uid
			}
		}
	}
	w := fabric.Workload{Scheduler: "none", Pod: pod, ContainerID: container, Rank: -1}
	switch {
	case job != "":
		w.Scheduler, w.Job, w.Stated = "slurm", job, pod != ""
	case pod != "":
		w.Scheduler, w.Job = "kubernetes", pod
	case container != "":
		w.Scheduler, w.Job = "container", container[:12]
		w.Stated = stated
	}
	return w
}

// unifiedCgroup returns the path of the control group of version 2 from the root of the hierarchy; empty: it is the root, there is none,
// or it lies outside the control group namespace of this process.
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
	part, _, _ = strings.Cut(part, ":") // "<slice>:<runtime>:<container>", where kubelet uses systemd and the runtime does not
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
func parseNamespace(link string) (uint64, bool) {
	digits, ok := strings.CutPrefix(link, "net:[")
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
