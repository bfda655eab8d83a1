// SPDX-License-Identifier: Apache-2.0

// Package advise is the command advise: it prints NCCL settings for this host, or for a simulated node, and a
// stated workload, with reasons.
package advise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/nccl/advice"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/state"
)

type output string

const (
	outputText       output = "text"
	outputJSON       output = "json"
	outputShell      output = "shell"
	outputConf       output = "conf"
	outputKubernetes output = "kubernetes"
	outputSlurm      output = "slurm"
)

// maxResults bounds a file of results of probes, in bytes.
const maxResults = 8 << 20

// advising is one call of the command.
type advising struct {
	site *site.Site
	log  *logging.Flags

	output   output
	workload advice.Workload
	probes   []string            // files; empty: none
	scenario *simulator.Scenario // nil: this host
}

// New returns the command.
func New(s *site.Site, log *logging.Flags) *command.Command {
	k := &advising{site: s, log: log}
	return &command.Command{
		Name:   "advise",
		Help:   "Print NCCL settings for this node and a stated workload, each with its reason and source. They say what to set, what to remove, what to leave to NCCL, and what cannot be decided here. Also print how long an AllReduce takes over the links of the node, and where running jobs differ from the advice. Advice is no verdict: exit code 0: it was printed, whatever it says; 1: the node could not be read or the advice not be written; 3: the command line, the configuration or a file that was named is wrong.",
		Define: k.define,
		Takes:  []command.Group{&s.Config, log, &s.Devices},
		OnHost: []command.Group{&s.Recorded, &s.Paths, &s.GPUs},
		Run:    k.run,
	}
}

func (k *advising) define(f *command.Flags) {
	w := &k.workload
	f.Add("output",
		"Format: text, json, shell (export lines), conf (nccl.conf), kubernetes (env of a container), slurm (batch script).",
		command.Choice(&k.output, outputText, outputJSON, outputShell, outputConf, outputKubernetes,
			outputSlurm)).Short('o').Default(string(outputText))
	f.Add("nodes", "Nodes of the job. Left out: several.", command.Into(&w.Nodes, count(advice.MaxNodes))).PlaceHolder("N")
	f.Add("gpus-per-node", "GPUs of the job on each node. Left out: all of this node.",
		command.Into(&w.GPUsPerNode, count(advice.MaxGPUsPerNode))).PlaceHolder("N")
	f.Add("fabric", "Network between the nodes: auto (that of this node), roce, infiniband, efa, tcp.",
		fabricValue(&w.Fabric)).Default(string(advice.Auto))
	f.Add("message-size", "Bytes of one AllReduce, such as 64M. Left out: 1M, 64M and 1G.",
		command.Into(&w.MessageBytes, parseBytes)).PlaceHolder("SIZE")
	f.Add("iteration-size",
		"Bytes that one iteration reduces in all: with data parallelism, the size of the gradients. These are 2 bytes a parameter in bf16 and 4 in fp32, such as 14000000000 for a 7B model in bf16. Units are powers of 1024.", command.Into(&w.IterationBytes, parseBytes)).PlaceHolder("SIZE")
	f.Add("iteration-ms", "Time of one iteration in milliseconds, to say how much of it is communication.",
		command.Into(&w.Iteration, parseMilliseconds)).PlaceHolder("MS")
	f.Add("nccl-version",
		"Release of NCCL that the job uses, such as 2.21.5 or 2.21. Left out: that of the library found on the node, else the newest that is known.",
		command.Into(&w.NCCL, fabric.ParseNCCLVersion)).PlaceHolder("VERSION")
	f.Add("probe",
		"Results of probes to set beside the estimates: output of probe --output=json, or /probes.json of the exporter. Repeatable.",
		command.Append(&k.probes, command.ParseFile)).PlaceHolder("FILE")
	site.AddScenario(f, &k.scenario)
	f.Check(func() error {
		if w.Iteration > 0 && w.IterationBytes == 0 {
			return errors.New("--iteration-ms: expected --iteration-size with it, the bytes that one iteration reduces, such as 14000000000 for a 7B model with gradients in bf16")
		}
		return nil
	})
}

// fabricValue is one of the fabrics. Other words for one are refused with it.
func fabricValue(to *advice.Fabric) command.Value {
	parse := command.OneOf(advice.Fabrics()...)
	return command.Into(to, func(s string) (advice.Fabric, error) {
		f, err := parse(s)
		meant := map[string]advice.Fabric{
			"ib": advice.InfiniBand, "socket": advice.TCP,
			"sockets": advice.TCP,
		}[strings.ToLower(s)]
		if err != nil && meant != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, meant)
		}
		return f, err
	}).Words(func() []string { return spelling.Names(advice.Fabrics()) })
}

