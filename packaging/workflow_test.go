// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflow is what is read of a workflow for GitHub.
type workflow struct {
	On          map[string]any
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Strategy    struct{ Matrix map[string][]string }
		Steps       []step
	}
}

type step struct {
	ID, Uses, Run string
	With          map[string]any
}

var (
	uses = regexp.MustCompile(`(?m)^\s*(?:- )?uses:.*$`)
	// A tag can be moved to other code, a commit cannot.
	pinnedAction = regexp.MustCompile(`^\s*(?:- )?uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	expression   = regexp.MustCompile(`\$\{\{ *(\S+) *\}\}`)
	makeCommand  = regexp.MustCompile(`(?m)^make ([a-z0-9-]+)`)
	makeTarget   = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
)

// workflows reads all of them, and checks what must hold for each.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob("../.github/workflows/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: no workflows", err)
	}
	all := map[string]workflow{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range uses.FindAllString(string(text), -1) {
			if !pinnedAction.MatchString(line) {
				t.Errorf("%s: %s: expected uses: OWNER/NAME@COMMIT # vX.Y.Z, with the 40 digits of the commit that the release names", f, strings.TrimSpace(line))
			}
		}
		var w workflow
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all[filepath.Base(f)] = w
	}
	return all
}

// Workflows run targets of the Makefile, with actions that are pinned, and with only the rights that they need.
func TestWorkflows(t *testing.T) {
	targets := map[string]bool{}
	for _, f := range []string{"../Makefile", "packaging.mk"} {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range makeTarget.FindAllStringSubmatch(string(text), -1) {
			targets[m[1]] = true
		}
	}
	for name, w := range workflows(t) {
		if w.Permissions == nil || slices.Contains(slices.Collect(maps.Values(w.Permissions)), "write") {
			t.Errorf("%s: permissions are %v, expected none that write: jobs ask for what they need", name, w.Permissions)
		}
		if _, risky := w.On["pull_request_target"]; risky {
			t.Errorf("%s: pull_request_target runs code of others with rights to write", name)
		}
		for job, j := range w.Jobs {
			writes := slices.Contains(slices.Collect(maps.Values(j.Permissions)), "write")
			for _, s := range j.Steps {
				run := expression.ReplaceAllStringFunc(s.Run, func(e string) string {
					key, ofMatrix := strings.CutPrefix(expression.FindStringSubmatch(e)[1], "matrix.")
					if !ofMatrix {
						t.Errorf("%s: job %s: %s in a command is replaced before the shell reads it: put it into env", name, job, e)
					}
					return strings.Join(j.Strategy.Matrix[key], "\nmake ")
				})
				for _, m := range makeCommand.FindAllStringSubmatch(run, -1) {
					if !targets[m[1]] {
						t.Errorf("%s: job %s: make has no target %s", name, job, m[1])
					}
				}
				if writes && (strings.Contains(run, "make") || strings.HasPrefix(s.Uses, "actions/checkout@")) {
					t.Errorf("%s: job %s may write, and runs code of the repository: %s%s", name, job, s.Uses, s.Run)
				}
				if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
					t.Errorf("%s: job %s: checkout leaves its token to what runs next: persist-credentials: false", name, job)
				}
			}
		}
	}
}

// What is published is exactly what make release and make image build: jobs that may write take it from those
// that built it, and its checksums are attested.
func TestReleaseWorkflow(t *testing.T) {
	w := workflows(t)["release.yml"]
	for _, c := range []struct {
		job   string
		built []string
		path  string // of what is handed over
	}{
		{"build", []string{"make release"}, "bin/release"},
		{"image", []string{"make image IMAGE=release", "podman manifest push --all release oci:bin/image"}, "bin/image"},
		{"chart", []string{"helm package deploy/chart --destination bin/chart"}, "bin/chart"},
	} {
		var built []string
		for _, s := range w.Jobs[c.job].Steps {
			if s.Run != "" && !strings.HasPrefix(s.Run, "sudo apt-get ") {
				built = append(built, s.Run)
			}
			if strings.HasPrefix(s.Uses, "actions/upload-artifact@") && s.With["path"] != c.path {
				t.Errorf("%s uploads %v, expected %s", c.job, s.With["path"], c.path)
			}
		}
		if !slices.Equal(built, c.built) {
			t.Errorf("%s builds with %q, want %q", c.job, built, c.built)
		}
	}
	attested := false
	for _, s := range w.Jobs["publish"].Steps {
		attested = attested || strings.HasPrefix(s.Uses, "actions/attest@") && s.With["subject-checksums"] == "release/SHA256SUMS"
		if strings.HasPrefix(s.Run, "gh release create") && !attested {
			t.Error("publishes before the checksums are attested")
		}
	}
	if !attested {
		t.Error("the checksums are not attested")
	}
	pushed := slices.ContainsFunc(w.Jobs["push"].Steps, func(s step) bool {
		return s.ID == "push" && strings.Contains(s.Run, `skopeo copy --all --digestfile digest oci:image "docker://$IMAGE:${TAG#v}"`)
	})
	attested = slices.ContainsFunc(w.Jobs["push"].Steps, func(s step) bool {
		return strings.HasPrefix(s.Uses, "actions/attest@") && s.With["subject-digest"] == "${{ steps.push.outputs.digest }}"
	})
	if !pushed || !attested {
		t.Errorf("the image that was built is pushed: %t, and the digest of the registry attested: %t", pushed, attested)
	}
	if !slices.ContainsFunc(w.Jobs["push"].Steps, func(s step) bool {
		return strings.Contains(s.Run, `helm push chart/*.tgz "oci://ghcr.io/$OWNER/charts"`)
	}) {
		t.Error("the chart that was packaged is not pushed")
	}
	for job, j := range w.Jobs {
		if j.Permissions["packages"] == "write" && job != "push" || j.Permissions["contents"] == "write" && job != "publish" {
			t.Errorf("job %s may do %v", job, j.Permissions)
		}
	}
}
