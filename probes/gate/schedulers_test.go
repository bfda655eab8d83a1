// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The lines that docs/PROBES.md has for schedulers say free only when the scheduler does: not with a job, and
// not when its command fails, also not without output. What the commands print follows their manuals.
func TestSchedulersOfDocument(t *testing.T) {
	raw, err := os.ReadFile("../../docs/PROBES.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{} // by command
	for _, m := range regexp.MustCompile("(?m)^\\| .* \\| `([^`]*\\$\\([^`]*)` \\|$").FindAllStringSubmatch(string(raw), -1) {
		line := strings.ReplaceAll(m[1], `\|`, "|")
		_, command, _ := strings.Cut(line, "$(")
		lines[strings.Fields(command)[0]] = line
	}
	cases := map[string]struct{ free, busy []string }{
		"pbsnodes": {
			[]string{"node1\n     state = free\n     pcpus = 64\n     resources_available.ncpus = 64\n"},
			[]string{"node1\n     state = job-busy\n     jobs = 17.server/0, 17.server/1\n     pcpus = 64\n", ""},
		},
		"bhosts": {
			[]string{"HOST_NAME          STATUS          JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV\nnode1              ok              -     64      0      0      0      0      0\n"},
			[]string{"HOST_NAME          STATUS          JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV\nnode1              closed_Full     -     64     64     64      0      0      0\n", ""},
		},
		"condor_status": {[]string{"Unclaimed\n", "Unclaimed\nOwner\n"}, []string{"Unclaimed\nClaimed\n", "Matched\n", "Drained\n", ""}},
		"qhost": {
			[]string{"HOSTNAME  ARCH  NCPU\n-------------------\nglobal  -  -\nnode1  lx-amd64  64\n"},
			[]string{"HOSTNAME  ARCH  NCPU\n-------------------\nglobal  -  -\nnode1  lx-amd64  64\n   job-ID  prior  name\n   ----\n       17 0.55 train\n", ""},
		},
		"flux": {[]string{""}, []string{"f2xV8Z\n"}},
		"nomad": {
			[]string{"ID   = 1\nStatus = ready\n\nAllocations\nNo allocations placed\n", "Status = ready\n\nAllocations\nID  Task Group  Desired  Status    Created\n1   train       stop     complete  1h ago\n"},
			[]string{"Status = ready\n\nAllocations\nID  Task Group  Desired  Status   Created\n1   train       run      running  1h ago\n", "Allocations\n1 train run pending 1s ago\n", ""},
		},
		"squeue": {[]string{""}, []string{"17 gpu train root CF 0:00 1 node1\n"}},
	}
	if len(lines) != len(cases) {
		t.Errorf("%d lines in the document, expected %d: %q", len(lines), len(cases), lines)
	}
	for command, c := range cases {
		says := func(output, status string) bool {
			t.Helper()
			dir := t.TempDir()
			stub := func(name, output, status string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\ncat <<'END'\n"+output+"END\nexit "+status+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			stub(command, output, status)
			stub("hostname", "node1\n", "0")
			script := exec.Command("/bin/sh", "-c", lines[command])
			script.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "LC_ALL=C"}
			out, err := script.CombinedOutput()
			if strings.Contains(string(out), "rror") || strings.Contains(string(out), "not found") {
				t.Errorf("%s: %s", command, out)
			}
			return err == nil
		}
		if lines[command] == "" {
			t.Errorf("%s is not in the document", command)
			continue
		}
		for _, output := range c.free {
			if !says(output, "0") {
				t.Errorf("%s: %q is not taken for free", command, output)
			}
			if says(output, "1") && command != "bhosts" {
				t.Errorf("%s: %q and a failure are taken for free", command, output)
			}
		}
		for _, output := range c.busy {
			if says(output, "0") {
				t.Errorf("%s: %q is taken for free", command, output)
			}
		}
		if says("", "1") {
			t.Errorf("%s: a failure is taken for free", command)
		}
	}
}
