// SPDX-License-Identifier: Apache-2.0

// Package settings reads the NCCL configuration that a process started on this host would get, and finds
// what NCCL will ignore or misread in it.
//
// NCCL takes a variable from the process environment, else from the file that NCCL_CONF_FILE names there or,
// if it names none, ~/.nccl.conf, else from /etc/nccl.conf (initEnvFunc, src/misc/param.cc). The environment
// of jobs is not known here: a file of the site stands for it. What an NCCL_ENV_PLUGIN would answer is not
// known either. Syntax and numbers are those of NCCL 2.30.7; differences of older releases are reported where
// they matter.
//
// Files are looked up below the root file system given to New and never outside of it. Only variables that
// begin with NCCL_ leave the package, and no line that is not a setting of one is ever quoted: an environment
// file may hold secrets. Values and names are untrusted bytes; the texts of findings are escaped and bounded.
//
// After Record, a Reader is immutable and may be used by any number of goroutines. What could not be read of
// one file is in fabric.NCCLConfig.Files; an error means that no file could be read although there is one.
package settings

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
)

// Reader reads the configuration. Use New.
type Reader struct {
	root, environmentFile, home string
	recorder                    openat.Recorder // nil outside of a capture
}

// New returns a reader of the host whose root file system is mounted at root. environmentFile, if not empty,
// stands for the process environment of jobs, and home, if not empty, is the directory whose .nccl.conf
// counts; both are paths of the host.
func New(root, environmentFile, home string) *Reader {
	return &Reader{root: root, environmentFile: environmentFile, home: home}
}

// Record reports the files that are read from now on to rec. Call it before the first read. Redactions say
// what of them may leave the node.
func (r *Reader) Record(rec openat.Recorder) { r.recorder = rec }

// Read reads all files. The configuration is usable also when there is an error.
func (r *Reader) Read(now time.Time) (fabric.NCCLConfig, error) {
	if _, err := os.Stat(r.root); err != nil {
		err = fmt.Errorf("%w: %w", errNoRoot, err)
		c, _ := r.assemble(now, func(string) (content, error) { return content{}, err })
		return c, err
	}
	return r.assemble(now, r.open)
}

func (r *Reader) open(name string) (content, error) {
	if r.recorder == nil {
		return readHostFile(r.root, name)
	}
	below := strings.TrimPrefix(path.Clean(name), "/")
	if err := r.recorder.Begin(below); err != nil {
		return content{}, err
	}
	c, err := readHostFile(r.root, name)
	if err == nil && !c.whole {
		r.recorder.Text(below, nil, fmt.Errorf("%s: %w", name, syscall.EFBIG))
		return c, nil
	}
	r.recorder.Text(below, c.data, err)
	return c, err
}

// assemble puts the configuration together from the files that open returns.
func (r *Reader) assemble(now time.Time, open opener) (fabric.NCCLConfig, error) {
	b := builder{now: now, open: open, index: map[string]int{}}
	if r.environmentFile != "" {
		b.environment(path.Join("/", r.environmentFile))
	}
	b.userConf(r.home)
	b.conf(systemFile)
	b.addressRange()
	_, err := b.open(virtualTopology)
	b.config.VirtualTopology = existence(err, strings.TrimPrefix(virtualTopology, "/"), now)

	slices.SortFunc(b.config.Variables, func(a, c fabric.NCCLVariable) int { return strings.Compare(a.Name, c.Name) })
	if b.read > 0 {
		return b.config, nil
	}
	return b.config, errors.Join(b.errs...)
}
