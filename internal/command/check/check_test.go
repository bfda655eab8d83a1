// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
)

var update = flag.Bool("update", false, "write what is seen to testdata instead of comparing it")

// checked runs check and returns its exit code and what it printed. It must leave nothing behind in the
// temporary folder.
func checked(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	temp := commandtest.Memory(t)
	t.Setenv("TMPDIR", temp)
	code, stdout, stderr = commandtest.Run(t, new(site.Site), New, args...)
	if left, _ := filepath.Glob(temp + "/*"); len(left) > 0 {
		t.Errorf("leaves %v", left)
	}
	return code, stdout, stderr
}

// The text and the JSON of some nodes, to the letter.
func TestCheckOutput(t *testing.T) {
	for _, c := range []struct {
		file string
		args []string
		code int
	}{
		{"healthy", []string{"--scenario=healthy"}, exitChecked},
		{"healthy-verbose", []string{"--scenario=healthy", "--severity=critical", "--verbose"}, exitChecked},
		{"port-down", []string{"--scenario=port-down"}, exitFailed},
		{"pfc-off", []string{"--scenario=pfc-off"}, exitFailed},
		{"nccl-tc-5", []string{"--scenario=nccl-tc-5"}, exitFailed},
		{"nccl-deprecated", []string{"--scenario=nccl-deprecated"}, exitChecked}, // a verdict of severity info is printed and does not change the exit code
		{"nccl-rdma-off", []string{"--scenario=nccl-rdma-off"}, exitFailed},
		{"no-rdma", []string{"--scenario=no-rdma"}, exitFailed},
		{"pcie-acs-on-only", []string{"--scenario=pcie-acs-on", "--only=pcie_acs", "--only=pcie_numa"}, exitFailed},
		{"vf-qos-unknown", []string{"--scenario=vf-qos-unknown"}, exitUndecided},
		{"explain", []string{"--explain=port_active"}, exitChecked},
		{"pfc-off-json", []string{"--scenario=pfc-off", "--severity=critical", "--only=roce_pfc", "--output=json"}, exitFailed},
		{"vf-qos-unknown-json", []string{"--scenario=vf-qos-unknown", "--only=roce_pfc", "--output=json"}, exitUndecided},
	} {
		t.Run(c.file, func(t *testing.T) {
			code, out, errs := checked(t, c.args...)
			if code != c.code || errs != "" {
				t.Errorf("exit code %d, want %d: %s", code, c.code, errs)
			}
			path := filepath.Join("testdata", c.file+".txt")
			if *update {
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(out), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if out != string(want) {
				t.Errorf("differs from %s (refresh with: go test ./internal/command/check -run TestCheckOutput -update)\ngot:\n%s\nwant:\n%s", path, out, want)
			}
		})
	}
}

// A check takes less than the two seconds that a job can wait for its node. They are counted as processor
// time: a loaded machine makes a check wait, which says nothing about it.
func TestCheckIsQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the race detector is no measure of time; make test runs it without")
	}
	const limit = 2 * time.Second
	best := time.Hour
	for range 3 { // the first run after a build, and those on a busy machine, take longer
		begin := used(t)
		if code, out, errs := checked(t, "--scenario=healthy"); code != exitChecked {
			t.Fatalf("exit code %d: %s%s", code, out, errs)
		}
		best = min(best, used(t)-begin)
	}
	t.Logf("11 devices and 8 GPUs, simulated, in %s", best.Round(time.Millisecond))
	if best > limit {
		t.Errorf("a check takes %s, at most %s are promised", best, limit)
	}
}

