// SPDX-License-Identifier: Apache-2.0

package library

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// object is an ELF file whose section .rodata has that text.
func object(text string) []byte {
	le := binary.LittleEndian
	const names = "\x00.rodata\x00.shstrtab\x00"
	b := make([]byte, 64)
	copy(b, "\x7fELF\x02\x01\x01")
	rodata := len(b)
	b = append(b, text...)
	strings := len(b)
	b = append(b, names...)
	table := len(b)
	for _, s := range [][3]int{{0, 0, 0}, {1, rodata, len(text)}, {9, strings, len(names)}} {
		e := make([]byte, 64)
		le.PutUint32(e, uint32(s[0]))
		le.PutUint64(e[0x18:], uint64(s[1]))
		le.PutUint64(e[0x20:], uint64(s[2]))
		b = append(b, e...)
	}
	le.PutUint64(b[0x28:], uint64(table))
	le.PutUint16(b[0x3a:], 64)
	le.PutUint16(b[0x3c:], 3)
	le.PutUint16(b[0x3e:], 2)
	return b
}

// host makes files below a new root; a text that begins with "->" is a symbolic link.
func host(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(text, "->"); link {
			err = os.Symlink(to, file)
		} else {
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFindNCCL(t *testing.T) {
	const system = "usr/lib/x86_64-linux-gnu/"
	text := string(object("x\x00NCCL version %d\x00NCCL version 2.21.5+cuda12.4\x00"))
	for _, c := range []struct {
		name, path string
		files      map[string]string
		want       Found
	}{
		{"none", "", map[string]string{"etc/hosts": ""}, Found{}},
		{"file name", "", map[string]string{system + NCCL: "->libnccl.so.2.27.3", system + "libnccl.so.2.27.3": "x"}, Found{"/" + system + NCCL, "2.27.3"}},
		{"absolute link", "", map[string]string{system + NCCL: "->/opt/libnccl.so.2.26.2", "opt/libnccl.so.2.26.2": "x"}, Found{"/" + system + NCCL, "2.26.2"}},
		{"content", "", map[string]string{system + NCCL: text}, Found{"/" + system + NCCL, "2.21.5"}},
		{"no version", "", map[string]string{system + NCCL: "\x7fELF"}, Found{"/" + system + NCCL, ""}},
		{"search path first", "/none:/opt/hpcx", map[string]string{system + NCCL: text, "opt/hpcx/" + NCCL: "->libnccl.so.2.19.3", "opt/hpcx/libnccl.so.2.19.3": "x"}, Found{"/opt/hpcx/" + NCCL, "2.19.3"}},
		{"cache", "", map[string]string{"etc/ld.so.cache": "glibc-ld.so.cache1.1\x00/usr/local/nccl/" + NCCL + "\x00", "usr/local/nccl/" + NCCL: text}, Found{"/usr/local/nccl/" + NCCL, "2.21.5"}},
		{"stale cache", "", map[string]string{"etc/ld.so.cache": "x\x00/gone/" + NCCL + "\x00", system + NCCL: text}, Found{"/" + system + NCCL, "2.21.5"}},
		{"Python", "", map[string]string{"opt/conda/lib/python3.11/site-packages/" + NCCLPackaged: text}, Found{"/opt/conda/lib/python3.11/site-packages/" + NCCLPackaged, "2.21.5"}},
		{"link out of the root", "", map[string]string{system + NCCL: "->../../../../../../../../etc/hostname"}, Found{}},
		{"loop", "", map[string]string{system + NCCL: "->" + NCCL}, Found{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := FindNCCL(host(t, c.files), c.path); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// What stands in the way is passed over: nothing blocks, and what is behind it is found.
func TestHostileFiles(t *testing.T) {
	root := host(t, map[string]string{"ok/" + NCCL: string(object("NCCL version 2.20.5 \x00")), "loop/a": "->a", "file": "x"})
	for _, dir := range []string{"fifo", "folder", "etc"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, fifo := range []string{"fifo/" + NCCL, "fifo/glibc-hwcaps", "etc/ld.so.cache"} {
		if err := syscall.Mkfifo(filepath.Join(root, fifo), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "folder", NCCL), 0o755); err != nil {
		t.Fatal(err)
	}
	big, err := os.Create(filepath.Join(root, "folder", "libnccl-net.so"))
	if err != nil || big.Truncate(1<<40) != nil {
		t.Fatal(err)
	}
	defer big.Close()
	if version := ncclVersion(big, 1<<40); version != "" {
		t.Errorf("a file of 1 TiB says %s", version)
	}
	path := strings.Repeat("/x:", 100) + "/fifo:/folder:/loop/a:/file:relative:$ORIGIN:/ok"
	if got, _ := FindNCCL(root, path); got != (Found{"/ok/" + NCCL, "2.20.5"}) {
		t.Errorf("got %+v", got)
	}
	if got := Locate(root, NCCL, strings.Repeat("/x:", 1e6)+"/ok"); slices.Contains(got, "/ok/"+NCCL) {
		t.Error("the search path has no bound")
	}
}

func TestVersionAcrossChunks(t *testing.T) {
	for _, before := range []int{0, chunk - 20, chunk - 5, chunk, 2*chunk - 13} {
		b := object(strings.Repeat("x", before) + "NCCL version 2.18.6+cuda12.1\x00")
		if got := ncclVersion(bytes.NewReader(b), int64(len(b))); got != "2.18.6" {
			t.Errorf("after %d bytes: %q", before, got)
		}
	}
}

func FuzzNCCLVersion(f *testing.F) {
	f.Add(object("NCCL version 2.21.5+cuda12.4\x00"))
	f.Add(object(""))
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := ncclVersion(bytes.NewReader(b), int64(len(b))); got != "" && (!bytes.Contains(b, []byte("NCCL version "+got)) || len(got) > 9) {
			t.Errorf("%q", got)
		}
	})
}
