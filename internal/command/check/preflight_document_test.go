// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/nccl"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

const preflightDocument = "../../../docs/COMMANDS.md"

// readPreflight returns the document, and the section of preflight in it.
func readPreflight(t *testing.T) (document, section string) {
	t.Helper()
	text, err := os.ReadFile(preflightDocument)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## preflight\n")
	section, _, closed := strings.Cut(section, "\n## ")
	if !found || !closed {
		t.Fatalf("%s has no section about preflight", preflightDocument)
	}
	return string(text), section
}

// block returns the first code block of a language in that section.
func block(t *testing.T, language string) string {
	t.Helper()
	_, section := readPreflight(t)
	_, from, found := strings.Cut(section, "```"+language+"\n")
	body, _, closed := strings.Cut(from, "```\n")
	if !found || !closed {
		t.Fatalf("%s has no block of %s", preflightDocument, language)
	}
	return body
}

// The output in docs/COMMANDS.md (go test -update writes it) is what preflight prints for a node with eight
// GPUs and too low a limit.
func TestPreflightDocumentOutput(t *testing.T) {
	at := time.Unix(1, 0)
	ports := 8
	n := &fabric.Node{At: at, Policy: &fabric.Policy{ComputePorts: &ports}}
	in := &fabric.Inside{
		Memlock: fabric.Known(fabric.Memlock{Soft: 8 << 20, Hard: 8 << 20}, "", at), LocksAll: fabric.Known(false, "", at),
		Libverbs:  fabric.Known(fabric.Library{Path: "/usr/lib/x86_64-linux-gnu/libibverbs.so.1", Version: "1.14.50.0"}, "", at),
		Providers: fabric.Known([]string{"mlx5"}, "", at), Plugins: fabric.Known([]string(nil), "", at),
	}
	var gpus []fabric.GPUNode
	var verbs []fabric.VerbsNode
	for i := range 8 {
		gpus = append(gpus, fabric.GPUNode{Address: fmt.Sprintf("0000:%02x:00.0", i+1)})
		verbs = append(verbs, fabric.VerbsNode{Name: fmt.Sprintf("uverbs%d", i), Device: fmt.Sprintf("mlx5_%d", i), Usable: fabric.Known(true, "", at)})
		n.HCAs = append(n.HCAs, fabric.HCA{Name: fmt.Sprintf("mlx5_%d", i), Driver: fabric.Known("mlx5_core", "", at), Ports: []fabric.Port{{
			Number: 1, State: fabric.Known(fabric.PortActive, "", at), Role: fabric.Known(fabric.RoleCompute, "", at), LinkLayer: fabric.Known(fabric.LinkInfiniBand, "", at),
		}}})
	}
	in.GPUs, in.Verbs, n.Inside = fabric.Known(gpus, "", at), fabric.Known(verbs, "", at), in
	n.NCCL.Library = fabric.Known(fabric.Library{Path: "/usr/lib/x86_64-linux-gnu/libnccl.so.2", Version: "2.27.3"}, "", at)

	var b bytes.Buffer
	writeNote(&b, nccl.InsideNote(n))
	if err := writeTable(&b, n, config.Config{Links: config.DefaultLinks()}, diagnose.Run(n, []*verdict.Check{diagnose.Find("inside_memlock")}), false, func(_, s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for line := range strings.Lines(b.String()) {
		shown.WriteString("    " + line)
	}
	document, section := readPreflight(t)
	_, rest, found := strings.Cut(section, "    $ gpufabric_exporter preflight\n")
	got, _, closed := strings.Cut(rest, "\n\n")
	if *update {
		document = strings.Replace(document, got+"\n", shown.String(), 1)
		if err := os.WriteFile(preflightDocument, []byte(document), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
		return
	}
	if !found || !closed || got+"\n" != shown.String() {
		t.Errorf("%s shows\n%s\nwant\n%s", preflightDocument, got, shown.String())
	}
}

// The task prolog ends the task for code 1 only, runs once on each node, and has Slurm show the report to the
// user: that interprets what it prints.
func TestPreflightDocumentProlog(t *testing.T) {
	dir := t.TempDir()
	prolog := filepath.Join(dir, "prolog.sh")
	if err := os.WriteFile(prolog, []byte(block(t, "sh")), 0o600); err != nil {
		t.Fatal(err)
	}
	standIn := "#!/bin/sh\necho \"report $*\"\necho export A=1 >&2\ntouch " + dir + "/ran\nexit $CODE\n"
	for _, name := range []string{"gpufabric_exporter"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(standIn), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		local, code string
		want        int
		ran         bool
	}{{"0", "0", 0, true}, {"0", "1", 1, true}, {"0", "2", 0, true}, {"0", "3", 0, true}, {"1", "1", 0, false}} {
		_ = os.Remove(filepath.Join(dir, "ran"))
		cmd := exec.CommandContext(t.Context(), "sh", prolog)
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "SLURM_LOCALID=" + c.local, "CODE=" + c.code}
		out, err := cmd.Output()
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		_, missing := os.Stat(filepath.Join(dir, "ran"))
		shown := ""
		if c.ran && c.code != "0" {
			shown = "print report preflight\nprint export A=1\n"
		}
		if code != c.want || (missing == nil) != c.ran || string(out) != shown {
			t.Errorf("task %s, preflight ends with %s: exit code %d, want %d; ran: %v; output %q", c.local, c.code, code, c.want, missing == nil, out)
		}
	}
}

// The commands that run preflight in a container reach it behind the options of srun, enroot and Apptainer, which
// stand-ins take as these document them: none is here. That install-to copies what they run is tested with the program.
func TestPreflightDocumentContainers(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"gpufabric_exporter": "echo \"report $*\"\nexit $CODE\n",
		"ld.so":              "[ \"$1\" = --library-path ] || exit 64\nshift 2\nexec \"$@\"\n",
		"srun":               "while :; do case $1 in --container-image=?*|--ntasks-per-node=1) ;; --container-mounts=/?*:/?*:ro) ;; --*) exit 64;; *) break;; esac; shift; done\nexec \"$@\"\n",
		"enroot":             "[ \"$1\" = start ] && [ \"$2\" = --mount ] || exit 64\ncase $3 in /?*:/?*) ;; *) exit 64;; esac\nshift 4\nexec \"$@\"\n",
		"apptainer":          "[ \"$1 $2 $3\" = \"exec --nv --bind\" ] || exit 64\ncase $4 in /?*:/?*:ro) ;; *) exit 64;; esac\nshift 5\nexec \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, text := readPreflight(t)
	text = strings.ReplaceAll(text, " /gpufabric/", " "+dir+"/")
	for _, program := range []string{"srun", "enroot", "apptainer"} {
		_, command, found := strings.Cut(text, "\n    "+program+" ")
		command, _, closed := strings.Cut(command, "\n\n")
		out, code := ends(t, dir, "0", "sh", "-c", program+" "+command)
		if !found || !closed || code != 0 || out != "report preflight\n" {
			t.Errorf("%s %s: exit code %d, %q", program, command, code, out)
		}
	}
}

// ends runs a command with the programs in a folder before others, of which gpufabric_exporter ends with a code.
func ends(t *testing.T, dir, with string, args ...string) (stdout string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "CODE=" + with, "HOME=/root"}
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(out), exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

// The manifest has fields of a pod, one container fills the folder from which the other runs, and the job starts
// unless a check failed.
func TestPreflightDocumentManifest(t *testing.T) {
	type mount struct {
		Name     string
		Path     string `yaml:"mountPath"`
		ReadOnly bool   `yaml:"readOnly"`
	}
	var spec struct {
		InitContainers []struct {
			Name, Image   string
			Command, Args []string
			Resources     struct{ Limits map[string]int }
			Security      struct {
				Capabilities struct{ Add []string }
			} `yaml:"securityContext"`
			Mounts []mount `yaml:"volumeMounts"`
		} `yaml:"initContainers"`
		Volumes []struct {
			Name     string
			EmptyDir struct{} `yaml:"emptyDir"`
		}
	}
	d := yaml.NewDecoder(strings.NewReader(block(t, "yaml")))
	d.KnownFields(true)
	if err := d.Decode(&spec); err != nil {
		t.Fatal(err)
	}
	if len(spec.InitContainers) != 2 {
		t.Fatalf("%d containers", len(spec.InitContainers))
	}
	from, to := spec.InitContainers[0], spec.InitContainers[1]
	const path = "/gpufabric"
	if !slices.Equal(from.Args, []string{"install-to", path}) || !slices.Equal(from.Mounts, []mount{{"gpufabric", path, false}}) ||
		!slices.Equal(to.Mounts, []mount{{"gpufabric", path, true}}) || spec.Volumes[0].Name != "gpufabric" {
		t.Errorf("the command is not in the folder that install-to fills: %+v", spec)
	}
	dir := t.TempDir()
	for name, script := range map[string]string{"ld.so": "shift 2\nexec \"$@\"\n", "gpufabric_exporter": "echo \"report $*\"\nexit $CODE\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for with, want := range map[string]int{"0": 0, "1": 1, "2": 0, "3": 0} {
		command := strings.ReplaceAll(to.Command[len(to.Command)-1], path+"/", dir+"/")
		if out, code := ends(t, dir, with, append(slices.Clone(to.Command[:2]), command)...); code != want || out != "report preflight --severity=critical\n" {
			t.Errorf("preflight ends with %s: %s: exit code %d, want %d; %q", with, command, code, want, out)
		}
	}
}
