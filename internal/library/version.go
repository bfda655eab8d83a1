// SPDX-License-Identifier: Apache-2.0

package library

import (
	"bytes"
	"encoding/binary"
	"io"
	"regexp"

	"gpufabric_exporter/internal/ownership"
)

// NCCL is the name by which programs load NCCL, and NCCLPackaged where NVIDIA's Python packages have it.
const (
	NCCL         = "libnccl.so.2"
	NCCLPackaged = "nvidia/nccl/lib/" + NCCL
)

// Found is a library that was found.
type Found struct {
	Path    string // below the root, as it was looked for
	Version string // such as 2.27.3; empty: neither the name of the file nor its content shows it
}

// Find returns the first of some paths below root that is a regular file which may be read. Its version is
// that of the file name behind all links (libibverbs.so.1.14.39.0).
func Find(root string, paths ...string) (Found, bool) { return find(root, paths, nil) }

func find(root string, paths []string, content func(r io.ReaderAt, size int64) string) (Found, bool) {
	for _, p := range paths {
		opened, err := ownership.Open(root, p)
		if err != nil {
			continue
		}
		defer opened.File.Close()
		found := Found{p, nameVersion(opened.File.Name())}
		if info, err := opened.File.Stat(); err == nil && found.Version == "" && content != nil {
			found.Version = content(opened.File, info.Size())
		}
		return found, true
	}
	return Found{}, false
}

// FindNCCL returns the NCCL library that a program with this LD_LIBRARY_PATH gets from the loader, else that
// of a Python package.
func FindNCCL(root, libraryPath string) (Found, bool) {
	if found, ok := NCCLAt(root, Locate(root, NCCL, libraryPath)...); ok {
		return found, true
	}
	paths, _ := Packaged(root, NCCLPackaged)
	return NCCLAt(root, paths...)
}

// NCCLAt is Find for NCCL, whose version is also in the file.
func NCCLAt(root string, paths ...string) (Found, bool) { return find(root, paths, ncclVersion) }

// versioned is the end of a file name with a version of at least two numbers.
var versioned = regexp.MustCompile(`\.so\.([0-9]{1,5}(?:\.[0-9]{1,5}){1,3})$`)

func nameVersion(file string) string {
	if m := versioned.FindStringSubmatch(file); m != nil {
		return m[1]
	}
	return ""
}

// Limits of what is read of an ELF file. Constants of NCCL 2.22 to 2.30 are below 4 MiB.
const (
	maxSections = 1024
	maxNames    = 1 << 20
	maxScanned  = 32 << 20
	chunk       = 1 << 20
)

// ncclVersion finds the version in a library, which has it as the text "NCCL version 2.27.3+cuda12.9" among
// its constants (VERSION_STRING of init.cc); empty: it is no ELF file of 64 bits and this byte order, or has
// no such text.
func ncclVersion(r io.ReaderAt, size int64) string {
	at, n := constants(r, size)
	const text = "NCCL version "
	const overlap = len(text) + 24
	buf := make([]byte, chunk+overlap)
	for n = min(n, maxScanned); n > 0; at, n = at+chunk, n-chunk {
		part := buf[:min(n, int64(len(buf)))]
		if got, err := r.ReadAt(part, at); got < len(part) && err != nil {
			part = part[:got]
		}
		for {
			i := bytes.Index(part, []byte(text))
			if i < 0 {
				break
			}
			part = part[i+len(text):]
			if m := release.FindSubmatch(part[:min(len(part), 24)]); m != nil {
				return string(m[1])
			}
		}
	}
	return ""
}

// release is the version at the beginning of a text, with what ends it.
var release = regexp.MustCompile(`^(2\.[0-9]{1,3}\.[0-9]{1,3})[^0-9.]`)

// constants returns where the section .rodata of an ELF file is; n is 0 without one.
func constants(r io.ReaderAt, size int64) (at, n int64) {
	const headerSize, entrySize = 64, 64
	var h [headerSize]byte
	if _, err := r.ReadAt(h[:], 0); err != nil || string(h[:6]) != "\x7fELF\x02\x01" {
		return 0, 0
	}
	le := binary.LittleEndian
	table, entry, count, namesAt := le.Uint64(h[0x28:]), le.Uint16(h[0x3a:]), int(le.Uint16(h[0x3c:])),
		int(le.Uint16(h[0x3e:]))
	if entry != entrySize || count == 0 || count > maxSections || namesAt >= count || table > uint64(size) {
		return 0, 0
	}
	sections := make([]byte, count*entrySize)
	if _, err := r.ReadAt(sections, int64(table)); err != nil {
		return 0, 0
	}
	// span is where a section is, if all of it is in the file.
	span := func(i int) (at, n int64, ok bool) {
		s := sections[i*entrySize:]
		from, length := le.Uint64(s[0x18:]), le.Uint64(s[0x20:])
		if from > uint64(size) || length > uint64(size)-from {
			return 0, 0, false
		}
		return int64(from), int64(length), true
	}
	from, length, ok := span(namesAt)
	if !ok || length > maxNames {
		return 0, 0
	}
	texts := make([]byte, length)
	if _, err := r.ReadAt(texts, from); err != nil {
		return 0, 0
	}
	for i := range count {
		name := le.Uint32(sections[i*entrySize:])
		if int64(name) < length && bytes.HasPrefix(texts[name:], []byte(".rodata\x00")) {
			if at, n, ok = span(i); ok {
				return at, n
			}
		}
	}
	return 0, 0
}
