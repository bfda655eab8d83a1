// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/profiles"
	"gpufabric_exporter/internal/site"
)

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("TMPDIR", commandtest.Memory(t))
	return commandtest.Run(t, new(site.Site), New, args...)
}

// TestProfiles: the command says which profile fits and why, and why no other one does.
func TestProfiles(t *testing.T) {
	_, out, _ := run(t, "--scenario=healthy-efa")
	commandtest.Contains(t, out, "This node is AWS p5.48xlarge (profile aws-p5): DMI says Amazon EC2 p5.48xlarge.",
		"product_name: p5.48xlarge, expected p5en.48xlarge", "sys_vendor: Amazon EC2, expected NVIDIA; or GPUs: 0, expected at least 1 of 10de:2e12")
	_, out, _ = run(t, "--scenario=healthy")
	commandtest.Contains(t, out, "This node has no profile: no profile fits.", "nothing in DMI, 8 GPUs 10de:2330")
	_, out, _ = run(t, "--scenario=healthy-efa", "aws-p5")
	commandtest.Contains(t, out, "fits this node: yes", "up to 32 ports of role compute", "normal: efa_without_state [driver]", "https://docs.aws.amazon.com/")
}

// TestProfilesJSON: the same for programs.
func TestProfilesJSON(t *testing.T) {
	var r report
	_, out, _ := run(t, "--scenario=healthy-oci-h100", "--output=json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Recognized.Profile != "oci-bm-gpu-h100-8" || r.Recognized.Reason != "dmi" || len(r.Profiles) != len(profiles.Builtin()) || len(r.Machine.DMI) != 6 {
		t.Errorf("%+v, %+v", r.Recognized, r.Machine)
	}
}

// TestWrite: what is written from a node fits it when it is put into the folder of the site, and only then.
func TestWrite(t *testing.T) {
	code, draft, stderr := run(t, "--scenario=healthy", "--write")
	if code != command.OK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"rack.yaml": draft, "damaged.yaml": "x", "config": "profiles: " + dir + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, out, stderr := run(t, "--scenario=healthy", "--config.file="+filepath.Join(dir, "config"))
	commandtest.Contains(t, out, "(profile site-machine): it has the GPUs", "\nsite-machine        yes   the site", "Left out: "+dir+"/damaged.yaml")
	if lines := strings.Count(stderr, "\n"); lines != 1 || !strings.Contains(stderr, "damaged.yaml") {
		t.Errorf("%d lines: %s", lines, stderr)
	}
}

func TestRefused(t *testing.T) {
	for says, args := range map[string][]string{
		"did you mean aws-p5?":        {"--scenario=healthy-efa", "aws-p6"},
		"expected the name of one":    {"aws-p5", "aws-p5en"},
		"expected neither a name nor": {"--write", "aws-p5"},
		"at most one of them":         {"--scenario=healthy", "--capture=x"},
		"no such file":                {"--capture=/nosuch"},
	} {
		code, stdout, stderr := run(t, args...)
		if code == command.OK {
			t.Errorf("%v: exit code 0", args)
		}
		commandtest.Contains(t, stdout+stderr, says)
	}
}
