// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/simulator"
)

// candidatesFor returns what the program prints for a line up to the cursor.
func candidatesFor(t *testing.T, line string) []string {
	t.Helper()
	var stdout, stderr commandtest.Output
	args := strings.Split(line, " ")
	if code := run(t, Options{}, &stdout, &stderr, append([]string{"--completion-bash"}, args...)...); code != command.OK || stderr.String() != "" {
		t.Errorf("%q: exit code %d, %s", line, code, stderr.String())
	}
	return strings.Fields(stdout.String())
}

func TestCandidates(t *testing.T) {
	for line, want := range map[string]string{
		"":                  "help serve demo capture topology profiles check preflight jobs lint advise explain probe ping report rules healthcheck install-to",
		"ch":                "check",
		"help pr":           "profiles preflight probe",
		"check --out":       "--output=",
		"check --output=":   "--output=text --output=json",
		"check --output j":  "json",
		"check -o ":         "text json",
		"check --severity=": "--severity=critical --severity=warning --severity=info",
		"check --only=port_active --only=port_ac":  "--only=port_active",
		"check --scenario=port-down --only=pcie_n": "--only=pcie_numa",
		"check --path.s":                "--path.sysfs=",
		"check --scenario=healthy --pa": "", // which a simulated node has no use for
		"check --web":                   "", // nor check
		"check --config.file=/etc/":     "", // the shell knows the files
		"check --config.file ":          "",
		"check --completion":            "",
		"check --verb":                  "--verbose",
		"check --no-verb":               "--no-verbose",
		"probe n":                       "node nvlink",
		"probe node ":                   "",
		"probe --op=re":                 "--op=reduce --op=reduce_scatter",
		"probe --kind c":                "calibrate",
		"--log.level=w":                 "--log.level=warn",
		"--log.format logfmt de":        "demo",
		"--vers":                        "--version",
		"check --vers":                  "",
		"--collector.nccl t":            "topology",
		"gpu-w":                         "",
		"chek --":                       "",
		"check --nosuch --":             "",
		"probe -- n":                    "node nvlink",
	} {
		if got := strings.Join(candidatesFor(t, line), " "); got != want {
			t.Errorf("%q: %s; want %s", line, got, want)
		}
	}
}

// Every name that a user may have to type is completed.
func TestCandidatesAreComplete(t *testing.T) {
	var scenarios, checks, collectors []string
	for _, s := range simulator.Scenarios() {
		scenarios = append(scenarios, "--scenario="+s.Name)
	}
	for _, c := range diagnose.Catalogue() {
		checks = append(checks, "--only="+c.ID)
	}
	for _, c := range collector.Collectors() {
		collectors = append(collectors, "--collector."+c.Name)
	}
	for line, want := range map[string][]string{
		"demo --scenario=": scenarios, "check --scenario=": scenarios, "topology --scenario=": scenarios, "check --only=": checks, "--collector.": collectors,
	} {
		got := candidatesFor(t, line)
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%q does not offer %s", line, w)
			}
		}
	}
}

// What a real shell makes of a line when Tab is pressed at its end. A space behind a word says that it is whole.
var completedLines = []struct{ typed, want string }{
	{"che", "check "},
	{"check --outp", "check --output="},
	{"check --output=js", "check --output=json "},
	{"check -o js", "check -o json "},
	{"check --scenario=pfc-st", "check --scenario=pfc-storm "},
	{"demo --scenario gid-mis", "demo --scenario gid-missing "},
	{"check --only=port_active --only=pcie_n", "check --only=port_active --only=pcie_numa "},
	{"probe scal", "probe scaling "},
	{"topology --config.file=%s/conf", "topology --config.file=%s/config.yml "},
	{"help topo", "help topology "},
	{"check --sever", "check --severity="},
}

// shellBench is a folder with the program, its two scripts and a file to name.
func shellBench(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"gpufabric_exporter": "#!/bin/sh\n" + asProgram + "=1 exec '" + self + "' \"$@\"\n",
		"config.yml":         "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir, []string{"PATH=" + dir + ":/usr/bin:/bin", "HOME=" + dir, "INPUTRC=" + filepath.Join(dir, "none"), "TERM=dumb", "LC_ALL=C"}
}

// typeIn runs a shell that reports, as lines of the file report, what each line was completed to.
func typeIn(t *testing.T, dir string, env []string, stdin string, argv ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, env, strings.NewReader(stdin)
	screen, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", argv[0], err, screen)
	}
	report, _ := os.ReadFile(filepath.Join(dir, "report")) // no report has no lines
	got := strings.Split(strings.TrimSuffix(string(report), "\n"), "\n")
	for i, c := range completedLines {
		want := "<gpufabric_exporter " + strings.ReplaceAll(c.want, "%s", dir) + ">"
		if i >= len(got) || got[i] != want {
			t.Errorf("%q became %q, want %q", c.typed, slices.Concat(got, make([]string, i+1))[i], want)
		}
	}
	if t.Failed() {
		t.Logf("%s\n%s", report, screen)
	}
}

func TestCompletionInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here to complete a line in")
	}
	dir, env := shellBench(t)
	var stdin strings.Builder
	stdin.WriteString("source <(gpufabric_exporter --completion-script-bash)\n")
	stdin.WriteString(`bind -x '"\C-x\C-r": printf "<%s>\n" "$READLINE_LINE" >>report'` + "\n")
	for _, c := range completedLines {
		fmt.Fprintf(&stdin, "gpufabric_exporter %s\t\x18\x12\x15", strings.ReplaceAll(c.typed, "%s", dir))
	}
	stdin.WriteString("exit 0\n")
	typeIn(t, dir, env, stdin.String(), bash, "--norc", "--noprofile", "-i")
}

func TestCompletionInZsh(t *testing.T) {
	zsh, err := exec.LookPath("zsh")
	if err != nil {
		t.Skip("there is no zsh here to complete a line in (Debian: apt install zsh)")
	}
	for _, how := range []struct{ name, load string }{
		{"sourced", "autoload -U compinit; compinit -u -D; source <(gpufabric_exporter --completion-script-zsh)"},
		{"in fpath", "gpufabric_exporter --completion-script-zsh >_gpufabric_exporter; fpath=($PWD $fpath); autoload -U compinit; compinit -u -D"},
	} {
		t.Run(how.name, func(t *testing.T) {
			dir, env := shellBench(t)
			// zle wants a terminal, which zsh has a module for.
			var script strings.Builder
			fmt.Fprintf(&script, "zmodload zsh/zpty || exit 1\nzpty z %s -f -i\nzpty -w z %s\n", zsh, quoted("PS1=; unsetopt beep; report() { print -r -- \"<$BUFFER>\" >>report; BUFFER=; }; zle -N report; bindkey '^Xr' report; "+
				"bindkey '^I' complete-word; "+how.load))
			for _, c := range completedLines {
				fmt.Fprintf(&script, "zpty -w -n z %s\n", quoted("gpufabric_exporter "+strings.ReplaceAll(c.typed, "%s", dir)+"\t\x18r"))
			}
			script.WriteString("zpty -w z exit\nwhile zpty -r z line; do print -rn -- $line; done\n")
			typeIn(t, dir, env, script.String(), zsh, "-f")
		})
	}
}

// quoted is one word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
