// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"bytes"
	"debug/elf"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/settings"
)

// unbuilt are variables that the source of a release reads, but only where it is built with another option.
var unbuilt = []string{"NCCL_PROXY_PROFILE"} // PROFILE_PROXY

// TestNames compares the names in the library with those that the table of variables says that this release reads.
func TestNames(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		data := constants(t, r)
		for _, v := range settings.Variables() {
			ours := v.Status == settings.StatusCurrent || v.Status == settings.StatusRemoved
			switch has := bytes.Contains(data, []byte(v.Name+"\x00")); {
			case ours && reads(t, r, v) && !has && !slices.Contains(unbuilt, v.Name):
				t.Errorf("%s (%s to %q) is not in NCCL %s", v.Name, v.Since, v.Removed, r.release)
			case ours && !reads(t, r, v) && has:
				t.Errorf("%s (%s to %q) is in NCCL %s", v.Name, v.Since, v.Removed, r.release)
			}
		}
		for _, name := range names(data) {
			if _, ok := settings.Describe(name); !ok {
				t.Errorf("%s is in NCCL %s and not in the table", name, r.release)
			}
		}
	})
}

// reads reports whether a release reads a variable, according to the table.
func reads(t *testing.T, r rig, v settings.Variable) bool {
	t.Helper()
	release, err := fabric.ParseNCCLVersion(r.release)
	if err != nil {
		t.Fatal(err)
	}
	since, orEarlier := strings.CutPrefix(v.Since, "<=")
	before, late := strings.CutPrefix(v.Since, ">")
	if late && !release.After(before) {
		return false
	}
	if v.Status != settings.StatusCurrent && v.Status != settings.StatusRemoved || !release.AtLeast(since) && !orEarlier && !late {
		return false
	}
	return v.Removed == "" || v.Removed[0] != '<' && !release.After(v.Removed)
}

// constants returns the constants and code of the library: compilers put short names into either.
func constants(t *testing.T, r rig) []byte {
	t.Helper()
	file, err := elf.Open(r.folder + "/lib/libnccl.so.2")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []byte
	for _, name := range []string{".rodata", ".text"} {
		data, err := file.Section(name).Data()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// names returns the strings that look like the name of a variable.
func names(data []byte) []string {
	var found []string
	for s := range bytes.SplitSeq(data, []byte{0}) {
		if name.Match(s) {
			found = append(found, string(s))
		}
	}
	return found
}

var name = regexp.MustCompile(`^NCCL_[A-Z0-9_]+$`)
