// SPDX-License-Identifier: Apache-2.0

// Package capture makes an archive of what the exporter reads of a node, with every identifier replaced, and unpacks
// such an archive, so that a problem on one machine can be examined on another. The archive is a tar.gz with sys/,
// proc/ and root/ laid out as on the node, netlink/ with requests to the kernel and the GPU driver and their
// answers, and MANIFEST.json.
//
// An archive has what the readers in package host read: they run once with a recorder (tree.go), so that
// captures contain new facts without further code. The reader of a file in procfs or the root file system
// defines what of it may leave the node (Redactions of packages proc and ncclconf); the manifest names a file
// without a rule, which stays on the node. What a file of sysfs may show about a person or site is decided in
// rewrite.go: of a file of no known kind only numbers and common words are kept,
// and the manifest names it. The one exception are the names of the host (names of read.go): they are read so that they
// can be replaced everywhere, and are in no archive.
//
// Taking it is as harmless as a scrape: nothing is written to the node, each counter is read once from sysfs and once
// over netlink, and excluded and restricted devices are left alone. All of it is held in memory, which the limits below
// allow.
//
// Concurrency: Take and Unpack may be called by any number of goroutines. Each device is read in a goroutine of its
// own, one after the other. One that hangs is abandoned after a time limit: what it has read until then is kept,
// what it reads later is dropped.
//
// Errors: what cannot be read is noted in the manifest and left out. Take fails only when a root cannot be opened or
// its context ends. An archive that Unpack refuses wraps ErrInvalid and says why.
package capture

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/dcbnl"
	"gpufabric_exporter/internal/host/ethtool"
	"gpufabric_exporter/internal/host/proc"
	"gpufabric_exporter/internal/host/rdmanl"
	"gpufabric_exporter/internal/host/sysfs"
	"gpufabric_exporter/internal/nccl/settings"
)

// Limits of an archive, when it is made and when it is unpacked.
const (
	maxFiles  = 50_000 // directories and links count; a node with 128 virtual functions has 21,000
	maxBytes  = 64 << 20
	timeLimit = 10 * time.Second // for one device
)

// Format is the version of the layout of an archive.
const Format = 3

// The parts of an archive.
const (
	sysPart      = "sys"
	procPart     = "proc"
	rootPart     = "root"
	netlinkPart  = NetlinkFolder
	manifestName = "MANIFEST.json"
	rdmaName     = netlinkPart + "/" + rdmanl.File
	dcbName      = netlinkPart + "/" + dcbnl.File
	ethtoolName  = netlinkPart + "/" + ethtool.File
	gpusName     = netlinkPart + "/" + GPUsFile
)

// NetlinkFolder holds what the kernel and the GPU driver answered to other questions than for files, in an archive that
// has it.
const NetlinkFolder = "netlink"

// Options says what to capture.
type Options struct {
	Sysfs, Procfs, Rootfs string // mount points
	Devices               fabric.Filter
	Policy                *fabric.Policy // nil: no device is restricted
	Version               string         // of the program
	Names                 []string       // more names of users and hosts, that are replaced wherever they stand
	// GPUs asks the GPU driver once, and releases it; nil: it is not asked.
	GPUs func(now time.Time) (fabric.GPUDriver, error)

	limit time.Duration           // for tests; 0: timeLimit
	begin func(path string) error // for tests: called before a file is read; its error is the answer
	dial  dialer                  // for tests; nil: this kernel, if Sysfs is its
}

// Capture is what was read of a node, its identifiers replaced.
type Capture struct {
	Manifest Manifest
	entries  map[string]entry // by path in the archive
}

// Manifest says what is in an archive and what is not.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program that made it
	Time    time.Time `json:"time"`
	Note    string    `json:"note"`
	Files   int       `json:"files"`
	Bytes   int       `json:"bytes"`
	Devices []string  `json:"devices"`
	LeftOut []Problem `json:"left_out"`
	Errors  []Problem `json:"errors"` // files that could not be read
}

// Problem is something that is not in an archive, or not all of it.
type Problem struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Note is the sentence about identifiers that goes with every archive.
const Note = "GUIDs, GIDs, MAC and IP addresses, UUIDs of GPUs, names of hosts and users, and unusual names of interfaces and devices were replaced; look at MANIFEST.json and at the files before you publish them."

// session is one capture under way.
type session struct {
	o    Options
	all  *collection
	sys  *sysfs.FS
	root map[string]*os.Root // by part
}

// Take captures a node.
func Take(ctx context.Context, o Options) (*Capture, error) {
	o.Policy = cmp.Or(o.Policy, new(fabric.Policy))
	o.limit = cmp.Or(o.limit, timeLimit)
	s := &session{o: o, all: newCollection(), root: map[string]*os.Root{}}
	var err error
	if s.sys, err = sysfs.Open(o.Sysfs); err != nil {
		return nil, err
	}
	defer s.sys.Close()
	if s.o.dial == nil && s.sys.IsKernel() {
		s.o.dial = dialKernel
	}
	for part, dir := range map[string]string{sysPart: o.Sysfs, procPart: o.Procfs, rootPart: o.Rootfs} {
		if s.root[part], err = os.OpenRoot(dir); err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		defer s.root[part].Close()
	}
	devices, err := s.everything(ctx)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	return s.finish(devices)
}

