// SPDX-License-Identifier: Apache-2.0

package status

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What shows a node renders the status document: none of it reads devices, ports or GPUs of the node a second time.
func TestRenderersReadTheDocument(t *testing.T) {
	reads := regexp.MustCompile(`fabric\.(HCA|Port|GPU|GPUDriver|PCIFunction|RoCEChain|RoCELink|NetDev|GDR|Rail|NCCLConfig)\b|verdict\.GPUs?\b|\.HCAs\b|n\.PCI\b|GPUDriver\.`)
	for _, room := range []string{"../report", "../drawing", "../page", "../command/topology"} {
		files, err := filepath.Glob(room + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(room, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				if read := reads.FindString(line); read != "" && !strings.HasSuffix(name, "_test.go") {
					t.Errorf("%s:%d reads %s", name, i+1, read)
				}
			}
		}
	}
}
