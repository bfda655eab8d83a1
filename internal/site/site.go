// SPDX-License-Identifier: Apache-2.0

// Package site is the node that flags describe: where its files are, how its GPUs are read, and what is expected of it.
//
// A Site belongs to the goroutine that parses the flags until they are parsed, and only reads from then on.
// Errors of reading the configuration are of type *config.Error.
package site

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"gpufabric_exporter/internal/capture"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/inventory"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/spelling"
)

// Site is a node, by the groups of flags that describe it.
type Site struct {
	Paths    Paths
	Recorded Recorded
	Devices  Devices
	Config   Config
	GPUs     GPUs

	// Worker returns the process that asks NVIDIA's driver, without starting it; nil: the driver is not asked.
	Worker func(GPUOptions) GPUWorker
	// RAS asks the RAS subsystem of NCCL at the other end of a connection; nil: it is not asked.
	RAS func(ctx context.Context, conn net.Conn, version fabric.NCCLVersion) (fabric.RASAnswer, error)
	// NewObserver is observer.New, but in tests.
	NewObserver func(observer.Options) (Observer, error)
	// Inventory is the file that keeps what hardware the node had; empty: the default where this is this host, else none.
	Inventory string
	// LibraryPath is LD_LIBRARY_PATH of programs whose NCCL library is looked for; empty: none.
	LibraryPath string
	// Home is the folder whose .nccl.conf counts if the configuration names none; empty: none.
	Home string
}

// Observer is what is needed of an observer.Observer.
type Observer interface {
	Observe(ctx context.Context, want fabric.Want) *fabric.Node
	SetPolicy(p *fabric.Policy, files observer.NCCLFiles)
	Close()
}

var _ Observer = (*observer.Observer)(nil)

// Paths are where the file systems of the node are mounted.
type Paths struct{ Sysfs, Procfs, Rootfs string }

// Define adds the flags.
func (p *Paths) Define(f *command.Flags) {
	f.Add("path.sysfs", "Mount point of sysfs.", command.Input(&p.Sysfs)).Default("/sys")
	f.Add("path.procfs", "Mount point of procfs.", command.Input(&p.Procfs)).Default("/proc")
	f.Add("path.rootfs", "Mount point of the host's root file system.", command.Input(&p.Rootfs)).Default("/")
}

// Recorded is what the kernel of the node answered when it was captured.
type Recorded struct{ Netlink string } // folder; empty: this kernel is asked

// Define adds the flag.
func (r *Recorded) Define(f *command.Flags) {
	f.Add("path.netlink", "Directory of recorded kernel answers that match --path.sysfs: netlink of a capture.",
		command.Input(&r.Netlink)).
		PlaceHolder("DIR")
}

// Devices are the RDMA devices that may be touched.
type Devices struct{ fabric.Filter }

// Define adds the flags.
func (d *Devices) Define(f *command.Flags) {
	f.Add("collector.device-include", "Read only RDMA devices whose full name matches this regular expression.",
		command.Into(&d.Include, config.ParsePattern)).PlaceHolder("REGEXP")
	f.Add("collector.device-exclude", "Do not read RDMA devices whose full name matches this regular expression.",
		command.Into(&d.Exclude, config.ParsePattern)).PlaceHolder("REGEXP")
	f.Check(func() error {
		if d.Include != nil && d.Exclude != nil {
			return errors.New("--collector.device-include and --collector.device-exclude: expected at most one of them")
		}
		return nil
	})
}

// Config is the file that says what is expected of the node.
type Config struct {
	config.File
	Default string // empty: that of the program
}

// Define adds the flag.
func (c *Config) Define(f *command.Flags) {
	const flag = "config.file"
	f.Add(flag,
		"Configuration file (YAML) with what the site expects of its nodes. Reloaded on SIGHUP and POST /-/reload. The default file may be missing; "+config.NoFile+": read no file.",
		command.Input(&c.Path)).Default(cmp.Or(c.Default, config.DefaultFile))
	f.Check(func() error {
		c.Optional = !f.Given(flag)
		if c.Path == config.NoFile {
			c.Path = ""
		}
		return nil
	})
}

