// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/advice"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/probes"
)

var update = flag.Bool("update", false, "write what is seen to testdata instead of comparing it")

func advised(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("TMPDIR", commandtest.Memory(t))
	return commandtest.Run(t, new(site.Site), New, args...)
}

// What is printed for a broken RoCE node, an InfiniBand node and others, to the letter.
func TestAdviseOutput(t *testing.T) {
	for file, args := range map[string]string{
		"roce":       "--scenario=nccl-tc-5 --nodes=4 --iteration-size=14G --iteration-ms=900 --nccl-version=2.27.7",
		"infiniband": "--scenario=socket-interface-down --nodes=16 --message-size=256M --nccl-version=2.27.7",
		"efa":        "--scenario=nccl-rdma-off-efa --nccl-version=2.27.7",
		"shell":      "--scenario=socket-interface-missing --nodes=4 --nccl-version=2.27.7 --output=shell",
		"conf":       "--scenario=healthy-mixed-nics-roce --nccl-version=2.27.7 -o conf",
		"kubernetes": "--scenario=socket-interface-missing --nccl-version=2.20.5 -o kubernetes",
		"slurm":      "--scenario=ipv6-only-family-unset --nodes=4 --gpus-per-node=8 --nccl-version=2.27.7 -o slurm",
		"json":       "--scenario=healthy-efa --nodes=1 --gpus-per-node=4 --nccl-version=2.27.7 -o json",
	} {
		t.Run(file, func(t *testing.T) {
			code, out, errs := advised(t, strings.Fields(args)...)
			if code != command.OK || errs != "" {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			path := filepath.Join("testdata", file+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if out != string(want) {
				t.Errorf("differs from %s (refresh with: go test ./internal/command/advise -update):\n%s", path, out)
			}
		})
	}
}

// Invalid flags are refused with an explanation.
func TestAdviseRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--nodes=0":                         `--nodes="0": expected a whole number from 1 to 100000`,
		"--nodes=four":                      `--nodes="four": expected a whole number`,
		"--gpus-per-node=129":               "expected a whole number from 1 to 128",
		"--fabric=infinband":                "did you mean infiniband?",
		"--fabric=IB":                       "efa or tcp; did you mean infiniband?",
		"--nccl-version=v2.21.5":            "did you mean 2.21.5?",
		"--message-size=-1":                 "expected a number of bytes above 0",
		"--message-size=9999999999G":        "expected a number of bytes above 0",
		"--iteration-ms=0":                  "expected milliseconds above 0",
		"--iteration-ms=NaN":                "expected milliseconds above 0",
		"--iteration-ms=100":                "expected --iteration-size with it",
		"--iteration-size=7B":               "billions of parameters",
		"--nccl-version=3":                  "expected a release of NCCL",
		"--output=yaml":                     "expected text, json, shell, conf, kubernetes or slurm",
		"--probe=/nowhere":                  "no such file",
		"--probe=" + file:                   "it has neither runs nor probes: expected the output of probe --output=json",
		"--scenario=healthy --path.sysfs=/": "does not take this flag",
	} {
		code, out, errs := advised(t, strings.Fields(args)...)
		if code != command.Usage || !strings.Contains(errs, want) || out != "" {
			t.Errorf("%s: exit code %d, %s%s", args, code, errs, out)
		}
	}
}

