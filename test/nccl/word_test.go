// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/nccl/settings"
)

// A word is a value of a variable that is no number, and what follows from it in the output of rank 0.
type word struct {
	name, value string // WORK stands for a folder
	with        string // other variables, between blanks
	says        string // a regular expression; empty: "NAME set by environment to VALUE"
	never       string // what it does not say; empty: nothing
	file        string // what is also in the output: files of that pattern in WORK, which NCCL wrote
	ranks       [][]string
	fails       bool // no rank starts
}

var words = []word{
	{name: "NCCL_ALGO", value: "Ring", ranks: hosts},
	{name: "NCCL_PROTO", value: "Simple", ranks: hosts},
	{name: "NCCL_CHECK_MODE", value: "DEBUG_LOCAL"},
	{name: "NCCL_COMM_ID", value: "127.0.0.1:28900"},
	{name: "NCCL_CONF_FILE", value: "WORK/conf", says: "NCCL_BUFFSIZE set by environment to 2097152"},
	{name: "NCCL_CTA_POLICY", value: "ONE", says: `NCCL_CTA_POLICY.*ONE`},
	{name: "NCCL_DEBUG", value: "version", says: `NCCL version`, never: "NCCL INFO"},
	{name: "NCCL_DEBUG_FILE", value: "WORK/debug.%p.%h", says: `NCCL INFO`, file: "debug.*.*"},
	{name: "NCCL_DEBUG_SUBSYS", value: "^INIT,ENV", says: `NCCL INFO`, never: "Init COMPLETE"},
	{name: "NCCL_DEBUG_TIMESTAMP_FORMAT", value: "at %Y ", with: "NCCL_DEBUG_TIMESTAMP_LEVELS=ALL", says: `(?m)^at 2\d{3} .*NCCL INFO`},
	{name: "NCCL_DEBUG_TIMESTAMP_LEVELS", value: "INFO", with: "NCCL_DEBUG_TIMESTAMP_FORMAT=time:", says: `(?m)^time:.*NCCL INFO`},
	{name: "NCCL_ENV_PLUGIN", value: "absent", says: `libnccl-env-absent\.so`},
	{name: "NCCL_GIN_PLUGIN", value: "absent", says: `libnccl-gin-absent\.so`, with: "NCCL_DEBUG_SUBSYS=ALL"},
	{name: "NCCL_NET_PLUGIN", value: "absent", says: `libnccl-net-absent\.so`, with: "NCCL_DEBUG_SUBSYS=ALL"},
	{name: "NCCL_PROFILER_PLUGIN", value: "absent", says: `libnccl-profiler-absent\.so`, with: "NCCL_DEBUG_SUBSYS=ALL"},
	{name: "NCCL_TUNER_PLUGIN", value: "absent", says: `libnccl-tuner-absent\.so`, with: "NCCL_DEBUG_SUBSYS=ALL"},
	{name: "NCCL_GRAPH_DUMP_FILE", value: "WORK/graph", says: "<graphs ", file: "graph"},
	{name: "NCCL_GRAPH_FILE", value: "WORK/graph"}, // that of the line before
	{name: "NCCL_HOSTID", value: "another"},
	{name: "NCCL_LAUNCH_MODE", value: "group", says: "NCCL_LAUNCH_MODE set by environment to GROUP"},
	{name: "NCCL_MNNVL_CLIQUE_ID", value: "9", with: "RIG_CLIQUE=7", says: `MNNVL busId \S+ fabric UUID \S+ cliqueId 0x9`, ranks: hosts},
	{name: "NCCL_MNNVL_UUID", value: "5", with: "RIG_CLIQUE=7", says: `MNNVL busId \S+ fabric UUID 5\.5`, ranks: hosts},
	{name: "NCCL_NET", value: "Sock", says: "Error: network Sock not found|Failed to initialize any NET plugin", never: "Init COMPLETE", fails: true},
	{name: "NCCL_NETDEVS_POLICY", value: "ALL"},
	{name: "NCCL_NO_CACHE", value: "NCCL_BUFFSIZE", says: "Disabling caching for environment variable NCCL_BUFFSIZE"},
	{name: "NCCL_OOB_NET_IFNAME", value: "absent", with: "NCCL_OOB_NET_ENABLE=1", says: "NCCL_OOB_NET_IFNAME.*absent", fails: true},
	{name: "NCCL_P2P_DISABLE", value: "1", says: "NCCL_P2P_(DISABLE set by environment to 1|LEVEL set by environment to LOC)", ranks: gpus},
	{name: "NCCL_P2P_LEVEL", value: "2", with: "NCCL_P2P_DISABLE=0", says: "NCCL_P2P_LEVEL set by environment to PXB", ranks: gpus},
	{name: "NCCL_PROXY_CPUSET", value: "0", says: "NCCL_PROXY_CPUSET|[Aa]ffinity.*proxy|proxy.*[Aa]ffinity", with: "NCCL_DEBUG_SUBSYS=ALL", ranks: gpus},
	{name: "NCCL_RAS_ADDR", value: "127.0.0.1:28444", with: "NCCL_RAS_ENABLE=1 NCCL_DEBUG_SUBSYS=ALL", says: "28444"},
	{name: "NCCL_RAS_TIMEOUT_FACTOR", value: "2", with: "NCCL_RAS_ENABLE=1 RIG_COUNT=150", ranks: hosts},
	{name: "NCCL_SOCKET_FAMILY", value: "AF_INET"},
	{name: "NCCL_SOCKET_IFNAME", value: "=loa"},
	{name: "NCCL_THREAD_THRESHOLDS", value: "1 2 3 4 5 6", ranks: hosts},
	{name: "NCCL_TOPO_DUMP_FILE", value: "WORK/topo", says: "<system ", file: "topo"},
	{name: "NCCL_TOPO_FILE", value: "WORK/topo"},
	{name: "NCCL_WARN_ENABLE_DEBUG_INFO", value: "1", with: "NCCL_DEBUG=WARN NCCL_SHM_LOCALITY=7", says: "NCCL INFO", ranks: gpus},
}

// seeWord reports whether NCCL shows what it makes of a word.
func seeWord(t *testing.T, n *node, r rig, w word, common ...string) bool {
	t.Helper()
	if v, ok := settings.Describe(w.name); !ok || !reads(t, r, v) {
		return false
	}
	env := append(strings.Fields("RIG_COUNT=1 NCCL_RAS_ENABLE=0 "+w.with), common...)
	env = append(env, w.name+"="+strings.ReplaceAll(w.value, "WORK", n.work))
	ranks := w.ranks
	if ranks == nil {
		ranks = [][]string{nil}
	}
	started := n.job(t, r, 100, env, ranks...)
	success := true
	for _, p := range started {
		success = p.ended(t, 20*time.Second).Success() && success
	}
	said := started[0].output()
	if w.file != "" {
		files, _ := filepath.Glob(filepath.Join(n.work, w.file))
		all := []string{said}
		for _, file := range files {
			data, _ := os.ReadFile(file)
			all = append(all, string(data))
		}
		said = strings.Join(all, "\n")
	}
	says := w.says
	if says == "" {
		says = regexp.QuoteMeta(w.name + " set by environment to " + strings.ReplaceAll(w.value, "WORK", n.work))
	}
	shown := regexp.MustCompile(says).MatchString(said)
	if shown && success != w.fails && (w.never == "" || !strings.Contains(said, w.never)) {
		return true
	}
	t.Logf("NCCL %s does not show %s=%s (success %t, %q %t):\n%s", r.release, w.name, w.value, success, says, shown, tail(said))
	return false
}
