// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/NCCL.md")

func TestDocument(t *testing.T) {
	const path = "../../../docs/NCCL.md"
	var b bytes.Buffer
	if err := WriteDocument(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, b.Bytes()) {
		t.Errorf("%s is not of these tables (make docs): %v", path, err)
	}
}