// everything reads the whole node and returns the devices that were read.
func (s *session) everything(ctx context.Context) ([]string, error) {
	type part struct {
		name string
		read func(*unit) error
	}
	for _, p := range []part{ // first what is small: a node with too many devices for an archive lacks other files
		{"GPU driver's procfs", s.procfs(gpuModule)},
		{"procfs", s.procfs(host)},
		{"daemons", s.daemons},
		{"nccl.conf", s.nccl},
		{"names of the host", s.names},
		{"default routes", s.procfs(routes)},
	} {
		if _, err := s.run(ctx, p.name, p.read); err != nil {
			return nil, err
		}
	}
	devices, err := s.devices(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range []part{
		{"netlink", func(u *unit) error { return s.netlink(u, devices) }}, // which may name other interfaces
		{"network interfaces", s.netDevs},
		{"PCI functions", func(u *unit) error { return s.functions(u, devices) }},
		{"node", func(u *unit) error {
			return s.recorded(u, func(sys *sysfs.FS) error { sys.ReadOnce(time.Now()); return nil })
		}},
		{"congestion control", func(u *unit) error { return s.congestion(u, s.all.physicalInterfaces()) }},
		{"drivers of network interfaces", func(u *unit) error { return s.drivers(u, s.all.physicalInterfaces(), s.all.found()) }},
	} {
		if _, err := s.run(ctx, p.name, p.read); err != nil {
			return nil, err
		}
	}
	_, err = s.runFor(ctx, gpuPatience*s.o.limit, "GPU driver", s.gpus)
	return devices, err
}

// devices reads every RDMA device that may be read.
func (s *session) devices(ctx context.Context) ([]string, error) {
	names, err := s.sys.Devices()
	if err != nil {
		s.all.leaveOut(rdmaClass, reason(err))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		s.all.put(sysPart+"/"+rdmaClass, entry{kind: directory}) // present, if empty
	}
	captured := []string{}
	for _, name := range names {
		s.all.seeDevice(name)
		switch {
		case !s.o.Devices.Allows(name):
			s.all.leaveAlone(name)
			s.all.leaveOut(name, "excluded by flags")
			continue
		case s.o.Policy.IsRestricted(name):
			s.all.leaveAlone(name)
			s.all.leaveOut(name, "restricted by the configuration")
			continue
		}
		ok, err := s.run(ctx, name, func(u *unit) error { return s.device(u, name) })
		if err != nil {
			return nil, err
		}
		if ok {
			captured = append(captured, name)
		}
	}
	_, err = s.run(ctx, "devices of other network namespaces", func(u *unit) error { return s.moved(u, names) })
	return captured, err
}

func (s *session) tree(u *unit, part string) *tree {
	t := &tree{unit: u, root: s.root[part], part: part, before: s.o.begin, real: map[string]string{}}
	switch part {
	case procPart:
		t.rules = proc.Redactions()
	case rootPart:
		t.rules = settings.Redactions()
	}
	return t
}

// finish replaces the identifiers and writes the manifest.
func (s *session) finish(devices []string) (*Capture, error) {
	entries, leftOut, failed := s.all.take()
	a := &anonymiser{}
	names, hosts := s.all.names()
	hosts = slices.Concat(hosts, s.o.Names, homes(entries))
	const attempts = 100
	for i := 1; ; i++ {
		if _, err := rand.Read(a.key[:]); err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		if a.learn(names, hosts, i == attempts) {
			break
		}
	}
	c := &Capture{entries: map[string]entry{}, Manifest: Manifest{
		Format: Format, Version: s.o.Version, Time: time.Now().UTC().Truncate(time.Second), Note: Note, Devices: []string{},
	}}
	for name, e := range entries {
		to := a.path(name)
		if e.kind == regular && !isKnown(name, e.text) {
			text, why := a.guarded(e.text)
			if why != "" {
				leftOut = append(leftOut, Problem{to, why})
			}
			e.text = text
		} else {
			was := e.text
			if e.text = a.rewrite(name, e); e.keep != nil && e.text == "" && was != "" && !e.empty {
				continue // nothing of it may leave the node
			}
		}
		if !isSafe(to) || e.kind == link && !utf8.ValidString(e.text) {
			leftOut = append(leftOut, Problem{to, "its name is not one for an archive"})
			continue
		}
		c.entries[to] = e
		if e.kind == regular {
			c.Manifest.Files++
			c.Manifest.Bytes += len(e.text)
		}
	}
	for _, name := range devices {
		c.Manifest.Devices = append(c.Manifest.Devices, a.device(name))
	}
	c.Manifest.LeftOut, c.Manifest.Errors = a.problems(leftOut), a.problems(failed)
	return c, nil
}

func (a *anonymiser) problems(list []Problem) []Problem {
	for i := range list {
		list[i].Path, list[i].Reason = a.message(list[i].Path), a.message(list[i].Reason)
	}
	slices.SortFunc(list, func(x, y Problem) int {
		return cmp.Or(cmp.Compare(x.Path, y.Path),
			cmp.Compare(x.Reason, y.Reason))
	})
	return slices.Compact(list) // two readers may have failed at one file
}