// Scenario is the value of a flag that names a simulated node.
func Scenario(to **simulator.Scenario) command.Value {
	names := func() []string {
		var all []string
		for _, s := range simulator.Scenarios() {
			all = append(all, s.Name)
		}
		return all
	}
	return command.Into(to, func(s string) (*simulator.Scenario, error) {
		found, err := simulator.Find(s)
		if err != nil {
			err = errors.New("unknown scenario (demo --list shows all)" + spelling.Hint(s, names()))
		}
		return &found, err
	}).Words(names)
}

// AddScenario adds the flag that has a command look at a simulated node; *to stays nil without it.
func AddScenario(f *command.Flags, to **simulator.Scenario) {
	f.Add("scenario", "Use a simulated node instead of this host; see demo --list.", Scenario(to)).PlaceHolder("NAME")
}

// sysfsMagic is SYSFS_MAGIC of linux/magic.h.
const sysfsMagic = 0x62656572

// ThisHost reports whether the flags name this host's own hardware, and no copy of some sysfs.
func (s *Site) ThisHost() bool {
	var st syscall.Statfs_t
	return s.Recorded.Netlink == "" && syscall.Statfs(s.Paths.Sysfs, &st) == nil && st.Type == sysfsMagic
}

// Observe opens an observer of this host, or of a simulated node, for as long as the program runs. It
// remembers what hardware there was, that of this host in a file.
func (s *Site) Observe(o observer.Options, simulated bool) (Observer, error) {
	ob, err := s.remember(o, simulated)
	if err != nil {
		return nil, err
	}
	ob.had.Announce()
	return ob, nil
}

// remember is Observe for those who look once.
func (s *Site) remember(o observer.Options, simulated bool) (remembering, error) {
	open, file := s.NewObserver, s.Inventory
	if open == nil {
		open, file = func(o observer.Options) (Observer, error) { return observer.New(o) }, s.inventory()
	}
	ob, err := open(o)
	if err != nil {
		return remembering{}, err
	}
	if simulated {
		file = ""
	}
	return remembering{ob, inventory.Open(file, inventory.BootID(s.Paths.Procfs), o.Log)}, nil
}

// inventory returns the file that keeps what the node had; empty: none, because it is not this host.
func (s *Site) inventory() string {
	if s.Inventory == "" && s.ThisHost() {
		return inventory.DefaultFile
	}
	return s.Inventory
}

// Accept has the record of this host forget what devices had. By is who says so.
func (s *Site) Accept(n *fabric.Node, devices []string, by string) ([]inventory.Forgotten, error) {
	file := s.inventory()
	if file == "" {
		return nil, errors.New("the paths are those of a copy, which has no record")
	}
	return inventory.Accept(file, n, devices, by)
}

// remembering is an observer that adds the hardware that the node had before and lacks now.
type remembering struct {
	Observer
	had *inventory.Inventory
}

func (r remembering) Observe(ctx context.Context, want fabric.Want) *fabric.Node {
	return r.had.Update(r.Observer.Observe(ctx, want))
}

func (r remembering) Close() {
	r.Observer.Close()
	r.had.Close()
}

// HostGPUs returns who answers for the GPUs of what the flags say: this host's driver, or what one answered that was
// captured. Without either it is nil.
func (s *Site) HostGPUs(log *slog.Logger) (observer.GPUs, error) {
	if s.Recorded.Netlink != "" {
		return ReplayedGPUs(s.Recorded.Netlink)
	}
	if g := s.GPUAccess(log); g != nil {
		return g, nil
	}
	return nil, nil // a nil *GPUAccess would be no nil interface
}

// ReplayedGPUs returns what a GPU driver answered, nil where none was asked.
func ReplayedGPUs(folder string) (observer.GPUs, error) {
	g, err := capture.ReplayGPUs(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// FirstObservation bounds how long a node is waited for that was not observed yet, because of a device that hangs.
const FirstObservation = 10 * time.Second
