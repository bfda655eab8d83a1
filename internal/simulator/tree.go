// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Tree is a node laid out below a directory.
type Tree struct {
	dir string

	mu      sync.Mutex
	node    *Node // at step 0, with everything plugged in
	step    int
	removed map[string]bool
	current files // as laid out last; what Set wrote on top is not in it
	now     *Node // what was laid out
}

// Materialise lays the node out below dir, which must be empty or not exist yet. What it wrote before an
// error stays.
func (n *Node) Materialise(dir string) (*Tree, error) {
	return n.MaterialiseContext(context.Background(), dir)
}

// MaterialiseContext is Materialise that stops between two files when ctx ends, with the error of ctx.
func (n *Node) MaterialiseContext(ctx context.Context, dir string) (*Tree, error) {
	if err := n.check(); err != nil {
		return nil, fmt.Errorf("simulated node: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("simulated node: %w", err)
	}
	switch found, err := os.ReadDir(dir); {
	case err != nil:
		return nil, fmt.Errorf("simulated node: %w", err)
	case len(found) > 0:
		return nil, fmt.Errorf("simulated node: %s is not empty", dir)
	}
	t := &Tree{dir: dir, node: n.Clone(), removed: map[string]bool{}, current: files{}}
	if err := t.update(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// Sysfs is the directory that stands for /sys.
func (t *Tree) Sysfs() string { return filepath.Join(t.dir, sysfs) }

// Procfs is the directory that stands for /proc.
func (t *Tree) Procfs() string { return filepath.Join(t.dir, procfs) }

// Rootfs is the directory that stands for /.
func (t *Tree) Rootfs() string { return filepath.Join(t.dir, rootfs) }

// Netlink is the folder of what the kernel answers over netlink; empty where the node says nothing that sysfs
// does not show.
func (t *Tree) Netlink() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.current[netlinkDir]; !ok {
		return ""
	}
	return filepath.Join(t.dir, netlinkDir)
}

// Set replaces the text of a file in place, so that descriptors that are open see it. The path starts with
// sys, proc or root and may go through links. The text stays until the node itself changes that file.
func (t *Tree) Set(path, text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return fmt.Errorf("set %s: %w", path, err)
	}
	defer root.Close()
	f, err := root.OpenFile(filepath.FromSlash(path), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set %s: %w", path, err)
	}
	if err := errors.Join(overwrite(f, text), f.Close()); err != nil {
		return fmt.Errorf("set %s: %w", path, err)
	}
	return nil
}

// Remove unplugs an HCA, its PCI function and its interfaces. A descriptor that is open on one of their files
// reads end of file from then on; the kernel says ENODEV, which a plain file cannot.
func (t *Tree) Remove(device string) error { return t.plug(device, true) }

// Add plugs an HCA in that Remove unplugged.
func (t *Tree) Add(device string) error { return t.plug(device, false) }

func (t *Tree) plug(device string, out bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.node.HCA(device) == nil:
		return fmt.Errorf("no hca %q", device)
	case out && t.removed[device]:
		return fmt.Errorf("hca %q is removed already", device)
	case !out && !t.removed[device]:
		return fmt.Errorf("hca %q is not removed", device)
	}
	t.removed[device] = out
	return t.update(context.Background())
}

// Edit changes the node and lays out what is different. An edit after which the node contradicts itself is
// undone.
func (t *Tree) Edit(edit func(*Node)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.node.Clone()
	edit(n)
	if err := n.check(); err != nil {
		return fmt.Errorf("simulated node: %w", err)
	}
	t.node = n
	return t.update(context.Background())
}

