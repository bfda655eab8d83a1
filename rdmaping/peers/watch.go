// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"gpufabric_exporter/internal/errand"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
)

// A Source has the targets of files and names. Each is looked at on its own: one that cannot be read or hangs keeps
// the targets that it had. The zero value has none; its methods may not be called at the same time.
type Source struct {
	Files []string // as of file_sd
	Names []string // host:port, each with an address for each node
	// LeafLabel is the label of a target that names its switch; empty: leaf.
	LeafLabel string
	// Lookup resolves a name; nil: as the system does.
	Lookup func(ctx context.Context, host string) ([]string, error)

	lists []*list // of Files and then Names
}

// list is a file or name.
type list struct {
	name    string
	read    func(ctx context.Context, was known) (known, error)
	looking errand.Errand[struct{}]

	mu sync.Mutex
	known
	err error // of the last look
}

// known is what a file or name had when it was last read.
type known struct {
	Read
	file    os.FileInfo // that was looked into
	refused error       // why it was not taken: Read is of one before
}

// patience is how long a file or name is waited for. What comes later counts when Targets is called again.
const patience = 5 * time.Second

// Targets reads what has changed, and returns all there are, with an error for each file and name that could not be
// read or of which something was left out. It returns in time, whatever hangs.
func (s *Source) Targets(ctx context.Context) ([]Target, []error) {
	if s.lists == nil {
		s.begin()
	}
	var looks sync.WaitGroup
	for _, l := range s.lists {
		looks.Go(func() { l.look(ctx) })
	}
	looks.Wait()
	var all []Target
	var errs []error
	for _, l := range s.lists {
		k, err := l.last()
		targets := k.Targets
		if err == nil && k.LeftOut > 0 {
			err = fmt.Errorf("%d entries are left out, the first one because: %w", k.LeftOut, k.Why)
		}
		if room := MaxTargets - len(all); len(targets) > room {
			targets = targets[:room]
			err = fmt.Errorf("all together have more than %d targets", MaxTargets)
		}
		all = append(all, targets...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", fabric.Printable(l.name, maxReason), err))
		}
	}
	return all, errs
}

func (s *Source) begin() {
	leaf := cmp.Or(s.LeafLabel, "leaf")
	for _, name := range s.Files {
		read := func(_ context.Context, was known) (known, error) { return readFile(name, leaf, was) }
		s.lists = append(s.lists, &list{name: name, read: read})
	}
	for _, name := range s.Names {
		read := func(ctx context.Context, was known) (known, error) { return s.lookup(ctx, name, was) }
		s.lists = append(s.lists, &list{name: name, read: read})
	}
}

// look reads the list, and keeps what was known where that fails.
func (l *list) look(ctx context.Context) {
	_, err := l.looking.Run(ctx, patience, func() (struct{}, error) {
		was, _ := l.last()
		now, err := l.read(ctx, was)
		if err != nil {
			l.failed(err)
			return struct{}{}, nil
		}
		l.mu.Lock()
		l.known, l.err = now, nil
		l.mu.Unlock()
		if now.refused != nil {
			l.failed(now.refused)
		}
		return struct{}{}, nil
	})
	if errors.Is(err, errand.ErrBusy) || errors.Is(err, context.DeadlineExceeded) { // one text, however long it lasts
		err = fmt.Errorf("not read within %s: does its file system or name server answer?", patience)
	}
	if err != nil {
		l.failed(err)
	}
}

func (l *list) last() (known, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known, l.err
}

func (l *list) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = fmt.Errorf("%w (it has no targets yet)", err)
	if n := len(l.Targets); n > 0 {
		l.err = fmt.Errorf("%w (it keeps the targets that it had: %d)", err, n)
	}
}

// readFile reads a file that is not as it was.
func readFile(name, leaf string, was known) (known, error) {
	info, err := os.Stat(name)
	if err != nil {
		return was, unreadable(err)
	}
	f := was.file
	if f != nil && os.SameFile(info, f) && info.ModTime().Equal(f.ModTime()) && info.Size() == f.Size() {
		return was, nil
	}
	content, err := files.Read(name, maxFile)
	if err != nil {
		return was, unreadable(err)
	}
	r, err := Parse(filepath.Base(name), content, leaf)
	if err != nil { // it is not parsed again until it changes
		return known{was.Read, info, unreadable(err)}, nil
	}
	return known{Read: r, file: info}, nil
}

// unreadable is the error of a file without its name.
func unreadable(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("expected a list of targets as of Prometheus' file_sd: %w", err)
}

// steady is an error of a name server without the port that it was asked from, which is another one each time.
func steady(err error) error {
	of, ok := errors.AsType[*net.DNSError](err)
	if !ok {
		return err
	}
	if _, to, ok := strings.Cut(of.Err, "->"); ok {
		return fmt.Errorf("lookup %s: %s", of.Name, to)
	}
	return err
}

func (s *Source) lookup(ctx context.Context, name string, was known) (known, error) {
	host, service, err := net.SplitHostPort(name)
	if err != nil {
		return was, fmt.Errorf("expected host:port: %w", err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return was, fmt.Errorf("port %q: %w", service, err)
	}
	resolve := s.Lookup
	if resolve == nil {
		resolve = net.DefaultResolver.LookupHost
	}
	addresses, err := resolve(ctx, host)
	if err != nil {
		return was, fmt.Errorf("expected a name with an address for each node (getent hosts %s): %w", host, steady(err))
	}
	var v4, v6 []string
	for _, a := range addresses {
		switch address, err := netip.ParseAddr(a); {
		case err != nil:
			return was, fmt.Errorf("the answer has what is no address: %w", err)
		case address.Unmap().Is4():
			v4 = append(v4, a)
		default:
			v6 = append(v6, a)
		}
	}
	if len(v6) > len(v4) { // a node that has both is one target
		v4 = v6
	}
	return known{Read: Resolved(v4, uint16(port))}, nil
}
