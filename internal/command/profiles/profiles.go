// SPDX-License-Identifier: Apache-2.0

// Package profiles is the command profiles: it lists the profiles of platforms, says which fits this node and
// why, and writes one from this node as a start.
package profiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/profiles"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/spelling"
)

// listing is one call of the command.
type listing struct {
	site     *site.Site
	log      *logging.Flags
	name     []string            // of one profile; empty: all
	scenario *simulator.Scenario // nil: none
	capture  string              // file; empty: none
	write    bool
	json     bool
}

// New returns the command.
func New(s *site.Site, log *logging.Flags) *command.Command {
	l := &listing{site: s, log: log}
	return &command.Command{
		Name: "profiles", Help: "List the profiles of platforms, and which of them fits this node and why.",
		Define: l.define,
		Takes:  []command.Group{&s.Config, log, &s.Devices},
		OnHost: []command.Group{&s.Recorded, &s.Paths, &s.GPUs},
		Run:    l.run,
	}
}

func (l *listing) define(f *command.Flags) {
	f.Argument("name", "Show this profile with the sources of its statements.",
		command.Append(&l.name, func(s string) (string, error) { return s, nil }))
	f.Output(&l.json)
	f.Switch("write", "Write a profile from this node instead, as a start for one of the site.", &l.write)
	site.AddScenario(f, &l.scenario)
	f.Add("capture", "Look at the node of this capture (see the command capture) instead of this host.",
		command.Input(&l.capture)).PlaceHolder("FILE")
	f.Check(func() error {
		switch {
		case l.capture != "" && l.scenario != nil:
			return errors.New("--capture and --scenario: expected at most one of them")
		case len(l.name) > 1:
			return fmt.Errorf("%q: expected the name of one profile", l.name[1])
		case l.write && (l.json || len(l.name) > 0):
			return errors.New("--write: expected neither a name nor --output=json with it")
		}
		return nil
	})
}

func (l *listing) run(ctx context.Context, c *command.Call) int {
	n, conf, err := l.observe(ctx, c.Stderr)
	switch text := ""; {
	case err != nil:
	case l.write:
		if text, err = profiles.Draft(n); err == nil {
			_, err = io.WriteString(c.Stdout, text)
		}
	default:
		err = l.list(c.Stdout, n, conf)
	}
	if err != nil {
		return c.Fail(err)
	}
	return command.OK
}

// observe looks at the node: that of a scenario, of a capture, or this one.
func (l *listing) observe(ctx context.Context, stderr io.Writer) (*fabric.Node, config.Config, error) {
	at := l.site
	if l.capture != "" {
		of, _, done, err := at.Replay(l.capture)
		if err != nil {
			return nil, config.Config{}, err
		}
		defer done()
		at = of
	}
	return at.ObserveOnce(ctx, l.scenario, fabric.WantHCA|fabric.WantPCI, 0, l.log.Logger(stderr))
}

func (l *listing) list(w io.Writer, n *fabric.Node, conf config.Config) error {
	r := reportOf(n, conf)
	if len(l.name) > 0 {
		i := slices.IndexFunc(r.Profiles, func(p profile) bool { return p.Name == l.name[0] })
		if i < 0 {
			return &config.Error{Err: fmt.Errorf("%q: no profile of that name%s", l.name[0],
				spelling.Hint(l.name[0], r.names()))}
		}
		r.Profiles = r.Profiles[i : i+1]
	}
	if l.json {
		return command.JSON(w, r)
	}
	if len(l.name) > 0 {
		return write(w, one, r.Profiles[0])
	}
	return write(w, list, r)
}
