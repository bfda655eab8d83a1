// SPDX-License-Identifier: Apache-2.0

//go:build (safety || load) && linux && amd64

package safety

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"gpufabric_exporter/internal/host/nvml/nvmltest"
	"gpufabric_exporter/internal/simulator"
)

// eventually is how long anything may take on a busy machine.
const eventually = 3 * time.Minute

func TestMain(m *testing.M) {
	Enter()
	m.Run()
}

// node is a node laid out in files, and what belongs to the program under judgement.
type node struct {
	t       *testing.T
	binary  string
	own     string         // the folder that it may write
	log     string         // a log of NCCL
	paths   []string       // flags that lead to the files
	library string         // flag for a stand-in for NVML
	trusted *x509.CertPool // of its certificate; nil: it serves without TLS
	site    string         // flag for the configuration of a node with probes and messages of the kernel
}

func layOut(t *testing.T) *node {
	t.Helper()
	return layOutScenario(t, "healthy")
}

func layOutScenario(t *testing.T, name string) *node {
	t.Helper()
	binary, err := filepath.Abs("../../bin/gpufabric_exporter")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	scenario, err := simulator.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := scenario.Build().Materialise(filepath.Join(dir, "node"))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, binary: binary, own: filepath.Join(dir, "own"), log: "../../internal/command/explain/testdata/tcp.log"}
	library := nvmltest.Build(t, dir)
	nvmltest.Describe(t, library, "gpus 8")
	if err := os.Mkdir(n.own, 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("kernel:\n  messages: /dev/kmsg\nprobes:\n  enabled: true\n  state_file: %s/probes.json\n  lock_file: %s/probe.lock\n", n.own, n.own)
	if err := os.WriteFile(filepath.Join(dir, "config.yml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n.site, n.library = "--config.file="+filepath.Join(dir, "config.yml"), "--gpu.nvml-library="+library
	n.paths = []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs(), "--config.file=none"}
	return n
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// file is where a program writes its output.
func (n *node) file() *os.File {
	n.t.Helper()
	f, err := os.CreateTemp(n.t.TempDir(), "output")
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { f.Close() })
	return f
}

// listening waits for the address.
func (n *node) listening(ended <-chan struct{}, log string) string {
	n.t.Helper()
	address := regexp.MustCompile(`msg=listening address=(\S+)|(127\.0\.0\.1:\d+)`)
	for end := time.Now().Add(eventually); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if m := address.FindStringSubmatch(read(n.t, log)); m != nil {
			return "http://" + m[1] + m[2]
		}
		select {
		case <-ended:
			n.t.Fatal(read(n.t, log))
		default:
		}
	}
	n.t.Fatalf("it does not listen:\n%s", read(n.t, log))
	return ""
}
