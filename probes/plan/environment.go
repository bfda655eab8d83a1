// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/ownership"
	"gpufabric_exporter/probes"
)

// DefaultLogPath is the pipe for NCCL's log in a process that internal/worker started.
const DefaultLogPath = "/proc/self/fd/5"

// Limits of parseEnvironment. NCCL itself reads at most 1023 bytes of a value from its files.
const (
	maxEnvironment  = 64 << 10 // bytes of the file
	maxVariables    = 256
	maxVariableName = 128
	maxVariable     = 1023
)

// siteVariables may be set for probes, and siteFamilies those whose names begin so: NCCL's and those of the libraries
// that its plugins use. Whatever else makes a process do other things (LD_PRELOAD, PATH) has no place in a probe.
var (
	siteVariables = []string{"LD_LIBRARY_PATH"}
	siteFamilies  = []string{"NCCL_", "OFI_NCCL_", "FI_", "UCX_", "SHARP_", "MLX5_", "IBV_", "RDMAV_"}
)

// forced is what the probe itself cannot do without: what makes the log, what keeps deadlines and channels in its
// hands, and what keeps NCCL from what a probe has no use for. Empty is as if unset, whatever /etc/nccl.conf says.
var forced = []string{
	"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,NET,ENV,GRAPH,BOOTSTRAP",
	"NCCL_COMM_BLOCKING=0", "NCCL_CGA_CLUSTER_SIZE=",
	"NCCL_MIN_NCHANNELS=", "NCCL_MAX_NCHANNELS=", "NCCL_MIN_NRINGS=", "NCCL_MAX_NRINGS=",
	"NCCL_RAS_ENABLE=0", "NCCL_PROFILER_PLUGIN=none", "NCCL_INSPECTOR_ENABLE=0", "NCCL_PARAM_DUMP_ALL=0",
}