// used is the processor time that this process took.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestCheckFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--only=gid_usabel"}, `--only="gid_usabel": there is no such check; did you mean gid_usable?`},
		{[]string{"--only=pcie-links"}, "did you mean pcie_link?"},
		{[]string{"--only="}, "expected one of"},
		{[]string{"--explain=nothing-like-it"}, `--explain="nothing-like-it": there is no such check: expected one of reads_return, `},
		{[]string{"--only=mtu_uniform", "--severity=critical"}, `--only="mtu_uniform": the check has severity warning, which --severity=critical excludes`},
		{[]string{"--only=port_active", "--only=mtu_uniform", "--severity=critical"}, "mtu_uniform"},
		{[]string{"--only=roce_pause_sent"}, `--only="roce_pause_sent": the check compares two readings: add --interval`},
		{[]string{"--severity=fatal"}, "expected critical, warning or info"},
		{[]string{"--interval=-1s"}, "expected a duration up to 10m"},
		{[]string{"--interval=1h"}, "expected a duration up to 10m"},
		{[]string{"--output=yaml"}, "expected text or json"},
		{[]string{"--textfile="}, "expected a path"},
		{[]string{"--scenario=healthy", "--gpu.maintenance-file=x"}, "--gpu.maintenance-file"},
	} {
		code, out, errs := checked(t, c.args...)
		if code != command.Usage || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want %q", c.args, code, out, errs, c.want)
		}
	}
}

