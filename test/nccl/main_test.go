// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// suites of Debian: the first stays, the release of the second moves on.
var suites = []string{"trixie", "sid"}

// A rig is NCCL of one release, linked with the stand-ins.
type rig struct {
	suite   string
	release string // 2.29.7
	folder  string // with the program rank and lib/libnccl.so.2
	missing string // why there is none; else empty
}

var rigs []rig

func TestMain(m *testing.M) {
	if os.Getenv(asJudge) != "" {
		if err := judge(os.Args[1:], os.Getenv("RIG_HCA") != ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return
	}
	for name, do := range map[string]func(string) error{asRank: serveRank, asProber: probe} {
		if text := os.Getenv(name); text != "" {
			if err := do(text); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	flag.Parse()
	if *guest {
		os.Exit(inGuest(m))
	}
	os.Exit(tested(m))
}

func tested(m *testing.M) int {
	folder, err := os.MkdirTemp("", "nccl-rig-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	for _, suite := range suites {
		r, err := build(suite, filepath.Join(folder, suite))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		rigs = append(rigs, r)
	}
	code := m.Run()
	tellRigs()
	return code
}

// tellRigs says which releases the tests ran with, and why not with others.
func tellRigs() {
	for _, r := range rigs {
		if r.missing != "" {
			fmt.Printf("nccl: %s: %s\n", r.suite, r.missing)
		} else {
			fmt.Printf("nccl: %s: NCCL %s\n", r.suite, r.release)
		}
	}
}

// build makes the rig of a suite. A missing one is no error.
func build(suite, folder string) (rig, error) {
	r := rig{suite: suite, folder: folder}
	if r.missing = unable(); r.missing != "" {
		return r, nil
	}
	said, err := script("./fetch.sh", suite)
	dev, version, ok := strings.Cut(said, " ")
	if err == nil && !ok {
		err = fmt.Errorf("fetch.sh says %q", said)
	}
	if err == nil {
		r.release, _, _ = strings.Cut(version, "-")
		said, err = script("./build.sh", dev, folder, r.release)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 77 {
		r.missing, err = said, nil
	}
	return r, err
}

// unable says what this host lacks; empty: nothing.
func unable() string {
	if os.Geteuid() != 0 {
		return "skipped: namespaces need root here"
	}
	for _, p := range []string{"gcc", "g++", "readelf", "ip", "unshare", "nsenter"} {
		if _, err := exec.LookPath(p); err != nil {
			return "skipped: no " + p + " in PATH"
		}
	}
	return ""
}

// script returns the only line that a script prints.
func script(path string, args ...string) (string, error) {
	cmd := exec.Command(path, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	said := strings.TrimSpace(string(out))
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", path, err, said)
	}
	return said, err
}

// whole skips what only takes long where -short asks for that.
func whole(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short leaves out what only takes long (make nccl-test runs it)")
	}
}

// each runs a test with every release, beside each other unless they write a file or share a guest.
func each(t *testing.T, test func(*testing.T, rig)) {
	for _, r := range rigs {
		t.Run(r.suite, func(t *testing.T) {
			if r.missing != "" {
				t.Skip(r.missing)
			}
			if !*update && !*guest {
				t.Parallel()
			}
			test(t, r)
		})
	}
}
