// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// ErrInvalid is what is wrong with an archive that was not made by this program, or not in one piece.
var ErrInvalid = errors.New("not a usable capture")

const (
	maxEntries = 2 * maxFiles               // with the manifest and directories
	maxTar     = maxBytes + maxEntries*2048 // what the archive unpacks to, headers included
	maxPath    = 1024
)

// Unpack unpacks an archive into a directory, which must exist and be empty, and returns its manifest. Whatever the
// archive says, nothing is written elsewhere, no link or chain of links leads out of its part, and there are
// no more files and bytes than a capture may have. What was written before an error stays.
func Unpack(r io.Reader, dir string) (Manifest, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Manifest{}, fmt.Errorf("unpack: %w", err)
	}
	defer root.Close()
	u := &unpacker{root: root}
	if err := u.unpack(r); err != nil {
		return Manifest{}, fmt.Errorf("unpack: %w", err)
	}
	return u.manifest, nil
}

type unpacker struct {
	root     *os.Root
	entries  int
	bytes    int64
	links    []tar.Header
	found    bool // the manifest
	manifest Manifest
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

func (u *unpacker) unpack(r io.Reader) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return invalid("expected a tar.gz: %w", err)
	}
	plain := &io.LimitedReader{R: z, N: maxTar}
	err = u.readAll(tar.NewReader(plain))
	if err == nil {
		// The checksum at the end shows whether the archive is complete.
		if _, e := io.Copy(io.Discard, plain); e != nil {
			err = invalid("%w", e)
		}
	}
	switch {
	case plain.N <= 0:
		return invalid("it unpacks to more than %d bytes", int64(maxTar))
	case err != nil:
		return err
	case !u.found:
		return invalid("it has no %s", manifestName)
	}
	for _, part := range []string{sysPart, procPart, rootPart, netlinkPart} {
		if err := u.root.MkdirAll(part, 0o755); err != nil {
			return err
		}
	}
	return u.makeLinks()
}

func (u *unpacker) readAll(t *tar.Reader) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return invalid("%w", err)
		}
		if u.entries++; u.entries > maxEntries {
			return invalid("more than %d files", maxEntries)
		}
		if err := u.read(h, t); err != nil {
			return err
		}
	}
}

// read unpacks one entry. Links are made when all else is in place, so that nothing is written through one.
func (u *unpacker) read(h *tar.Header, r io.Reader) error {
	name := path.Clean(h.Name)
	if !isSafe(name) || strings.TrimSuffix(h.Name, "/") != name {
		return invalid("path %.200q", h.Name)
	}
	part, _, below := strings.Cut(name, "/")
	switch {
	case h.Typeflag == tar.TypeReg && name == manifestName:
		return u.readManifest(h, r)
	case part != sysPart && part != procPart && part != rootPart && part != netlinkPart:
		return invalid("%.200q belongs to no part of a capture", name)
	case h.Typeflag == tar.TypeDir:
		return u.refusal(name, u.root.MkdirAll(name, 0o755))
	case !below:
		return invalid("%.200q: expected a directory", name)
	case h.Typeflag == tar.TypeReg:
		return u.writeFile(name, h.Size, r)
	case h.Typeflag == tar.TypeSymlink && part == netlinkPart:
		return invalid("%.200q is a link: expected recordings in %s", name, part)
	case h.Typeflag == tar.TypeSymlink:
		target := path.Join(path.Dir(name), h.Linkname)
		if !utf8.ValidString(h.Linkname) || len(h.Linkname) > maxPath || h.Linkname == "" || path.IsAbs(h.Linkname) ||
			target != part && !strings.HasPrefix(target, part+"/") {
			return invalid("link %.200q leads to %.200q: expected a place in %s", name, h.Linkname, part)
		}
		u.links = append(u.links, tar.Header{Name: name, Linkname: h.Linkname})
		return nil
	}
	return invalid("%.200q is neither file, directory nor symbolic link", name)
}

// isSafe accepts clean relative paths of printable characters.
func isSafe(name string) bool {
	return filepath.IsLocal(name) && len(name) <= maxPath && fabric.IsText(name) && !strings.Contains(name, `\`)
}

func (u *unpacker) writeFile(name string, size int64, r io.Reader) error {
	if u.bytes += size; size < 0 || u.bytes > maxBytes {
		return invalid("more than %d bytes", maxBytes)
	}
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return u.refusal(name, err)
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return u.refusal(name, err)
	}
	if _, err := io.Copy(f, r); err != nil {
		f.Close()
		return u.refusal(name, err)
	}
	return f.Close()
}

func (u *unpacker) readManifest(h *tar.Header, r io.Reader) error {
	if u.found {
		return invalid("%s is there twice", manifestName)
	}
	if h.Size > maxBytes/4 {
		return invalid("%s has %d bytes", manifestName, h.Size)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return invalid("%s: %w", manifestName, err)
	}
	if netlink.Elements(text) > maxEntries {
		return invalid("%s lists more than %d things", manifestName, maxEntries)
	}
	if err := json.Unmarshal(text, &u.manifest); err != nil {
		return invalid("%s: %w", manifestName, err)
	}
	if u.manifest.Format != Format {
		return invalid("format %d, expected %d: it was made by another version of this program", u.manifest.Format, Format)
	}
	u.found = true
	return nil
}

func (u *unpacker) makeLinks() error {
	isLink := map[string]bool{}
	for _, l := range u.links {
		isLink[l.Name] = true
	}
	for _, l := range u.links {
		for dir := path.Dir(l.Name); dir != "."; dir = path.Dir(dir) {
			if isLink[dir] {
				return invalid("%.200q is below a link", l.Name)
			}
		}
		if err := u.root.MkdirAll(path.Dir(l.Name), 0o755); err != nil {
			return u.refusal(l.Name, err)
		}
		if err := u.root.Symlink(l.Linkname, l.Name); err != nil {
			return u.refusal(l.Name, err)
		}
	}
	for _, part := range []string{sysPart, procPart, rootPart} {
		if err := u.follow(part); err != nil {
			return err
		}
	}
	return nil
}

// follow refuses links that lead out of their part by way of other links: each for itself names a place in it.
func (u *unpacker) follow(part string) error {
	root, err := u.root.OpenRoot(part)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, l := range u.links {
		name, ok := strings.CutPrefix(l.Name, part+"/")
		if !ok {
			continue
		}
		_, err := root.Stat(name)
		// What a link names need not be in the archive. Only a way out has no error number.
		if _, no := errors.AsType[syscall.Errno](err); err != nil && !no {
			return invalid("link %.200q leads out of %s", l.Name, part)
		}
	}
	return nil
}

// refusal distinguishes a fault of the archive (two entries contradict each other, or it cannot be read
// further) from one of the disk.
func (u *unpacker) refusal(name string, err error) error {
	_, disk := errors.AsType[*fs.PathError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return invalid("%.200q contradicts another entry", name)
	case !disk && !isLinkError(err):
		return invalid("%.200q: %w", name, err)
	}
	return err
}

func isLinkError(err error) bool {
	_, ok := errors.AsType[*os.LinkError](err)
	return ok
}
