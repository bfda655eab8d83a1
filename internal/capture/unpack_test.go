// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func decompress(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func compress(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(b)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const goodManifest = `{"format": 3}`

// pack makes an archive; a header without a type is a file.
func pack(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		text := h.Uname // of a file
		h.Uname, h.Mode = "", 0o644
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Size == 0 {
			h.Size = int64(len(text))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Flush()
	if err := w.Close(); err != nil && !strings.Contains(err.Error(), "missed writing") {
		t.Fatal(err)
	}
	return compress(t, b.Bytes())
}

func manifestHeader() tar.Header { return tar.Header{Name: manifestName, Uname: goodManifest} }

func TestUnpackRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test runs it without")
	}
	m := manifestHeader()
	symlink := func(name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
	}
	many := []tar.Header{m}
	for range maxEntries {
		many = append(many, tar.Header{Name: "sys/d/", Typeflag: tar.TypeDir})
	}
	good := pack(t, m, tar.Header{Name: "sys/a", Uname: strings.Repeat("text", 100)})
	cases := map[string]struct {
		archive []byte
		says    string
	}{
		"nothing":         {nil, "expected a tar.gz"},
		"garbage":         {[]byte("garbage, not an archive"), "expected a tar.gz"},
		"gzip of garbage": {compress(t, bytes.Repeat([]byte("garbage"), 500)), "tar"},
		"truncated":       {good[:len(good)/2], "unexpected EOF"},
		"no checksum":     {good[:len(good)-6], "unexpected EOF"},
		"bad checksum":    {append(bytes.Clone(good[:len(good)-8]), 1, 2, 3, 4, 5, 6, 7, 8), "checksum"},
		"no manifest":     {pack(t, tar.Header{Name: "sys/a", Uname: "x"}), "no MANIFEST.json"},
		"two manifests":   {pack(t, m, m), "twice"},
		"bad manifest":    {pack(t, tar.Header{Name: manifestName, Uname: "{"}), "MANIFEST.json"},
		"other format":    {pack(t, tar.Header{Name: manifestName, Uname: `{"format": 99}`}), "format 99"},
		"dotdot":          {pack(t, m, tar.Header{Name: "../a", Uname: "x"}), `path "../a"`},
		"dotdot within":   {pack(t, m, tar.Header{Name: "sys/../../a", Uname: "x"}), "path"},
		"absolute":        {pack(t, m, tar.Header{Name: "/etc/passwd", Uname: "x"}), "path"},
		"control":         {pack(t, m, tar.Header{Name: "sys/\x1b[2J", Uname: "x"}), "path"},
		"elsewhere":       {pack(t, m, tar.Header{Name: "home/a", Uname: "x"}), "no part"},
		"part as a file":  {pack(t, m, tar.Header{Name: "sys", Uname: "x"}), "expected a directory"},
		"absolute link":   {pack(t, m, symlink("sys/a", "/etc")), "leads to"},
		"link outside":    {pack(t, m, symlink("sys/a", "../../etc")), "leads to"},
		"other part":      {pack(t, m, symlink("sys/a", "../proc")), "leads to"},
		"link in netlink": {pack(t, m, symlink("netlink/rdma.json", "other.json")), "expected recordings"},
		"chain of links":  {pack(t, m, symlink("sys/a/b/c/up", "../../.."), symlink("sys/x", "a/b/c/up/../../outside")), "leads out of sys"},
		"chain far out":   {pack(t, m, symlink("root/a/b/c/up", "../../.."), symlink("root/a/b/c/top", "up/.."), symlink("root/etc", "a/b/c/top/../../../../etc")), "leads"},
		"below a link":    {pack(t, m, symlink("sys/a/b", "../c"), symlink("sys/a", "c")), "below a link"},
		"file below link": {pack(t, m, symlink("sys/a", "b"), tar.Header{Name: "sys/a/x", Uname: "x"}), "contradicts"},
		"file twice":      {pack(t, m, tar.Header{Name: "sys/a", Uname: "x"}, tar.Header{Name: "sys/a", Uname: "x"}), "contradicts"},
		"below a file":    {pack(t, m, tar.Header{Name: "sys/a", Uname: "x"}, tar.Header{Name: "sys/a/b", Uname: "x"}), "contradicts"},
		"device":          {pack(t, m, tar.Header{Name: "sys/a", Typeflag: tar.TypeChar, Devmajor: 1}), "neither"},
		"fifo":            {pack(t, m, tar.Header{Name: "sys/a", Typeflag: tar.TypeFifo}), "neither"},
		"hard link":       {pack(t, m, tar.Header{Name: "sys/a", Typeflag: tar.TypeLink, Linkname: "sys/b"}), "neither"},
		"large file":      {pack(t, m, tar.Header{Name: "sys/a", Size: maxBytes + 1}), "bytes"},
		"large manifest":  {pack(t, tar.Header{Name: manifestName, Size: maxBytes}), "bytes"},
		"many files":      {pack(t, many...), "more than"},
		"bomb after all":  {compress(t, append(decompress(t, pack(t, m)), make([]byte, maxTar)...)), "unpacks to more"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "dir")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			_, err := Unpack(bytes.NewReader(c.archive), dir)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, expected one that says %q", err, c.says)
			}
			if found, _ := os.ReadDir(parent); len(found) != 1 {
				t.Errorf("wrote outside: %v", found)
			}
		})
	}
	if _, err := Unpack(bytes.NewReader(good), filepath.Join(t.TempDir(), "nosuch")); err == nil || errors.Is(err, ErrInvalid) {
		t.Errorf("no directory: %v", err)
	}
}

