// SPDX-License-Identifier: Apache-2.0

package library

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The version is that of the file that the process has mapped, and of no other one at its path.
func TestMappedNCCL(t *testing.T) {
	const name = "/venv/nvidia/nccl/lib/" + NCCL
	root := host(t, map[string]string{name[1:]: string(object("x\x00NCCL version 2.30.7+cuda12.9\x00")), "other/" + NCCL: "x"})
	var st syscall.Stat_t
	if err := syscall.Stat(root+name, &st); err != nil {
		t.Fatal(err)
	}
	line := func(inode uint64, path string) string {
		return fmt.Sprintf("7f0000000000-7f0000001000 r-xp 00000000 08:01 %d                    %s\n", inode, path)
	}
	heap := "55d000000000-55d000021000 rw-p 00000000 00:00 0                          [heap]\n"
	for what, c := range map[string]struct{ maps, want string }{
		"mapped":   {heap + line(st.Ino, name) + line(st.Ino, name) + heap, "2.30.7"},
		"none":     {heap, ""},
		"replaced": {line(st.Ino+1, name), ""},
		"deleted":  {line(st.Ino, name+" (deleted)"), ""},
		"gone":     {line(st.Ino, "/gone/"+NCCL), ""},
		"two":      {line(st.Ino, name) + line(st.Ino+1, "/other/"+NCCL), ""},
		"garbage":  {"x y\n\n", ""},
	} {
		procfs := t.TempDir()
		dir := filepath.Join(procfs, "9")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(root, filepath.Join(dir, "root")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "maps"), []byte(c.maps), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := MappedNCCL(procfs, 9); got != c.want {
			t.Errorf("%s: %q, expected %q", what, got, c.want)
		}
	}
	if got := MappedNCCL(t.TempDir(), 9); got != "" {
		t.Errorf("no such process: %q", got)
	}
}