// Show lays another node out in place of this one, at step 0 and with everything plugged in, as Materialise
// would. Only what differs is written, into files of its own: the tree is no longer read. What Set wrote
// stays where the nodes are equal.
func (t *Tree) Show(n *Node) error {
	if err := n.check(); err != nil {
		return fmt.Errorf("simulated node: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.node, t.step, t.removed = n.Clone(), 0, map[string]bool{}
	return t.updateBy(context.Background(), t.replace)
}

// Step brings the tree to a step, forwards or backwards. What it holds then depends on the node and the step
// alone. A freshly laid out tree is at step 0, and a step stands for a second.
func (t *Tree) Step(step int) error {
	if step < 0 {
		return fmt.Errorf("step %d is negative", step)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step = step
	return t.update(context.Background())
}

// Run takes a step each interval, or each second if that is not positive, until ctx ends or a step fails.
func (t *Tree) Run(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		interval = time.Second
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		t.mu.Lock()
		t.step++
		err := t.update(context.Background())
		t.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// update lays out what has changed since the last time. If ctx ends meanwhile, the tree is neither what it
// was nor what it was to become: only a tree that is not in use yet may be given up.
func (t *Tree) update(ctx context.Context) error { return t.updateBy(ctx, t.change) }

// updateBy changes files in that way.
func (t *Tree) updateBy(ctx context.Context, change func(name, text string) error) error {
	n := t.node.at(t.step)
	for device, out := range t.removed {
		if out {
			n.Unplug(device)
		}
	}
	next := n.layout()
	if err := t.apply(ctx, next, change); err != nil {
		return fmt.Errorf("simulated node at step %d: %w", t.step, err)
	}
	t.current, t.now = next, n
	return nil
}

// apply turns the tree from current into next. What leads to a device disappears first and appears last.
func (t *Tree) apply(ctx context.Context, next files, change func(name, text string) error) error {
	changes := t.current.to(next)
	for _, name := range changes.removed {
		if err := t.remove(name); err != nil {
			return err
		}
	}
	for _, name := range changes.added {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.create(name, next[name]); err != nil {
			return err
		}
	}
	for _, name := range changes.changed {
		if err := change(name, next[name].text); err != nil {
			return err
		}
	}
	return nil
}

// change gives a file another text in place, but one below proc, which is replaced. What a file of the root
// file system has goes on where the text does, as in a log: its readers have read the rest.
func (t *Tree) change(name, text string) error {
	if strings.HasPrefix(name, procfs+"/") {
		return t.replace(name, text)
	}
	old := t.current[name].text
	if more, grows := strings.CutPrefix(text, old); grows && strings.HasPrefix(name, rootfs+"/") {
		f, err := os.OpenFile(t.path(name), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(more)
		return errors.Join(err, f.Close())
	}
	f, err := os.OpenFile(t.path(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(overwrite(f, text), f.Close())
}

func (t *Tree) path(name string) string { return filepath.Join(t.dir, filepath.FromSlash(name)) }

func (t *Tree) create(name string, e entry) error {
	switch e.kind {
	case directory:
		return os.Mkdir(t.path(name), 0o755)
	case link:
		return os.Symlink(filepath.FromSlash(e.text), t.path(name))
	default:
		return writeFile(t.path(name), e.text)
	}
}

// writeFile is os.WriteFile with O_NONBLOCK, which a regular file ignores: os then leaves out four of eight
// system calls. A node has thousands of files.
func writeFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// replace puts another file in the place of one below proc: a table there, as net/route, has no empty lines, and who
// reads such files opens them each time.
func (t *Tree) replace(name, text string) error {
	next := t.path(name) + ".next"
	if err := writeFile(next, text); err != nil {
		return err
	}
	return os.Rename(next, t.path(name))
}

func (t *Tree) remove(name string) error {
	if t.current[name].kind == regular {
		if err := os.Truncate(t.path(name), 0); err != nil {
			return err
		}
	}
	return os.Remove(t.path(name))
}

// overwrite replaces the text of a file at no moment of which the file is empty, cut short or gone. The file
// never shrinks: what the new text does not fill are newlines, to which readers of the kernel's texts are
// indifferent. The last write is a single one. Neither ext4 nor tmpfs make that atomic to a read that overlaps
// it, but the kernel copies words: a text of up to eight bytes is never seen in parts, and a longer one only
// by a read in those very nanoseconds.
func overwrite(f *os.File, text string) error {
	const word = 8
	info, err := f.Stat()
	if err != nil {
		return err
	}
	old := int(info.Size())
	size := max(old, (len(text)+word)/word*word)
	if size > old {
		if _, err := f.WriteAt([]byte(strings.Repeat("\n", size-old)), int64(old)); err != nil {
			return err
		}
	}
	_, err = f.WriteAt([]byte(text+strings.Repeat("\n", size-len(text))), 0)
	return err
}

// Healthy returns the node before the scenario happened to it, for the caller to keep.
func (s Scenario) Healthy() *Node { return s.follow(s.platform.build().gpuDirectFrom(s.platform.gdr)) }

// Reload has the node look as if its drivers had just been loaded, and returns it: what grows starts from 0.
// What does not grow stays: gauges, and counters that have stopped at some value. The boot time stays, too:
// alerts give a node that booted half an hour to settle.
func (n *Node) Reload() *Node {
	n.counters(func(_ string, c *Counter) {
		if c.PerStep > 0 {
			c.Start = 0
		}
	})
	n.Driver.Peermem.Allocated.Start = n.Driver.Peermem.Registered // of the job that runs
	return n
}

// Become turns the node into another of the same machine, which starts at step 0. What was unplugged stays so. Counters
// that both have go on from their values of now, as those of a machine do; others start where the new node
// has them. Logs keep their lines.
func (t *Tree) Become(n *Node) error {
	n = n.Clone()
	t.mu.Lock()
	defer t.mu.Unlock()
	was := map[string]uint64{}
	old := t.node.at(t.step)
	old.counters(func(name string, c *Counter) { was[name] = c.Start })
	n.Logs = continued(old.Logs, n.Logs)
	n.counters(func(name string, c *Counter) {
		if start, ok := was[name]; ok {
			c.Start = start
		}
	})
	if err := n.check(); err != nil {
		return err
	}
	t.node, t.step = n, 0
	return t.update(context.Background())
}

// counters calls f with every counter of the node, under a name that is the counter's alone.
func (n *Node) counters(f func(name string, c *Counter)) {
	all := func(owner string, list []Statistic) {
		for i := range list {
			f(owner+" "+list[i].Name, &list[i].Counter)
		}
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		all(h.Name+" hw", h.HW)
		for k := range h.Ports {
			p := &h.Ports[k]
			port := h.Name + "/" + strconv.Itoa(p.Number)
			all(port+" pma", p.PMA)
			all(port+" hw", p.HW)
			all(port+" cm", p.CM)
		}
	}
	for i := range n.NetDevs {
		d := &n.NetDevs[i]
		f("netdev "+d.Name+" received", &d.Received)
		f("netdev "+d.Name+" sent", &d.Sent)
		f("netdev "+d.Name+" corrected", &d.QoS.FEC.Corrected)
		f("netdev "+d.Name+" uncorrectable", &d.QoS.FEC.Uncorrectable)
		all("netdev "+d.Name+" statistic", d.Stats)
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		f("gpu "+g.PCI+" replays", &g.Replays)
		for k := range g.Links {
			l := &g.Links[k]
			for e := range l.Errors {
				f("gpu "+g.PCI+" link "+strconv.Itoa(k)+" "+string(l.Errors[e].Kind), &l.Errors[e].Counter)
			}
		}
	}
	for i := range n.Functions {
		e := &n.Functions[i].AER
		address := "function " + n.Functions[i].Address()
		f(address+" correctable", &e.Correctable)
		f(address+" nonfatal", &e.NonFatal)
		f(address+" fatal", &e.Fatal)
	}
	f("peermem", &n.Driver.Peermem.Allocated)
}