// FuzzUnpack checks that whatever comes, nothing lies outside of the directory and no link is absolute.
func FuzzUnpack(f *testing.F) {
	m := manifestHeader()
	f.Add(decompressed(f, pack(f, m, tar.Header{Name: "sys/a", Uname: "x"}, tar.Header{Name: "sys/l", Typeflag: tar.TypeSymlink, Linkname: "a"})))
	f.Add(decompressed(f, pack(f, m, tar.Header{Name: "sys/d/", Typeflag: tar.TypeDir}, tar.Header{Name: "sys/d/l", Typeflag: tar.TypeSymlink, Linkname: "../x"})))
	f.Fuzz(func(t *testing.T, plain []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "dir")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_, _ = Unpack(bytes.NewReader(plain), dir)
		_, _ = Unpack(bytes.NewReader(compress(t, plain)), dir)
		if found, _ := os.ReadDir(parent); len(found) != 1 {
			t.Fatalf("wrote outside: %v", found)
		}
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				t.Errorf("%s: %v", p, err)
			case d.Type() == fs.ModeSymlink:
				target, _ := os.Readlink(p)
				if to := filepath.Join(filepath.Dir(p), target); filepath.IsAbs(target) || !strings.HasPrefix(to, dir+"/") {
					t.Errorf("%s leads to %s", p, target)
				}
			case !d.IsDir() && !d.Type().IsRegular():
				t.Errorf("%s is a %v", p, d.Type())
			}
			return nil
		})
	})
}

func decompressed(f *testing.F, b []byte) []byte {
	f.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		f.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		f.Fatal(err)
	}
	return plain
}

// A short text of an archive must not take the memory of the machine when it is decoded.
func TestShortTextsTakeLittleMemory(t *testing.T) {
	many := strings.Repeat(",{}", 1<<19)
	manifest := tar.Header{Name: manifestName, Uname: fmt.Sprintf(`{"format": %d, "errors": [{}%s]}`, Format, many)}
	for name, read := range map[string]func() error{
		"gpus.json": func() error {
			_, err := parseGPUs([]byte(`{"format":1,"driver":{"GPUs":[{}` + many + `]}}`))
			return err
		},
		"manifest": func() error {
			_, err := Unpack(bytes.NewReader(pack(t, manifest)), t.TempDir())
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := read()
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 64 || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %d MiB for %d, and %v", name, took, len(many)>>20, err)
		}
	}
}
