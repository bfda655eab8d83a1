// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/library"
	"gpufabric_exporter/internal/ownership"
)

// Errand is what a rank will load, and its settings.
type Errand struct {
	NCCL, CUDA string   // paths, or names for the loader
	Env        []string // its whole environment, NAME=value
	UIDs       []int    // that its process may have
}

const (
	systemConf = "/etc/nccl.conf" // NCCL reads it whatever the environment says
	userConf   = ".nccl.conf"     // before 2.23 also with NCCL_CONF_FILE
	pluginEnd  = "_PLUGIN"

	verbsVariable = "NCCL_IBVERBS_LIB" // src/misc/ibvsymbols.cc
	defaultVerbs  = "libibverbs.so.1"

	maxPasswd   = 1 << 20 // bytes of /etc/passwd
	searchPath  = "LD_LIBRARY_PATH"
	ownLog      = "NCCL_DEBUG_FILE" // a pipe of the exporter
	maxElements = 64                // parts of a value that are looked at
	maxEntries  = 4096              // of a folder that libraries are loaded from
)

// plugins are those that NCCL looks for by a name of its own where no variable names one, up to 2.30.7
// (src/plugin/plugin_open.cc).
var plugins = []string{"net", "gin", "tuner", "profiler", "env", "rma"}

// Vet returns why no process may be started for an errand: users other than root and that of this process could have
// put there what it would load or read (package ownership). It looks at NCCL's own files, at the libraries, at plugins
// as NCCL and the loader look for them, and at whatever in the environment is a path. What does not exist is
// accepted where no other user can create it.
//
// public reports whether every user may read all of it. root is where the file system begins, "/" but for tests.
func Vet(root string, e Errand) (public bool, err error) {
	v := &vetting{root: root, public: true}
	v.file(systemConf, "NCCL reads it in every process")
	for _, uid := range e.UIDs {
		if home := homeOf(root, uid); home != "" {
			v.file(path.Join(home, userConf), "NCCL before 2.23 reads it in every process of the user")
		}
	}
	env := map[string]string{}
	for _, variable := range e.Env {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	v.libraryPath = env[searchPath]
	v.folders()
	for _, library := range []string{e.NCCL, e.CUDA} {
		v.library(library, "library")
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch value := env[name]; {
		case name == searchPath || name == ownLog:
		case strings.HasSuffix(name, pluginEnd):
			v.plugins(name, value)
		default:
			v.paths(name, value)
		}
	}
	if env[verbsVariable] == "" {
		v.library(defaultVerbs, "NCCL loads it where "+verbsVariable+" does not say otherwise")
	}
	for _, kind := range plugins {
		if variable := "NCCL_" + strings.ToUpper(kind) + pluginEnd; env[variable] == "" {
			v.library("libnccl-"+kind+".so", "NCCL loads it where "+variable+" does not say otherwise")
		}
	}
	for _, dir := range library.Folders(v.libraryPath) { // in the end: what is said above names the variable
		v.folder(dir, searchPath)
	}
	return v.public, v.err
}

// vetting keeps the first thing that is not to be trusted.
type vetting struct {
	root, libraryPath string
	public            bool
	err               error
}

func (v *vetting) refuse(why string, err error) {
	if v.err == nil {
		v.err = fmt.Errorf("%w (%s)", err, why)
	}
}

// file judges a path.
func (v *vetting) file(name, why string) {
	found, err := ownership.Check(v.root, name)
	switch {
	case err == nil:
		v.public = v.public && found.Public
	case found.Others == nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)): // there is none
	default:
		v.refuse(why, err)
	}
}

// folder judges a directory and, because libraries of any name may be loaded from it, those in it. Anything
// but a directory is judged as a file.
func (v *vetting) folder(name, why string) {
	v.file(name, why)
	if v.err != nil {
		return
	}
	fd, err := unix.Open(path.Join(v.root, name), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // no directory, or one that the loader cannot read either
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	entries, _ := dir.Readdirnames(maxEntries + 1)
	if len(entries) > maxEntries {
		v.refuse(why, fmt.Errorf("%s: more than %d entries: %w", name, maxEntries, fs.ErrInvalid))
		return
	}
	for _, entry := range entries {
		if strings.Contains(entry, ".so") {
			v.file(path.Join(name, entry), why)
		}
	}
}

// folders judges those that the loader searches first. An empty one is the current directory, which is "/", and dollar
// signs are expanded by the loader.
func (v *vetting) folders() {
	for _, dir := range library.Folders(v.libraryPath) {
		if !path.IsAbs(dir) || strings.Contains(dir, "$") {
			v.refuse(searchPath, fmt.Errorf("%q: expected an absolute path without $", dir))
			continue
		}
		v.file(dir, searchPath)
	}
}

// library judges what dlopen would load.
func (v *vetting) library(name, why string) {
	switch {
	case name == "":
	case strings.Contains(name, "$"):
		v.refuse(why, fmt.Errorf("%q: expected no $, which the loader expands", name))
	case strings.Contains(name, "/"):
		v.file(name, why) // relative to "/", where ranks run
	default:
		for _, file := range library.Locate(v.root, name, v.libraryPath) {
			v.file(file, why)
		}
	}
}

// plugins judges the value of a variable that names plugins: a comma-separated list of paths, of names of files and of
// what comes behind "libnccl-net-" in one.
func (v *vetting) plugins(variable, value string) {
	kind := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(variable, "NCCL_"), pluginEnd))
	for name := range strings.SplitSeq(value, ",") {
		if name == "" || strings.EqualFold(name, "none") {
			continue
		}
		v.library(name, variable)
		if !strings.Contains(name, "/") {
			v.library("libnccl-"+kind+"-"+name+".so", variable)
		}
	}
}

// paths judges what in a value could be one: any part with a slash that is no network, and names for the loader.
func (v *vetting) paths(variable, value string) {
	if strings.HasSuffix(variable, "_LIB") {
		v.library(value, variable)
		return
	}
	relative := strings.HasSuffix(variable, "_DIR") || strings.HasSuffix(variable, "_PATH") // to "/"
	if _, err := netip.ParsePrefix(value); err == nil || !strings.Contains(value, "/") && !relative {
		return
	}
	v.folder(value, variable) // as it is, whatever separators are in it
	parts := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(",:;=@ \t", r) })
	if len(parts) > maxElements {
		v.refuse(variable, fmt.Errorf("%d parts, expected at most %d: %w", len(parts), maxElements, fs.ErrInvalid))
		return
	}
	for _, part := range parts {
		if _, err := netip.ParsePrefix(part); err != nil && (strings.Contains(part, "/") || relative) {
			v.folder(part, variable)
		}
	}
}

// homeOf returns the home directory of a user by /etc/passwd; empty: it has none there. Users of other
// databases have no privileges that a file in their home could abuse.
func homeOf(root string, uid int) string {
	found, err := ownership.Open(root, "/etc/passwd")
	if err != nil {
		return ""
	}
	defer found.File.Close()
	text, err := io.ReadAll(io.LimitReader(found.File, maxPasswd))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(f) == 7 && f[2] == strconv.Itoa(uid) {
			return f[5]
		}
	}
	return ""
}

// MissingDevice says that CUDA would have a device made before it could open it, which a rank can and shall
// not do; nil where there is none to make. root is where the file system begins, "/" but for tests.
func MissingDevice(root string) error {
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	if !exists("dev/nvidiactl") || exists("dev/nvidia-uvm") {
		return nil
	}
	return errors.New("/dev/nvidia-uvm does not exist, and a probe makes no devices: nvidia-modprobe -u -c 0")
}
