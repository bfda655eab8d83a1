// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
)

// A Source has the targets of files and names. What can no longer be read keeps the targets that it had. The zero
// value has none; its methods may not be called at the same time.
type Source struct {
	Files []string // as of file_sd
	Names []string // host:port, each with an address for each node
	// LeafLabel is the label of a target that names its switch; empty: leaf.
	LeafLabel string
	// Lookup resolves a name; nil: as the system does.
	Lookup func(ctx context.Context, host string) ([]string, error)

	known map[string]known
}

// known is what a file or name had when it was last read.
type known struct {
	Read
	time time.Time // of the file
	size int64
}

// lookupLimit is how long one name may take.
const lookupLimit = 5 * time.Second

// Targets reads what has changed, and returns all there are, with an error for each file and name that could not be
// read or of which something was left out.
func (s *Source) Targets(ctx context.Context) ([]Target, []error) {
	var all []Target
	var errs []error
	now := make(map[string]known, len(s.Files)+len(s.Names))
	add := func(name string, k known, err error) {
		now[name] = k
		if err == nil && k.LeftOut > 0 {
			err = fmt.Errorf("%d entries are left out, the first one because: %w", k.LeftOut, k.Why)
		}
		if room := MaxTargets - len(all); len(k.Targets) > room {
			k.Targets = k.Targets[:room]
			err = fmt.Errorf("all together have more than %d targets", MaxTargets)
		}
		all = append(all, k.Targets...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", fabric.Printable(name, maxReason), err))
		}
	}
	for _, name := range s.Files {
		k, err := s.file(name)
		add(name, k, err)
	}
	for _, name := range s.Names {
		k, err := s.name(ctx, name)
		add(name, k, err)
	}
	s.known = now
	return all, errs
}

// file reads a file that is not as it was.
func (s *Source) file(name string) (known, error) {
	k := s.known[name]
	info, err := os.Stat(name)
	if err != nil {
		return k, err
	}
	if info.ModTime().Equal(k.time) && info.Size() == k.size {
		return k, nil
	}
	content, err := files.Read(name, maxFile)
	if err != nil {
		return k, err
	}
	r, err := Parse(filepath.Base(name), content, cmp.Or(s.LeafLabel, "leaf"))
	if err != nil {
		return k, err
	}
	return known{r, info.ModTime(), info.Size()}, nil
}

func (s *Source) name(ctx context.Context, name string) (known, error) {
	k := s.known[name]
	host, service, err := net.SplitHostPort(name)
	if err != nil {
		return k, fmt.Errorf("expected host:port: %w", err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return k, fmt.Errorf("port %q: %w", service, err)
	}
	lookup := s.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	addresses, err := lookup(ctx, host)
	if err != nil {
		return k, err
	}
	for _, a := range addresses {
		if _, err := netip.ParseAddr(a); err != nil {
			return k, fmt.Errorf("the answer has what is no address: %w", err)
		}
	}
	return known{Read: Resolved(addresses, uint16(port))}, nil
}