// A simulated node is judged by the expectations of the site, in place of those of the scenario.
func TestCheckScenarioOfSite(t *testing.T) {
	commandtest.Memory(t)
	for text, want := range map[string]int{"": exitChecked, "expected: {compute_ports: 9}\n": exitUndecided} {
		file := filepath.Join(t.TempDir(), "site.yml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := checked(t, "--scenario=healthy", "--config.file="+file, "--only=compute_ports", "--only=port_active")
		if code != want || strings.Contains(out, "9 ") != (want == exitUndecided) {
			t.Errorf("%q: exit code %d, want %d: %s%s", text, code, want, out, errs)
		}
	}
}

// A wrong expectation is the same on all nodes, and would drain all of them: what a node never met is
// unknown. What is wrong whatever the site expects stays a failure beside it.
func TestCheckNeverMet(t *testing.T) {
	for text, says := range map[string]string{
		"compute_ports: 16": "8 compute ports where 16 are expected.", "gpus: 4": "8 GPUs where 4 are expected.", "port_rate_gigabits_per_second: {compute: 800}": "but 800 Gb/s is expected.",
		"roce: {lossless: false}": "the site's fabric is lossy by design.", "roce: {dscp: 46}": "roce.dscp: 46", "roce: {priority: 5}": "roce.priority: 5",
	} {
		file := commandtest.ConfigFile(t, "expected: {"+text+"}\n")
		code, out, errs := checked(t, "--scenario=healthy", "--config.file="+file)
		if code != exitUndecided {
			t.Errorf("%s: exit code %d, want %d: %s%s", text, code, exitUndecided, out, errs)
		}
		commandtest.Contains(t, out, says, "Nothing shows that this node ever met expected.")
		if code, out, _ := checked(t, "--scenario=port-down", "--config.file="+file); code != exitFailed {
			t.Errorf("%s, and a port is down: exit code %d: %s", text, code, out)
		}
	}
}

// A verdict of severity info is printed, and takes no node out of service unless the flags ask for that severity or
// check.
func TestInfoDoesNotCount(t *testing.T) {
	commandtest.Memory(t)
	for _, c := range []struct {
		args []string
		code int
	}{
		{nil, exitChecked},
		{[]string{"--severity=info"}, exitFailed},
		{[]string{"--only=counter_counts"}, exitFailed},
		{[]string{"--severity=warning"}, exitChecked},
		{[]string{"--only=counter_counts", "--only=port_active", "--severity=info"}, exitFailed},
	} {
		code, out, errs := checked(t, append(c.args, "--scenario=counter-saturated")...)
		shown := strings.Contains(out, "FAILED   info")
		if code != c.code || shown != !slices.Contains(c.args, "--severity=warning") {
			t.Errorf("%v: exit code %d\n%s%s", c.args, code, out, errs)
		}
	}
	if code, out, _ := checked(t, "--scenario=port-down", "--severity=warning"); code != exitFailed {
		t.Errorf("what is worse counts: exit code %d\n%s", code, out)
	}
}

// If a site expects nothing of RoCE, settings that a driver does not show are no failure.
func TestUnstatedSitesPass(t *testing.T) {
	commandtest.Memory(t)
	for _, scenario := range []string{"healthy-mana", "healthy-mixed-vendors", "healthy-sriov-vf", "healthy-128-ports", "healthy-two-port", "lossy-unstated"} {
		if code, out, errs := checked(t, "--scenario="+scenario); code != exitChecked || !strings.Contains(out, "0 failed, 0 unknown, ") {
			t.Errorf("%s: exit code %d\n%s%s", scenario, code, out, errs)
		}
	}
}

func TestExplainEveryCheck(t *testing.T) {
	for _, c := range diagnose.Catalogue() {
		code, out, errs := checked(t, "--explain="+strings.ToUpper(c.ID))
		if code != exitChecked || errs != "" || !strings.HasPrefix(out, c.ID+" ("+string(c.Severity)+")\n  "+c.Title+".\n") || strings.Contains(out, ": \n") {
			t.Errorf("%s: exit code %d\n%s%s", c.ID, code, out, errs)
		}
	}
}

// Two readings show what one cannot.
func TestCheckInterval(t *testing.T) {
	commandtest.Memory(t)
	code, out, _ := checked(t, "--scenario=pfc-storm", "--only=roce_pause_sent", "--interval=2s")
	if code != exitFailed || !strings.Contains(out, "mlx5_7") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	code, out, _ = checked(t, "--scenario=pfc-storm")
	if code != exitFailed || !strings.Contains(out, "PFC storm") {
		t.Errorf("one look sees nothing of a fault over time, and the demo of it said that all is well: exit code %d:\n%s", code, out)
	}
	code, out, _ = checked(t, "--scenario=healthy", "--only=roce_pause_sent", "--interval=2s")
	if code != exitChecked || !strings.Contains(out, "0 failed, 0 unknown, 1 check passed") {
		t.Errorf("healthy: exit code %d:\n%s", code, out)
	}
}

// A host that cannot be read is never ok, whichever checks are selected.
func TestCheckOfHalfReadableHost(t *testing.T) {
	s, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	root := commandtest.Memory(t)
	tree, err := s.Build().Materialise(root)
	if err != nil {
		t.Fatal(err)
	}
	hide := func(pattern string) { // root may read every file, but a folder in its place cannot be read as a file
		t.Helper()
		found, err := filepath.Glob(filepath.Join(tree.Sysfs(), pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: nothing to hide", pattern)
		}
		for _, path := range found {
			if err := errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
	}
	judge := func(args ...string) (int, string) {
		t.Helper()
		code, out, errs := checked(t, append([]string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs(), "--log.level=error"}, args...)...)
		return code, out + errs
	}
	if code, out := judge("--only=port_active"); code != exitChecked {
		t.Fatalf("before anything is hidden: exit code %d\n%s", code, out)
	}
	hide("class/infiniband/mlx5_2/ports/1/state")
	code, out := judge("--only=port_active")
	if code != exitUndecided || !strings.Contains(out, "UNKNOWN  critical  port_active  mlx5_2: ") {
		t.Errorf("a hidden state: exit code %d\n%s", code, out)
	}
	if code, out = judge("--severity=critical"); code == exitChecked {
		t.Errorf("a hidden state: exit code %d\n%s", code, out)
	}
	if err := os.RemoveAll(filepath.Join(tree.Sysfs(), "class/infiniband")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree.Sysfs(), "class/infiniband"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"--severity=critical"}, {"--only=port_active"}, {"--only=port_active", "--only=gid_usable", "--output=json"}} {
		if code, out = judge(args...); code != exitUndecided {
			t.Errorf("%v where no device can be listed: exit code %d\n%s", args, code, out)
		}
	}
	if !strings.Contains(out, `"check": "reads_return"`) {
		t.Errorf("nothing says what could not be read:\n%s", out)
	}
}

// If nothing can be judged, the exit code is not 0.
func TestCheckWithoutVerdict(t *testing.T) {
	code, out, errs := checked(t, "--scenario=healthy-cpu-node", "--only=pcie_acs")
	if code != exitUndecided || out != "" || !strings.Contains(errs, "no check applies to this node") {
		t.Errorf("exit code %d: %q %q", code, out, errs)
	}
}

func TestCheckTable(t *testing.T) {
	check := diagnose.Find("port_active")
	list := []verdict.Verdict{
		{Check: check, Subject: verdict.Subject{Device: "a"}, Status: verdict.Failed, What: "down"},
		{Check: diagnose.Find("roce_congestion_answered"), Subject: verdict.Subject{Device: "b"}, Status: verdict.Unknown, Evidence: "hidden"},
		{Check: check, Subject: verdict.Subject{Device: "c"}, Status: verdict.OK, What: "x"},
		{Check: diagnose.Find("gid_usable"), Subject: verdict.Subject{Device: "d"}, Status: verdict.OK, What: "y"},
	}
	var b bytes.Buffer
	if err := writeTable(&b, &fabric.Node{}, config.Config{File: "/site.yml", Links: config.Links{Runbooks: "/runbooks"}}, list, true, func(colour, s string) string { return "<" + colour + ">" + s + "<>" }); err != nil {
		t.Fatal(err)
	}
	want := `<31>FAILED <>  critical  port_active               a: down
         Runbook: /runbooks/check-ports.md
<33>UNKNOWN<>  warning   roce_congestion_answered  b: hidden
<32>ok     <>  critical  port_active               c
<32>ok     <>  critical  gid_usable                d
Configuration: /site.yml
1 failed, 1 unknown, 1 check passed
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if err := writeTable(full{}, &fabric.Node{}, config.Config{}, list, false, command.Colours(full{})); err == nil {
		t.Error("a table that was not written is no success")
	}
	t.Setenv("TMPDIR", commandtest.Memory(t))
	if code := commandtest.RunTo(t, full{}, new(commandtest.Output), new(site.Site), New, "--scenario=no-rdma"); code != exitFailed {
		t.Errorf("exit code %d where a check failed and the table cannot be written", code)
	}
	if code := commandtest.RunTo(t, full{}, new(commandtest.Output), new(site.Site), New, "--scenario=healthy"); code != exitUnchecked {
		t.Errorf("exit code %d where the table cannot be written", code)
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestCheckJSONIsWhole(t *testing.T) {
	_, out, _ := checked(t, "--scenario=port-down", "--output=json")
	var r struct {
		Failed, Unknown, OK int
		Verdicts            []shown
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Failed != 1 || len(r.Verdicts) != r.Failed+r.Unknown+r.OK || r.OK < 100 {
		t.Errorf("%d failed, %d unknown, %d ok of %d", r.Failed, r.Unknown, r.OK, len(r.Verdicts))
	}
	if v := r.Verdicts[0]; v.Check != "port_active" || v.Device != "mlx5_3" || v.Port != 1 || v.Status != "failed" || v.Remedy == "" || v.Runbook == "" {
		t.Errorf("%+v", v)
	}
}

// COMMANDS.md shows what check prints.
func TestDocumentShowsCheck(t *testing.T) {
	document, err := os.ReadFile("../../../docs/COMMANDS.md")
	if err != nil {
		t.Fatal(err)
	}
	printed, err := os.ReadFile("testdata/pfc-off.txt")
	if err != nil {
		t.Fatal(err)
	}
	if block := "    " + strings.ReplaceAll(strings.TrimSpace(string(printed)), "\n", "\n    ") + "\n"; !strings.Contains(string(document), block) {
		t.Errorf("COMMANDS.md does not have\n%s", block)
	}
}

// A note names devices as others named them: it stays on its line.
func TestNoteIsOneLine(t *testing.T) {
	var b strings.Builder
	writeNote(&b, "a pod has mlx5\n0 \x1b[31m.")
	if got := b.String(); got != "Note: a pod has mlx5\\u000a0 \\u001b[31m.\n" {
		t.Errorf("%q", got)
	}
}