// Results of probes are compared with the links that they crossed; those that failed, or are of other ways, are not.
func TestMeasured(t *testing.T) {
	at := time.Unix(1, 0)
	node := &fabric.Node{
		HCAs: []fabric.HCA{{Name: "mlx5_0", Ports: []fabric.Port{{Number: 1, LinkLayer: fabric.Known(fabric.LinkInfiniBand, "", at)}}}},
		GPUDriver: fabric.GPUDriver{GPUs: []fabric.GPU{
			{Address: "0000:01:00.0", NVLinks: fabric.AbsentFact[[]fabric.NVLink]("", at), PCIeMaxGen: fabric.Known(5, "", at), PCIeWidth: fabric.Known(16, "", at)},
			{Address: "0000:02:00.0", NVLinks: fabric.AbsentFact[[]fabric.NVLink]("", at), PCIeMaxGen: fabric.Known(5, "", at), PCIeWidth: fabric.Known(16, "", at)},
		}},
	}
	run := func(kind probes.Kind, path probes.Path, op probes.Op) probes.Result {
		r := probes.Result{
			Key: probes.Key{Kind: kind}, At: at, Outcome: probes.OK, Path: probes.Known(path, "log", at),
			Measurements: []probes.Measurement{{Op: op, Bytes: 1 << 20, Ranks: 2, Time: 1, BusBW: 1e9}},
		}
		if kind == probes.Rail {
			r.Device, r.Port = "mlx5_0", 1
		}
		return r
	}
	wrong, failed, gone := run(probes.Node, probes.PathP2P, probes.AllReduce), run(probes.Node, probes.PathP2P, probes.AllReduce), run(probes.Rail, probes.PathIB, probes.Broadcast)
	wrong.Measurements[0].Wrong, failed.Outcome, gone.Device = 1, probes.Failed, "mlx5_9"
	got := measured([]probes.Result{
		run(probes.Node, probes.PathP2P, probes.AllReduce), run(probes.Rail, probes.PathIB, probes.Broadcast), run(probes.Socket, probes.PathSocket, probes.Broadcast),
		run(probes.Node, probes.PathSHM, probes.AllReduce), run(probes.Rail, probes.PathSocket, probes.Broadcast), run(probes.Node, probes.PathP2P, probes.Broadcast), wrong, failed, gone,
	}, node)
	if len(got) != 3 || got[0].Link != advice.LinkPCIe || got[1].Link != advice.LinkInfiniBand || got[1].Port != "mlx5_0:1" || got[2].Link != advice.LinkTCP {
		t.Errorf("%+v", got)
	}
}

// What no probe measured is refused, or left out where it is too small to be compared; none of it breaks the output.
func TestAdviseHostileProbes(t *testing.T) {
	good := probes.Measurement{Op: probes.AllReduce, Type: probes.Float32, Bytes: 1 << 20, Ranks: 8, Time: 1e-3, BusBW: 1e9}
	slow, fast, empty, large := good, good, good, good
	slow.BusBW, fast.BusBW, fast.Time, empty.Bytes, large.Bytes = 1e-300, 9e14, 1e-300, 0, 1<<63
	for want, list := range map[string][]probes.Measurement{
		"":                      {slow, fast, empty},
		"no probe has":          {large},
		"expected at most 4096": slices.Repeat([]probes.Measurement{good}, advice.MaxMeasured+1),
	} {
		var runs []probes.Result
		for kind, path := range map[probes.Kind]probes.Path{probes.Node: probes.PathNVLS, probes.Socket: probes.PathSocket, probes.Rail: probes.PathIB} {
			r := probes.Result{Key: probes.Key{Kind: kind}, At: time.Unix(1, 0), Outcome: probes.OK, Measurements: list}
			if kind == probes.Rail {
				r.Device, r.Port = "mlx5_0", 1
			}
			r.Path = probes.Known(path, "log", r.At)
			runs = append(runs, r)
		}
		data, err := json.Marshal(map[string]any{"runs": runs})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "results.json")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := advised(t, "--scenario=healthy", "--iteration-size=14G", "--iteration-ms=900", "--probe="+file, "--output=json")
		if (want == "") != (code == command.OK && errs == "" && json.Valid([]byte(out))) || !strings.Contains(errs, want) || len(errs) > 1000 {
			t.Errorf("%q: exit code %d, %s", want, code, errs)
		}
	}
}

// Where the settings of running jobs differ from the advice is said of each job, and where it is not known,
// why. Formats for files name the command that shows it.
func TestRunningJobs(t *testing.T) {
	for scenario, want := range map[string][]string{
		"job-tcp":          {"Running jobs, compared with this advice:", "NCCL_NET=IB"},
		"job-offload-off":  {"Running jobs, compared with this advice:"},
		"job-mixed":        {"Running jobs, compared with this advice:"},
		"job-hidden":       {"The settings of 8 ranks could not be read: run the command as root on the host."},
		"healthy":          {"No running job uses NCCL."},
		"healthy-cpu-node": {"No running job uses NCCL."},
	} {
		_, out, errs := advised(t, "--scenario="+scenario, "--nccl-version=2.27.7")
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s lacks %q: %s%s", scenario, w, out, errs)
			}
		}
	}
	for _, form := range []string{"shell", "conf", "kubernetes", "slurm"} {
		if _, out, errs := advised(t, "--scenario=job-tcp", "-o", form); !strings.Contains(out, jobsNote) {
			t.Errorf("%s: %s%s", form, out, errs)
		}
	}
}

