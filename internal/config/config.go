// SPDX-License-Identifier: Apache-2.0

// Package config reads the configuration file of a site: what it expects of its nodes (a fabric.Policy),
// where it keeps NCCL's configuration, what probes are like, and where its runbooks and dashboards are.
//
// All functions may be called at once from any number of goroutines. They read a file whenever they are
// called and keep nothing. A file may be on a file system that does not answer, and then they do not return:
// callers that cannot wait bound them.
//
// Errors in the content are joined, one for each mistake, each with the file, the line and what was expected;
// Errors takes them apart. File.Read returns errors of type *Error.
package config

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/profiles"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/rdmaping"
)

// maxSize bounds the configuration file. What a site has to say fits in a few KiB.
const maxSize = 1 << 20

// Config is what a configuration file says. The zero value's Policy is nil; Parse and File.Read always set one.
type Config struct {
	Policy *fabric.Policy
	NCCL   observer.NCCLFiles
	AskRAS bool           // NCCL RAS is asked about jobs that are suspected to hang
	Probes *probes.Config // what the exporter probes by itself; nil: nothing
	ByHand probes.Config  // settings of probes by hand: those of the file, also where they are switched off
	Links  Links
	// RDMAPing is how rails are pinged; nil: they are not.
	RDMAPing *rdmaping.Config
	// Problems are profiles of the site that are not in force, one line each.
	Problems []error
	// File is where it comes from; empty: nothing was read. Missing is the default file where that does not exist.
	File, Missing string
	// manifest is the file that has the manifest; empty: the policy has it, or there is none. profiles is the
	// folder of the site's profiles; empty: it has none.
	manifest, profiles string
}

// read reads the file; without one it returns the defaults.
func read(file string) (Config, error) {
	if file == "" {
		return Parse("", nil)
	}
	data, err := files.Read(file, maxSize)
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(file, data)
	if err != nil {
		return c, err
	}
	if c.profiles != "" {
		set := profiles.Load(c.profiles)
		c.Policy.Profiles, c.Problems = set.Profiles, set.Problems
	}
	if c.manifest == "" {
		return c, nil
	}
	m, err := ReadManifest(c.manifest)
	if err != nil {
		return Config{}, fmt.Errorf("%s: expected.manifest: %w", file, err)
	}
	c.Policy.Manifest = &m
	return c, nil
}

// Parse parses the YAML of a file, whose name is for errors. A manifest that is in a file of its own is not
// read, nor are profiles of the site. It returns all errors at once, joined, each with file and line.
//
// It walks the document by hand instead of decoding into structs: so every value that makes no sense has a
// line, unknown and duplicate keys are seen, and aliases, which are not needed here, are never followed.
func Parse(file string, data []byte) (Config, error) {
	p := &parser{file: file}
	c := Config{
		Policy: &fabric.Policy{Profiles: profiles.Builtin()}, ByHand: probes.DefaultConfig(),
		Links: DefaultLinks(), File: file,
	}
	if root := p.document(data); root != nil {
		p.mapping(root, "the file", map[string]func(*yaml.Node){
			"roles":      func(n *yaml.Node) { p.roles(n, c.Policy) },
			"restricted": func(n *yaml.Node) { p.restricted(n, c.Policy) },
			"expected":   func(n *yaml.Node) { p.expected(n, &c) },
			"profiles":   func(n *yaml.Node) { c.profiles = p.path(n, "profiles") },
			"nccl":       func(n *yaml.Node) { p.nccl(n, &c) },
			"kernel":     func(n *yaml.Node) { p.kernel(n, &c.NCCL) },
			"probes":     func(n *yaml.Node) { p.probes(n, &c) },
			"rdma_ping":  func(n *yaml.Node) { p.rdmaPing(n, &c) },
			"links":      func(n *yaml.Node) { p.links(n, &c.Links) },
		})
	}
	if err := errors.Join(p.errs...); err != nil {
		return Config{}, err
	}
	if path.IsAbs(c.ByHand.NCCL) {
		c.NCCL.Library = c.ByHand.NCCL
	}
	return c, nil
}

func (p *parser) roles(n *yaml.Node, policy *fabric.Policy) {
	p.sequence(n, "roles", func(n *yaml.Node) {
		var rule fabric.RoleRule
		p.mapping(n, "an entry of roles", map[string]func(*yaml.Node){
			"device": func(n *yaml.Node) { rule.Device = p.pattern(n, "device") },
			"role":   func(n *yaml.Node) { rule.Role = p.role(n) },
		}, "device", "role")
		policy.Roles = append(policy.Roles, rule)
	})
}

func (p *parser) restricted(n *yaml.Node, policy *fabric.Policy) {
	var patterns []string
	p.sequence(n, "restricted", func(n *yaml.Node) {
		if p.pattern(n, "restricted") != nil {
			patterns = append(patterns, "(?:"+n.Value+")")
		}
	})
	if len(patterns) == 0 {
		return
	}
	all, err := ParsePattern(strings.Join(patterns, "|"))
	if err != nil {
		p.errorf(n.Line, "restricted: all patterns together: %w", err)
	}
	policy.Restricted = all
}

