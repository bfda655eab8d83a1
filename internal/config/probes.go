// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
)

// probes reads what switches probing on and what it is like: true, false, or settings. Settings switch it on unless
// enabled among them says otherwise; none are as good as no section.
func (p *parser) probes(n *yaml.Node, to *Config) {
	before := len(p.errs)
	on, c := p.probesOn(n)
	if len(p.errs) > before {
		return
	}
	to.ByHand = c
	if on {
		to.Probes = &c
	}
}

func (p *parser) probesOn(n *yaml.Node) (on bool, c probes.Config) {
	c = probes.DefaultConfig()
	const expected = "true or false, or settings such as enabled: true"
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool":
		on := p.boolean(n, "probes")
		return on != nil && *on, c
	case n.Kind == yaml.ScalarNode:
		p.errorf(n.Line, "probes: %q: expected %s", n.Value, expected)
		return false, c
	case !p.is(n, yaml.MappingNode, "probes", expected):
		return false, c
	}
	var enabled *bool
	keys := p.probeSettings(&c, &on)
	keys["enabled"] = func(n *yaml.Node) { enabled = p.boolean(n, "enabled") }
	p.mapping(n, "probes", keys)
	if enabled != nil {
		on = *enabled
	}
	return on, c
}

// probeSettings returns what reads the settings into c, and sets given for each. What a file does not say has
// the default; what is not allowed, the check of probes.Config says.
func (p *parser) probeSettings(c *probes.Config, given *bool) map[string]func(*yaml.Node) {
	// A key that is wrong is reported with its line, and is as if it were not there for those that follow.
	key := func(name string, read func(*yaml.Node)) func(*yaml.Node) {
		return func(n *yaml.Node) {
			*given = true
			before, errs := *c, len(p.errs)
			before.Every = maps.Clone(c.Every)
			if read(n); len(p.errs) > errs {
				*c = before
				return
			}
			if err := c.Validate(); err != nil {
				for _, e := range Errors(err) {
					_, what, _ := strings.Cut(e.Error(), " is ") // the file has another name for the field
					p.errorf(n.Line, "%s: %s", name, what)
				}
				*c = before
			}
		}
	}
	keys := map[string]func(*yaml.Node){
		"every": func(n *yaml.Node) {
			*given = true
			c.Every = map[probes.Kind]time.Duration{} // who names kinds means no others
			kinds := map[string]func(*yaml.Node){}
			for _, k := range probes.Kinds() {
				if k != probes.Calibrate { // by hand only
					kinds[string(k)] = key(string(k), func(n *yaml.Node) { c.Every[k] = p.duration(n, string(k)) })
				}
			}
			p.mapping(n, "every", kinds)
		},
	}
	for name, read := range map[string]func(*yaml.Node){
		"duty": func(n *yaml.Node) { c.Duty, _ = p.number(n, "duty", "a share of time", 1e-6, 1) },
		"op":   func(n *yaml.Node) { c.Op = probes.Op(p.text(n, "op", spelling.List(spelling.Names(probes.Ops())))) },
		"type": func(n *yaml.Node) {
			c.Type = probes.DType(p.text(n, "type", spelling.List(spelling.Names(probes.DTypes()))))
		},
		"bytes":       func(n *yaml.Node) { c.Bytes = p.size(n, "bytes") },
		"max_ctas":    func(n *yaml.Node) { set(&c.MaxCTAs, p.whole(n, "max_ctas", 64)) },
		"collective":  func(n *yaml.Node) { c.Collective = p.duration(n, "collective") },
		"wall":        func(n *yaml.Node) { c.Wall = p.duration(n, "wall") },
		"warn":        func(n *yaml.Node) { c.Warn, _ = p.number(n, "warn", "a share of the baseline", 0.01, 0.99) },
		"idle_memory": func(n *yaml.Node) { c.IdleMemory = p.size(n, "idle_memory") },
		"idle_command": func(n *yaml.Node) {
			c.IdleCommand = nil
			p.sequence(n, "idle_command", func(n *yaml.Node) {
				c.IdleCommand = append(c.IdleCommand, p.text(n, "idle_command", "a program's absolute path, then its arguments"))
			})
		},
		"nccl":       func(n *yaml.Node) { c.NCCL = p.text(n, "nccl", "a path or a name") },
		"cuda":       func(n *yaml.Node) { c.CUDA = p.text(n, "cuda", "a path or a name") },
		"user":       func(n *yaml.Node) { set(&c.User, p.whole(n, "user", probes.MaxUser)) },
		"env_file":   func(n *yaml.Node) { c.EnvFile = p.path(n, "env_file") },
		"state_file": func(n *yaml.Node) { c.StateFile = p.path(n, "state_file") },
		"lock_file":  func(n *yaml.Node) { c.LockFile = p.path(n, "lock_file") },
	} {
		keys[name] = key(name, read)
	}
	return keys
}

func set[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

// duration returns a time, "90s" or "1h30m".
func (p *parser) duration(n *yaml.Node, what string) time.Duration {
	const expected = "a time such as 90s, 10m or 2h"
	s := p.text(n, what, expected)
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		p.errorf(n.Line, "%s: %q: expected %s", what, s, expected)
	}
	return d
}

// size returns a number of bytes.
func (p *parser) size(n *yaml.Node, what string) uint64 {
	if !p.is(n, yaml.ScalarNode, what, expectedSize) {
		return 0
	}
	v, err := ParseSize(n.Value)
	if err != nil {
		p.errorf(n.Line, "%s: %w", what, err)
	}
	return v
}

const expectedSize = "bytes such as 8, 64K, 64MiB or 1G"

var sizePattern = regexp.MustCompile(`^([0-9]{1,12})(?:([KMG])(?:i?B)?|B)?$`)

// ParseSize reads a number of bytes with a unit as nccl-tests has them: K, M and G are powers of 1024, with
// or without "iB" or "B" behind them.
func ParseSize(s string) (uint64, error) {
	m := sizePattern.FindStringSubmatch(s)
	if m == nil {
		return 0, errors.New(strconv.Quote(s) + ": expected " + expectedSize)
	}
	v, err := strconv.ParseUint(m[1], 10, 64)
	shift := 10 * (1 + strings.Index("KMG", m[2]))
	if m[2] == "" {
		shift = 0
	}
	if err != nil || v > math.MaxInt64>>shift {
		return 0, errors.New(strconv.Quote(s) + ": expected less than 2^63 bytes")
	}
	return v << shift, nil
}