// A job with findings leaves open whether the network limits it.
func TestImpairedJobGetsNoAllClear(t *testing.T) {
	for scenario, want := range map[string]string{"job-tcp": "running jobs have findings (slurm/4242: setting_wrong_here", "healthy": "does not limit this job"} {
		_, out, errs := advised(t, "--scenario="+scenario, "--nccl-version=2.27.7", "--iteration-size=1G", "--iteration-ms=3000")
		if !strings.Contains(out, want) || scenario == "job-tcp" && strings.Contains(out, "does not limit") {
			t.Errorf("%s lacks %q: %s%s", scenario, want, out, errs)
		}
	}
}

// Ranks of a job that differ are counted, what is not read is said to be so, and a job is shown by its name alone.
func TestRanksThatDiffer(t *testing.T) {
	s, err := simulator.Find("job-tcp")
	if err != nil {
		t.Fatal(err)
	}
	n := *simulatortest.Watch(t, s, 0)[0]
	ranks := slices.Clone(n.Ranks.Value)
	for i := range ranks {
		ranks[i].Conf = fabric.AbsentFact[[]fabric.NCCLVariable]("nccl.conf", n.At)
	}
	ranks[0].Settings = fabric.UnknownFact[[]fabric.NCCLVariable](fabric.ReasonPrivilege, "environ", n.At)
	ranks[1].Settings = fabric.Known([]fabric.NCCLVariable{{Name: "NCCL_IB_TC", Value: "5"}, {Name: "NCCL_IB_HCA", Value: "set", Masked: true}}, "environ", n.At)
	ranks[2].Conf = fabric.UnknownFact[[]fabric.NCCLVariable](fabric.ReasonPrivilege, "nccl.conf", n.At)
	n.Ranks.Value = ranks
	jobs, unknown := running(&n, advice.Workload{})
	var b bytes.Buffer
	(&answer{jobs: jobs, jobsUnknown: unknown}).writeJobs(&b)
	for _, want := range []string{
		"  slurm/4242, 8 ranks\n", "NCCL_IB_TC=5 (1 of 8 ranks), advised: NCCL_IB_TC=106\n", "NCCL_IB_HCA is set to a value that is not shown (1 of 8 ranks), advised: ",
		"The settings of 1 rank could not be read", "The nccl.conf of 1 rank could not be read", "NCCL_NET is not in the environment (7 of 8 ranks), advised: NCCL_NET=IB\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	n.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](fabric.ReasonPrivilege, "ranks", n.At)
	if jobs, unknown := running(&n, advice.Workload{}); len(jobs) > 0 || !strings.Contains(unknown, "privilege") {
		t.Errorf("%+v, %q", jobs, unknown)
	}
}

// The JSON has no null where a list is.
func TestAdviseJSON(t *testing.T) {
	code, out, errs := advised(t, "--scenario=no-rdma", "-o", "json")
	var fields map[string]any
	if err := json.Unmarshal([]byte(out), &fields); err != nil || code != command.OK {
		t.Fatalf("exit code %d: %v: %s", code, err, errs)
	}
	for _, name := range []string{"settings", "remove", "leave", "unknown", "estimates", "communication", "jobs"} {
		if _, list := fields[name].([]any); !list {
			t.Errorf("%s is %v", name, fields[name])
		}
	}
	if _, found := fields["configuration"].(map[string]any); !found {
		t.Error("there is no configuration")
	}
}

// A file says at its top what it was made for, so that it can be judged where it is found later.
func TestFormsNameTheWorkload(t *testing.T) {
	for _, form := range []string{"shell", "conf", "kubernetes", "slurm"} {
		_, out, errs := advised(t, "--scenario=healthy-roce-vlan", "--nodes=16", "--gpus-per-node=2", "--nccl-version=2.21", "-o", form)
		_, first, _ := strings.Cut(out, "# ")
		first, _, _ = strings.Cut(first, "\n")
		for _, want := range []string{"Simulated node: healthy-roce-vlan.", "16 nodes, 2 GPUs per node, fabric: RoCE.", "NCCL 2.21 (stated)."} {
			if !strings.Contains(first, want) {
				t.Errorf("%s: the first comment %q lacks %q%s", form, first, want, errs)
			}
		}
		if !strings.Contains(out, "Not decided: NCCL_IB_TC. ") {
			t.Errorf("%s: nothing is said of NCCL_IB_TC:\n%s", form, out)
		}
	}
}
