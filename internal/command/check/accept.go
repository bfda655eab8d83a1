// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/inventory"
	"gpufabric_exporter/internal/verdict"
)

const acceptFlag = "accept"

func parseDevice(s string) (string, error) {
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("expected an RDMA device (mlx5_5), its port (mlx5_5:1) or a PCI address (0000:5e:00.0)")
	}
	return s, nil
}

// checkAccept refuses what --accept would leave undone: it runs no checks.
func (k *checking) checkAccept(f *command.Flags) error {
	if len(k.accept) == 0 {
		return nil
	}
	if k.json || k.scenario != nil {
		return errors.New("--accept with --output=json or --scenario: it changes the record of this host, and prints text")
	}
	for _, other := range []string{
		"inside", "interval", "manifest", "write-manifest", "explain", "only", "severity",
		"verbose", textfileFlag, "expect-rdma", "expect-gpus",
	} {
		if f.Given(other) {
			return fmt.Errorf("--accept and --%s: expected at most one of them: --accept runs no checks", other)
		}
	}
	return nil
}

// forget has the record forget what the operator accepts, and says who else expects it.
func (k *checking) forget(ctx context.Context, c *command.Call) (int, error) {
	n, _, err := k.observe(ctx, c)
	if err != nil {
		return exitUnchecked, err
	}
	list, err := k.site.Accept(n, k.accept, caller())
	if err != nil {
		return exitUnchecked, fmt.Errorf("--accept: nothing was changed: %w", err)
	}
	for _, f := range list {
		writeForgotten(c.Stdout, f)
	}
	if n, _, err = k.observe(ctx, c); err != nil { // by the other sources now
		return exitUnchecked, fmt.Errorf("--accept: it is done, but who else expects it is not known: %w", err)
	}
	for _, line := range stillExpected(n, list) {
		fmt.Fprintln(c.Stdout, command.OneLine(line))
	}
	return exitChecked, nil
}

func writeForgotten(w io.Writer, f inventory.Forgotten) {
	of := f.Name
	if !strings.Contains(of, f.PCI) && !strings.Contains(f.PCI, of) {
		of += " (" + f.PCI + ")"
	}
	what := "nothing that is not there now; what this node had until now does not count"
	if len(f.What) > 0 {
		what = strings.Join(f.What, "; ")
	}
	fmt.Fprintln(w, command.OneLine("The record of this node forgot of "+of+": "+what+"."))
}

// expecting are the checks that compare devices with what should be there. The check hardware is left out: it
// has the record only.
var expecting = []string{
	verdict.CheckComputePorts, verdict.CheckGPUs, verdict.CheckPortActive, verdict.CheckPortRate, verdict.CheckGID,
	verdict.CheckManifest,
}

// stillExpected says which checks fail, or will once the expectation was met, by what others than the record
// expect of the devices.
func stillExpected(n *fabric.Node, list []inventory.Forgotten) (lines []string) {
	for _, v := range diagnose.Run(n, diagnose.Checks(expecting...)) {
		if v.Status != verdict.Failed && v.Reason != fabric.ReasonNeverMet {
			continue
		}
		if slices.ContainsFunc(list, func(f inventory.Forgotten) bool { return concerns(n, f, v) }) {
			words := verdict.Sentence(v.Evidence)
			if v.Status == verdict.Failed {
				words = verdict.Sentence(v.What) + " " + words
			}
			lines = append(lines, "Still expected ("+v.Check.ID+"): "+v.Subject.String()+": "+words)
		}
	}
	return lines
}

func concerns(n *fabric.Node, f inventory.Forgotten, v verdict.Verdict) bool {
	s, gpu := v.Subject, slices.ContainsFunc(f.What, func(w string) bool { return strings.HasPrefix(w, "the GPU ") })
	switch {
	case s.Device == "": // of the node, or of a GPU
		return gpu == (s.GPU != "" || v.Check.ID == verdict.CheckGPUs)
	case f.Number > 0 && s.Port > 0 && f.Number != s.Port:
		return false
	}
	if h := n.HCA(s.Device); h != nil && h.PCI.Or("") != "" {
		return h.PCI.Or("") == f.PCI
	}
	name, _, _ := strings.Cut(f.Name, ":")
	return name == s.Device
}

// caller names who runs this, for the record: the person behind sudo, where there is one.
func caller() string {
	id := strconv.Itoa(os.Getuid())
	name := "user " + id
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	return cmp.Or(os.Getenv("SUDO_USER"), name)
}
