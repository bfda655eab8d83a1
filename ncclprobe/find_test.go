// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lay makes empty files below a root.
func lay(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, f := range files {
		path := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFind(t *testing.T) {
	const (
		debian = "usr/local/lib/python3.11/dist-packages/nvidia/nccl/lib/libnccl.so.2"
		newer  = "usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/libnccl.so.2"
		redhat = "usr/lib64/python3.9/site-packages/nvidia/nccl/lib/libnccl.so.2"
		conda  = "opt/conda/envs/train/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"
		venv   = "opt/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"
	)
	for _, tt := range []struct {
		name     string
		files    []string
		given    string
		searched string
		want     string // relative to the root, if it has a slash
	}{
		{name: "given", files: []string{debian}, given: "/elsewhere/libnccl.so.2", want: "/elsewhere/libnccl.so.2"},
		{name: "Debian's Python", files: []string{debian}, want: debian},
		{name: "newest Python", files: []string{debian, newer}, want: newer},
		{name: "lib64", files: []string{redhat}, want: redhat},
		{name: "conda", files: []string{conda}, want: conda},
		{name: "venv before environments of conda", files: []string{conda, venv}, want: venv},
		{name: "LD_LIBRARY_PATH", files: []string{debian, "nccl/lib/libnccl.so.2"}, searched: "/none:/nccl/lib", want: defaultNCCL},
		{name: "relative LD_LIBRARY_PATH", files: []string{debian, "nccl/lib/libnccl.so.2"}, searched: "nccl/lib::", want: debian},
		{name: "of a user", files: []string{"home/user/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"}},
		{name: "nothing"},
	} {
		root := lay(t, tt.files...)
		want := tt.want
		if strings.Contains(want, "/") && tt.given == "" {
			want = filepath.Join(root, want)
		}
		got, err := Find(root, tt.given, tt.searched)
		if got != want || (want == "") != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v, expected %q", tt.name, got, err, want)
		}
	}
}

func TestFindInLoaderCache(t *testing.T) {
	for text, want := range map[string]string{
		"glibc-ld.so.cache1.1...\x00libnccl.so.2\x00/usr/lib/x86_64-linux-gnu/libnccl.so.2\x00":      defaultNCCL,
		"glibc-ld.so.cache1.1...\x00/usr/lib/x86_64-linux-gnu/libnccl.so.2\x00libnccl.so.2.22.3\x00": defaultNCCL, // glibc 2.33: the name ends the path
		"glibc-ld.so.cache1.1...\x00libnccl.so.2.22.3\x00/usr/lib/libnccl.so.2.22.3\x00":             "",
	} {
		root := lay(t, "etc/ld.so.cache")
		if err := os.WriteFile(filepath.Join(root, "etc/ld.so.cache"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _ := Find(root, "", ""); got != want {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
}

// TestFindTrusts ignores libraries that other users could have put there.
func TestFindTrusts(t *testing.T) {
	const (
		open  = "opt/open/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"
		other = "opt/other/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"
	)
	root := lay(t, open)
	if err := os.Chmod(filepath.Join(root, "opt/open"), 0o777); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(root, "", ""); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%q, %v", got, err)
	}
	// The next one is taken.
	root = lay(t, open, other)
	if err := os.Chmod(filepath.Join(root, open), 0o666); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(root, "", ""); got != filepath.Join(root, other) {
		t.Errorf("%q, %v", got, err)
	}
	// A symbolic link is as good as what it leads to.
	root = lay(t, "store/libnccl.so.2", "opt/a/lib/python3.12/site-packages/nvidia/nccl/lib/README")
	if err := os.Symlink(strings.Repeat("../", 8)+"store/libnccl.so.2", filepath.Join(root, "opt/a/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2")); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(root, "", ""); err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Chmod(filepath.Join(root, "store"), 0o777); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(root, "", ""); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%q, %v", got, err)
	}
	if os.Geteuid() != 0 {
		t.Log("files of other owners are not tested: only root can give them away")
		return
	}
	root = lay(t, open)
	if err := os.Chown(filepath.Join(root, open), 4711, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(root, "", ""); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%q, %v", got, err)
	}
}