// count parses a whole number from 1 to a limit.
func count(limit int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > limit {
			return 0, fmt.Errorf("expected a whole number from 1 to %d", limit)
		}
		return n, nil
	}
}

func parseBytes(s string) (int64, error) {
	if digits, billions := strings.CutSuffix(s, "B"); billions && digits != "" &&
		strings.Trim(digits, "0123456789.") == "" {
		return 0,
			errors.New("expected a number of bytes such as 14000000000 or 14G: B may be bytes or billions of parameters, and the gradients of 7B parameters are 14000000000 bytes in bf16")
	}
	n, err := config.ParseSize(s)
	if err != nil || n < 1 || n > advice.MaxBytes {
		return 0, errors.New("expected a number of bytes above 0 such as 1048576, 64M or 14G")
	}
	return int64(n), nil // #nosec G115 -- at most MaxBytes
}

func parseMilliseconds(s string) (time.Duration, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 1e-3 && v <= float64(advice.MaxIteration.Milliseconds())) {
		return 0, errors.New("expected milliseconds above 0 and up to a day, such as 812.5")
	}
	return time.Duration(math.Round(v * float64(time.Millisecond))), nil
}

func (k *advising) run(ctx context.Context, c *command.Call) int {
	results, err := k.results()
	if err != nil {
		c.Complain(err)
		return command.Usage
	}
	at := *k.site
	at.LibraryPath = os.Getenv("LD_LIBRARY_PATH")
	node, conf, err := at.ObserveOnce(ctx, k.scenario, collector.CheckWants()|fabric.WantGPU|fabric.WantNCCL|job.Wants,
		0, k.log.Logger(c.Stderr))
	if err != nil {
		return c.Fail(err)
	}
	w := k.workload
	w.Measured = measured(results, node)
	if err := w.Validate(); err != nil {
		c.Complain(err)
		return command.Usage
	}
	a := answer{scenario: k.scenario, conf: conf, jobsUnknown: "jobs are looked for on this host only"}
	if k.scenario != nil || k.site.ThisHost() {
		a.jobs, a.jobsUnknown = running(node, k.workload)
	}
	w.Impaired = impaired(a.jobs)
	a.Advice = advice.For(node, w)
	if err := a.write(c.Stdout, k.output); err != nil {
		return c.Fail(err)
	}
	return command.OK
}

// results reads the files of --probe.
func (k *advising) results() ([]probes.Result, error) {
	var all []probes.Result
	for _, name := range k.probes {
		data, err := files.Read(name, maxResults)
		var some []probes.Result
		if err == nil {
			some, err = state.ParseResults(data, time.Now())
		}
		if err != nil {
			return nil, fmt.Errorf("--probe=%.512q: %w: expected the output of probe --output=json, or /probes.json", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// measured are the results that estimates can be compared with. What did not succeed, or has wrong elements, is none.
func measured(results []probes.Result, node *fabric.Node) []advice.Measured {
	var list []advice.Measured
	for i := range results {
		r := &results[i]
		for _, m := range r.Measurements {
			// #nosec G115 -- bounded by the probe
			one := advice.Measured{
				Ranks: m.Ranks, Bytes: int64(m.Bytes), Seconds: float64(m.Time), BusBW: m.BusBW,
				From: "probe " + string(r.Kind), At: r.At,
			}
			path := r.Path.Or(probes.PathNone)
			switch {
			case r.Outcome != probes.OK || m.Wrong > 0 || m.BusBW < 1 || m.Time <= 0 || m.Ranks < 2 || m.Bytes == 0:
				continue
			case r.Kind == probes.Socket && path == probes.PathSocket:
				one.Link = advice.LinkTCP
			case r.Kind == probes.Rail && (path == probes.PathIB || path == probes.PathPlugin):
				h := node.HCA(r.Device)
				if h == nil {
					continue
				}
				one.Port, one.Link = fmt.Sprintf("%s:%d", r.Device, r.Port), advice.LinkOf(h, r.Port)
			case r.Kind != probes.Socket && r.Kind != probes.Rail && m.Op == probes.AllReduce &&
				(path == probes.PathNVLS || path == probes.PathP2P):
				one.Link = advice.LinkInside(node)
			default:
				continue
			}
			list = append(list, one)
		}
	}
	return list
}