func (p *parser) expected(n *yaml.Node, c *Config) {
	policy := c.Policy
	p.mapping(n, "expected", map[string]func(*yaml.Node){
		"compute_ports": func(n *yaml.Node) {
			policy.ComputePorts = p.whole(n, "compute_ports", 1024)
		},
		"gpus": func(n *yaml.Node) {
			policy.GPUs = p.whole(n, "gpus", 1024)
		},
		"port_rate_gigabits_per_second": func(n *yaml.Node) {
			policy.PortRates = map[fabric.Role]float64{}
			rates := map[string]func(*yaml.Node){}
			for _, r := range fabric.Roles() {
				rates[string(r)] = func(n *yaml.Node) {
					gigabits, _ := p.number(n, string(r), "a rate in Gb/s", 0.1, 100_000)
					policy.PortRates[r] = gigabits * 1e9 / 8
				}
			}
			p.mapping(n, "port_rate_gigabits_per_second", rates)
		},
		"nccl_minimum_version": func(n *yaml.Node) { policy.NCCL = p.ncclVersion(n) },
		"roce":                 func(n *yaml.Node) { p.roce(n, &policy.RoCE) },
		"manifest": func(n *yaml.Node) {
			if n.Kind == yaml.ScalarNode {
				c.manifest = p.path(n, "manifest")
			} else {
				policy.Manifest = p.manifest(n)
			}
		},
	})
}

func (p *parser) ncclVersion(n *yaml.Node) *fabric.NCCLVersion {
	const key = "nccl_minimum_version"
	if !p.is(n, yaml.ScalarNode, key, "a release of NCCL") {
		return nil
	}
	v, err := fabric.ParseNCCLVersion(n.Value) // also 2.20 without quotes, which YAML takes for a number
	if err != nil {
		p.errorf(n.Line, "%s: %.64q: %w", key, n.Value, err)
		return nil
	}
	return &v
}

// roce reads how the fabric was designed. The traffic class is another way to say the DSCP: NCCL_IB_TC is what
// people know by heart.
func (p *parser) roce(n *yaml.Node, policy *fabric.RoCEPolicy) {
	var class *int
	line := 0
	p.mapping(n, "roce", map[string]func(*yaml.Node){
		"dscp":     func(n *yaml.Node) { policy.DSCP = p.whole(n, "dscp", fabric.NumDSCP-1) },
		"priority": func(n *yaml.Node) { policy.Priority = p.whole(n, "priority", fabric.NumPriorities-1) },
		"lossless": func(n *yaml.Node) { policy.Lossless = p.boolean(n, "lossless") },
		"ecn":      func(n *yaml.Node) { policy.ECN = p.boolean(n, "ecn") },
		"traffic_class": func(n *yaml.Node) {
			class, line = p.whole(n, "traffic_class", math.MaxUint8), n.Line
		},
	})
	switch {
	case class == nil:
	case policy.DSCP != nil && *policy.DSCP != *class>>2:
		p.errorf(line, "traffic_class: %d is DSCP %d, but dscp says %d: expected one of the two keys", *class, *class>>2,
			*policy.DSCP)
	default:
		policy.DSCP = new(*class >> 2)
	}
}

func (p *parser) nccl(n *yaml.Node, c *Config) {
	files := &c.NCCL
	p.mapping(n, "nccl", map[string]func(*yaml.Node){
		"environment_file": func(n *yaml.Node) { files.Environment = p.path(n, "environment_file") },
		"home":             func(n *yaml.Node) { files.Home = p.path(n, "home") },
		"inspector_folder": func(n *yaml.Node) { files.Inspector = p.path(n, "inspector_folder") },
		"log_files":        func(n *yaml.Node) { p.logFiles(n, files) },
		"ask_ras": func(n *yaml.Node) {
			if on := p.boolean(n, "ask_ras"); on != nil {
				c.AskRAS = *on
			}
		},
	})
}

// maxLogFiles bounds the patterns of logs.
const maxLogFiles = 16

func (p *parser) logFiles(n *yaml.Node, files *observer.NCCLFiles) {
	const key = "log_files"
	p.sequence(n, key, func(n *yaml.Node) {
		if !p.is(n, yaml.ScalarNode, key, "a path") {
			return
		}
		pattern, err := observer.ParseLogPattern(n.Value)
		switch {
		case err != nil:
			p.errorf(n.Line, "%s: %.64q: %w", key, n.Value, err)
		case len(files.Logs) == maxLogFiles:
			p.errorf(n.Line, "%s: expected at most %d entries", key, maxLogFiles)
		default:
			files.Logs = append(files.Logs, pattern)
		}
	})
}

func (p *parser) kernel(n *yaml.Node, files *observer.NCCLFiles) {
	p.mapping(n, "kernel", map[string]func(*yaml.Node){
		"messages": func(n *yaml.Node) { files.Kernel = p.path(n, "messages") },
	})
}