// probeVariables are the others that a site may not set, because they depend on the probe.
var probeVariables = []string{"NCCL_DEBUG_FILE", "NCCL_COMM_ID", "NCCL_HOSTID", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"}

// parseEnvironment reads the file of variables that a site wants its probes to have: NAME=value lines, with comments
// that begin with "#" in the first column. Nothing is trimmed, unquoted or expanded, as in NCCL's own files. It
// returns NAME=value, and an error that names the lines which cannot be.
func parseEnvironment(data []byte) ([]string, error) {
	if len(data) > maxEnvironment {
		return nil, fmt.Errorf("%d bytes, expected at most %d", len(data), maxEnvironment)
	}
	var vars []string
	var errs []error
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		switch why := refuse(line); {
		case why != "" && len(errs) == 10:
			return nil, fmt.Errorf("%w\nand more", errors.Join(errs...))
		case why != "":
			errs = append(errs, fmt.Errorf("line %d: %s", number, why))
		case len(vars) == maxVariables:
			return nil, fmt.Errorf("line %d: more than %d variables", number, maxVariables)
		default:
			vars = append(vars, line)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return vars, nil
}

// refuse says why a line cannot be a variable of the site's, or nothing.
func refuse(line string) string {
	name, value, found := strings.Cut(line, "=")
	allowed := slices.Contains(siteVariables, name) ||
		slices.ContainsFunc(siteFamilies, func(f string) bool { return strings.HasPrefix(name, f) && name != f })
	shown := strconv.Quote(probes.Printable(name, 64))
	switch {
	case !found:
		return shown + " is no NAME=value"
	case !isVariableName(name):
		return shown + " is no name of a variable"
	case len(name) > maxVariableName || len(value) > maxVariable:
		return fmt.Sprintf("%s is too long, expected at most %d bytes in a name and %d in a value", shown, maxVariableName,
			maxVariable)
	case strings.ContainsRune(value, 0):
		return shown + " contains a NUL"
	case !allowed:
		return fmt.Sprintf("%s is not for probes, expected %s or what begins with %s", shown,
			strings.Join(siteVariables, ", "), strings.Join(siteFamilies, ", "))
	case slices.Contains(probeVariables, name), slices.ContainsFunc(forced,
		func(v string) bool { return strings.HasPrefix(v, name+"=") }):
		return shown + " is set by the probe itself"
	case writesFile(name):
		return shown + " would have the probe write files"
	}
	return ""
}

func isVariableName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// dumpFile ends the names of variables that name a file which NCCL writes.
const dumpFile = "_DUMP_FILE"

// writingEnds ends the names of variables of NCCL, UCX and mlx5 that name a file which is written.
var writingEnds = []string{dumpFile, "_LOG_FILE", "_DEBUG_FILE", "_PROFILE_FILE", "_STATS_DEST"}

// writesFile reports whether NCCL or its plugins write files because of the variable.
func writesFile(name string) bool {
	return slices.ContainsFunc(writingEnds, func(end string) bool { return strings.HasSuffix(name, end) }) ||
		strings.HasPrefix(name, "NCCL_INSPECTOR_") || strings.HasPrefix(name, "OFI_NCCL_TOPO_FILE_")
}

// variables is an environment in which the last setting of a name counts.
type variables []string

func (v *variables) set(all ...string) {
	for _, one := range all {
		begin := one[:strings.IndexByte(one, '=')+1]
		*v = slices.DeleteFunc(*v, func(s string) bool { return strings.HasPrefix(s, begin) })
		*v = append(*v, one)
	}
}

// environment is what rank number gets. What comes later wins: NCCL's files of the host, what keeps a light probe
// light, what the site wants, and what the kind of probe or the probe itself cannot do without. NCCL reads
// /etc/nccl.conf too, but never over what is set; the user's own file is that of the exporter's user, and is not read
// (from NCCL 2.23 on).
func environment(p *Plan, n *fabric.Node, number int) []string {
	var env variables
	for _, v := range n.NCCL.Variables {
		switch {
		case len(env) >= maxVariables:
		case v.Masked: // NCCL reads its files itself
		case strings.HasSuffix(v.Name, dumpFile):
			env.set(v.Name + "=/dev/null") // /etc/nccl.conf would name a file again
		case refuse(v.Name+"="+v.Value) == "":
			env.set(v.Name + "=" + v.Value)
		}
	}
	env.set("NCCL_CONF_FILE=/dev/null", "NCCL_GIN_ENABLE=0", "CUDA_MODULE_LOADING=LAZY")
	env.set("NCCL_SOCKET_POLL_TIMEOUT_MSEC=100")                     // from 2.29 on: ranks that wait do not spin
	if p.Key.Kind != probes.Calibrate && p.Key.Kind != probes.Rail { // what is expected of these two needs all buffers
		env.set("NCCL_BUFFSIZE=1048576")
	}
	if p.Key.Kind != probes.Calibrate {
		env.set("NCCL_NVLS_ENABLE=0") // sums in the switch take memory of all GPUs
	}
	for _, s := range p.Settings.Environment {
		if refuse(s) == "" {
			env.set(s)
		}
	}
	if p.Key.Kind == probes.Rail || p.Key.Kind == probes.Socket {
		apart(&env, p.Key, number)
	}
	ctas := []string{"NCCL_MIN_CTAS=", "NCCL_MAX_CTAS="}
	if p.Settings.MaxCTAs > 0 {
		ctas = []string{"NCCL_MIN_CTAS=1", "NCCL_MAX_CTAS=" + strconv.Itoa(p.Settings.MaxCTAs)}
	}
	env.set("CUDA_CACHE_DISABLE=1", "NCCL_DEBUG_FILE="+p.Settings.LogPath) // the cache would be written to a disk
	env.set(append(ctas, forced...)...)
	return slices.Clip(env)
}

// apart has two ranks of one host take each other for ranks of two, so that they meet over the network.
func apart(env *variables, key probes.Key, number int) {
	env.set("NCCL_HOSTID=gpufabric-probe-"+strconv.Itoa(number), "NCCL_MNNVL_ENABLE=0", "NCCL_COLLNET_ENABLE=0",
		"NCCL_NET_PLUGIN=none")
	if key.Kind == probes.Socket {
		env.set("NCCL_NET=Socket")
		return
	}
	through(env, key)
}

// through has a rank reach others through one port only.
func through(env *variables, key probes.Key) {
	env.set("NCCL_NET_PLUGIN=none", "NCCL_NET=IB") // falling back to sockets is an error
	env.set("NCCL_IB_DISABLE=0", "NCCL_IB_HCA=="+key.Device+":"+strconv.Itoa(key.Port), "NCCL_CROSS_NIC=0",
		"NCCL_PXN_DISABLE=1",
		"NCCL_NETDEVS_POLICY=ALL", "NCCL_IB_MERGE_NICS=0", "NCCL_NET_MERGE_LEVEL=LOC")
}

// ReadEnvironment reads the file of variables. They decide what ranks load, so only root and the user of this process
// may be able to write it. The error wraps ErrSettings.
func ReadEnvironment(file string) ([]string, error) {
	data, err := readTrusted(file, maxEnvironment)
	var env []string
	if err == nil {
		env, err = parseEnvironment(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSettings, file, err)
	}
	return env, nil
}

// LibraryPath is what the loader of a rank will look in beside the system's folders.
func LibraryPath(env []string) string {
	const name = "LD_LIBRARY_PATH="
	for _, v := range slices.Backward(env) {
		if path, ok := strings.CutPrefix(v, name); ok {
			return path
		}
	}
	return ""
}

func readTrusted(file string, limit int64) ([]byte, error) {
	found, err := ownership.Open("/", file)
	if err != nil {
		return nil, err
	}
	defer found.File.Close()
	if found.Others != nil {
		return nil, fmt.Errorf("%w (chown root, chmod go-w)", found.Others)
	}
	data, err := io.ReadAll(io.LimitReader(found.File, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("longer than %d bytes", limit)
	}
	return data, err
}

// ErrSettings returns what a site said from what it lacks.
var ErrSettings = errors.New("settings of probes")
