// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/command/commandtest"
)

// handOff runs a script of docs/jobs among stand-ins for the programs that it calls, and returns its exit
// code and what it says.
func handOff(t *testing.T, shell []string, file, dir string, env ...string) (code int, out, errs string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), shell[0], append(shell[1:], "../../docs/jobs/"+file)...)
	cmd.Env = append([]string{"PATH=" + dir + ":/usr/bin:/bin"}, env...)
	cmd.WaitDelay = time.Minute
	var said, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &wrong
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), said.String(), wrong.String()
}

const (
	onTCP = `gpufabric_job_transport{training_job="slurm/7",transport="rdma"} 0
gpufabric_job_transport{training_job="slurm/7",transport="tcp"} 1
gpufabric_job_transport_by_design{training_job="slurm/7"} 0
`
	sureOfIt  = "gpufabric_job_transport_confirmed{training_job=\"slurm/7\"} 1\n"
	checkBad  = "gpufabric_check_failed{check=\"port_active\",device=\"mlx5_3\",severity=\"critical\"} 1\n"
	checkGood = "gpufabric_check_failed{check=\"port_active\",device=\"mlx5_3\",severity=\"critical\"} 0\ngpufabric_check_failed{check=\"port_rate\",severity=\"warning\"} 1\n"
)

// The condition is true only for what a node causes, and never for many nodes at once.
func TestNodeCondition(t *testing.T) {
	count := func(n string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000.1,"` + n + `"]}]}}`
	}
	for shellName, shell := range shells(t) {
		for _, c := range []struct {
			name, metrics, prometheus string
			code                      int
			says                      string
		}{
			{"no job", checkBad, count("1"), 0, "no job is confirmed"},
			{"suspected", onTCP + checkBad, count("1"), 0, "no job is confirmed"},
			{"the job's own fault", onTCP + sureOfIt + checkGood, count("1"), 0, "job slurm/7 uses TCP, and no critical check of the node fails"},
			{"by design", strings.Replace(onTCP, `by_design{training_job="slurm/7"} 0`, `by_design{training_job="slurm/7"} 1`, 1) + sureOfIt + checkBad, count("1"), 0, "no job is confirmed"},
			{"the node", onTCP + sureOfIt + checkBad, count("2"), 1, "job slurm/7 uses TCP, and check port_active fails"},
			{"many nodes", onTCP + sureOfIt + checkBad, count("3"), 2, "on 3 nodes: more than 2"},
			{"no Prometheus", onTCP + sureOfIt + checkBad, "", 2, "does not say on how many nodes"},
			{"no such rules", onTCP + sureOfIt + checkBad, `{"status":"success","data":{"resultType":"vector","result":[]}}`, 2, "does not say on how many nodes"},
			{"no exporter", "", count("1"), 2, "the exporter does not answer"},
		} {
			t.Run(shellName+" "+c.name, func(t *testing.T) {
				dir := commandtest.Memory(t)
				for name, text := range map[string]string{"metrics": c.metrics, "prometheus": c.prometheus} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				script(t, dir, "curl", `case "$*" in *api/v1/query*) f=prometheus ;; *) f=metrics ;; esac
[ -s `+dir+`/$f ] || { echo "curl: (7) Failed to connect" >&2; exit 7; }
cat `+dir+`/$f`)
				code, out, errs := handOff(t, shell, "npd-condition.sh", dir)
				if code != c.code || !strings.Contains(out, c.says) || strings.Count(out, "\n") != 1 {
					t.Errorf("exit code %d, want %d: %q %q", code, c.code, out, errs)
				}
			})
		}
	}
	var config struct {
		PluginConfig struct {
			MaxOutput int `json:"max_output_length"`
		} `json:"pluginConfig"`
		Rules []struct{ Condition, Path string }
	}
	text, err := os.ReadFile("../../docs/jobs/npd-condition.json")
	if err = errors.Join(err, json.Unmarshal(text, &config)); err != nil || len(config.Rules) != 1 || config.Rules[0].Condition != "GPUFabricJobOnTCP" || filepath.Base(config.Rules[0].Path) != "npd-condition.sh" {
		t.Errorf("npd-condition.json: %v %+v", err, config)
	}
}

// Nodes are drained up to the limit, with a reason, and none where the fabric is the cause.
func TestSlurmDrain(t *testing.T) {
	found := func(nodes ...string) string {
		var list []string
		for _, n := range nodes {
			list = append(list, `{"metric":{"instance":"`+n+`","training_job":"slurm/7"},"value":[1700000000.1,"8"]}`)
		}
		return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(list, ",") + `]}}`
	}
	const idle = "gpu-01|allocated|none\ngpu-02|allocated|none\ngpu-03|mixed|none\n"
	const before = "gpu-08|drained|gpufabric: job on TCP and a critical check fails\n"
	for shellName, shell := range shells(t) {
		for _, c := range []struct {
			name, prometheus, sinfo string
			apply                   bool
			code                    int
			drained                 string // arguments of scontrol, by node
			says                    string
		}{
			{"nothing", found(), idle, true, 0, "", ""},
			{"two, one with jobs of two", found("gpu-01:10791", "gpu-02.example", "gpu-02.example"), idle, true, 0, "gpu-01 gpu-02", ""},
			{"not asked to", found("gpu-01:10791"), idle, false, 0, "", "would drain gpu-01"},
			{"the fabric", found("gpu-01", "gpu-02", "gpu-03"), idle, true, 1, "", "on 3 nodes whose checks fail, more than 2"},
			{"one was drained before", found("gpu-01", "gpu-02"), idle + before, true, 1, "gpu-01", "gpu-02 is not drained: 2 nodes are, the limit is 2"},
			{"drained by a person", found("gpu-09"), "gpu-09|draining|bad fan\n", true, 0, "", ""},
			{"a stranger", found("gpu-77"), idle, true, 1, "", "Slurm does not know it"},
			{"no Prometheus", "", idle, true, 1, "", "Prometheus does not answer"},
			{"a query that fails", `{"status":"error","error":"gpu-01"}`, idle, true, 1, "", "does not answer the query"},
			{"no Slurm", found("gpu-01"), "", true, 1, "", "sinfo does not answer"},
			{"a name that is none", found("gpu-01;reboot"), idle, true, 0, "", ""},
		} {
			t.Run(shellName+" "+c.name, func(t *testing.T) {
				dir := commandtest.Memory(t)
				for name, text := range map[string]string{"prometheus": c.prometheus, "sinfo.txt": c.sinfo} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				script(t, dir, "curl", "[ -s "+dir+"/prometheus ] || exit 7\ncat "+dir+"/prometheus")
				script(t, dir, "sinfo", "[ -s "+dir+"/sinfo.txt ] && cat "+dir+"/sinfo.txt "+dir+"/sinfo.txt")
				script(t, dir, "scontrol", `echo "$@" >>`+dir+"/called")
				env := []string{"APPLY=no"}
				if c.apply {
					env[0] = "APPLY=yes"
				}
				code, out, errs := handOff(t, shell, "slurm-drain.sh", dir, env...)
				called, _ := os.ReadFile(dir + "/called")
				var want strings.Builder
				for node := range strings.FieldsSeq(c.drained) {
					fmt.Fprintf(&want, "update NodeName=%s State=DRAIN Reason=gpufabric: job on TCP and a critical check fails\n", node)
				}
				if code != c.code || string(called) != want.String() || !strings.Contains(out+errs, c.says) || c.says == "" && out+errs != "" {
					t.Errorf("exit code %d, want %d: %q %q, called %q", code, c.code, out, errs, called)
				}
			})
		}
	}
}
