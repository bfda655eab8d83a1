// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/exporter"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/capture"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/simulator"
)

// program matches a call of this program in a document, up to a comment; short matches one that omits its name.
var (
	program = regexp.MustCompile(`(?:^|[\s(])(?:\./bin/)?gpufabric_exporter((?: +[^\s#;|()]+)*)`)
	short   = regexp.MustCompile(`^(?:check|lint|advise|topology|capture|demo|probe) --[a-z.-]+=.*`)
)

// codeOf returns what stands as code in Markdown: blocks, and words between backticks.
func codeOf(markdown string) []string {
	var code []string
	fenced := false
	for line := range strings.Lines(markdown) {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced, strings.HasPrefix(line, "    "):
			code = append(code, strings.TrimSpace(line))
		default:
			for i, part := range strings.Split(line, "`") {
				if i%2 == 1 {
					code = append(code, part)
				}
			}
		}
	}
	return code
}

// callsIn returns the arguments of each call of this program in a document, with names in place of its placeholders.
func callsIn(t *testing.T, file string) [][]string {
	t.Helper()
	return callsOf(read(t, file))
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// indented returns the indented blocks of a document, without what it shows within a sentence.
func indented(markdown string) string {
	var blocks strings.Builder
	for line := range strings.Lines(markdown) {
		if strings.HasPrefix(line, "    ") {
			blocks.WriteString(line)
		}
	}
	return blocks.String()
}

// callsOf is callsIn for the text of a document.
func callsOf(markdown string) [][]string {
	words := strings.NewReplacer("FILE", capture.DefaultFile, "CHECK", "port_active", "=ID", "=port_active", "=NAME", "=pfc-off")
	var calls [][]string
	for _, code := range codeOf(markdown) {
		for _, m := range program.FindAllStringSubmatch(code, -1) {
			calls = append(calls, slices.DeleteFunc(strings.Fields(words.Replace(m[1])), func(field string) bool { return strings.HasPrefix(strings.TrimPrefix(field, "2"), ">") }))
		}
		if m := short.FindString(code); m != "" {
			calls = append(calls, strings.Fields(words.Replace(m)))
		}
	}
	return calls
}

// documents are the files that users read.
func documents(t *testing.T) []string {
	t.Helper()
	files := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../alerts/runbooks/*.md", "../../.github/ISSUE_TEMPLATE/*"} {
		more, err := filepath.Glob(pattern)
		if err != nil || len(more) == 0 {
			t.Fatalf("%s: %v, %v", pattern, more, err)
		}
		files = append(files, more...)
	}
	return files
}

// Every command line that a document shows is one.
func TestDocumentsShowCommandsThatParse(t *testing.T) {
	n := 0
	for _, file := range documents(t) {
		for _, args := range callsIn(t, file) {
			if slices.Contains(args, "-n") { // of journalctl -u
				continue
			}
			n++
			var stdout, stderr commandtest.Output
			if c, _, code := New(new(Options)).Parse(args, &stdout, &stderr); c == nil && code != command.OK {
				t.Errorf("%s: gpufabric_exporter %s: %s", file, strings.Join(args, " "), stderr.String())
			}
		}
	}
	if n < 40 {
		t.Errorf("%d commands are found", n)
	}
}

// Every command of README.md, and every one in a block of docs/COMMANDS.md, runs: it prints what it found, or
// serves, and reports no error. Commands that read this host read a simulated one instead.
func TestDocumentedCommandsRun(t *testing.T) {
	calls := slices.Concat(callsIn(t, "../../README.md"), callsOf(indented(read(t, "../../docs/COMMANDS.md"))))
	dir := t.TempDir()
	t.Chdir(dir)
	healthy, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := healthy.Build().Materialise(filepath.Join(dir, "host"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"etc/gpufabric_exporter", "var/lib/node_exporter", "var/log/jobs/4711"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	host := []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs()}
	elsewhere := strings.NewReplacer("=/host/sys", "="+tree.Sysfs(), "=/host/proc", "="+tree.Procfs(), "=/host", "="+tree.Rootfs(), "=/etc/", "="+dir+"/etc/", "=/var/", "="+dir+"/var/", " /var/", " "+dir+"/var/")
	log := "gpu-01:101:101 [0] NCCL INFO NCCL version 2.27.3+cuda12.8\n"
	for _, name := range []string{"job.log", "var/log/jobs/4711/rank0.log"} {
		if err := os.WriteFile(name, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, call := range calls {
		line := strings.Join(call, " ")
		args := strings.Fields(elsewhere.Replace(line))
		name, looks := "serve", !strings.Contains(line, "--scenario") && !strings.Contains(line, "--path.")
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			name = args[0]
		}
		serves := (name == "serve" || name == "demo") && !slices.Contains(args, "--list") && !strings.HasPrefix(line, "--completion")
		switch {
		case name == "probe", name == "ping", name == "install-to": // want GPUs, a peer, a folder: TestProbe*, TestPinger, TestInstallTo
			continue
		case serves:
			args = append(args, "--web.listen-address=127.0.0.1:0")
		}
		if name == "lint" {
			text := "#!/bin/bash\n#SBATCH --nodes=2\nexport NCCL_DEBUG=WARN\nexport NCCL_IB_DISABLE=true\nexport NCCL_IB_HCA=mlx5_1\nexport NCCL_SOCKET_IFNAME=bond0\n"
			if err := os.WriteFile("job.sbatch", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if looks && name != "demo" && name != "explain" && !strings.HasPrefix(line, "--completion") {
			args = append(args, host...)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := false
		var stdout, stderr commandtest.Output
		o := Options{Exporter: exporter.Exporter{OnListen: func([]net.Addr) { served = true; cancel() }}}
		if strings.Contains(line, "--accept") {
			o.Site.Inventory = filepath.Join(dir, "inventory.json")
		}
		code := New(&o).Run(ctx, args, &stdout, &stderr)
		cancel()
		ran++
		if strings.Contains(stderr.String(), "error") || serves != served || !serves && stdout.String() == "" && !strings.Contains(line, "--write-manifest") {
			t.Errorf("gpufabric_exporter %s: exit code %d: %s%s", line, code, stdout.String(), stderr.String())
		}
		if name != "check" && name != "explain" && name != "jobs" && name != "lint" && name != "preflight" && code != command.OK {
			t.Errorf("gpufabric_exporter %s: exit code %d", line, code)
		}
	}
	if ran < 15 {
		t.Errorf("%d commands are found", ran)
	}
	for _, file := range []string{"etc/gpufabric_exporter/manifest.yml", "var/lib/node_exporter/gpufabric.prom", capture.DefaultFile} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Errorf("no command wrote %s: %v", file, err)
		}
	}
}

// Every target that README.md names is in the Makefile, and demo takes a port.
func TestTargetsOfREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile := read(t, "../../Makefile") + read(t, "../../packaging/packaging.mk")
	target := regexp.MustCompile(`^make ([a-z0-9-]+)`)
	n := 0
	for _, code := range codeOf(string(readme)) {
		if m := target.FindStringSubmatch(code); m != nil {
			n++
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("make %s: there is no such target", m[1])
			}
		}
	}
	if n < 3 {
		t.Errorf("%d targets are found", n)
	}
	demo, err := exec.Command("make", "-C", "../..", "-n", "demo", "PORT=10792", "SCENARIO=pfc-off").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, demo)
	}
	commandtest.Contains(t, string(demo), "demo --scenario=pfc-off --web.listen-address=127.0.0.1:10792")
}
