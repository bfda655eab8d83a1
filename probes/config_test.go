// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestConfigNamesEachWrongField(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults are wrong: %v", err)
	}
	for field, spoil := range map[string]func(*Config){
		"Every[calibrate]": func(c *Config) { c.Every = map[Kind]time.Duration{Calibrate: time.Hour} },
		"Every[pair]":      func(c *Config) { c.Every = map[Kind]time.Duration{"pair": time.Hour} },
		"Every[node]":      func(c *Config) { c.Every = map[Kind]time.Duration{Node: time.Second} },
		"Every[rail]":      func(c *Config) { c.Every = map[Kind]time.Duration{Rail: 1000 * time.Hour} },
		"Duty":             func(c *Config) { c.Duty = math.NaN() },
		"Op":               func(c *Config) { c.Op = "all_to_all" },
		"Type":             func(c *Config) { c.Type = "float64" },
		"Bytes":            func(c *Config) { c.Bytes = 1 << 40 },
		"MaxCTAs":          func(c *Config) { c.MaxCTAs = -1 },
		"Collective":       func(c *Config) { c.Collective = 0 },
		"Wall":             func(c *Config) { c.Wall = time.Hour },
		"Warn":             func(c *Config) { c.Warn = math.NaN() },
		"IdleCommand":      func(c *Config) { c.IdleCommand = []string{"pbsnodes"} },
		"CUDA":             func(c *Config) { c.CUDA = "" },
		"EnvFile":          func(c *Config) { c.EnvFile = "probes.env" },
		"StateFile":        func(c *Config) { c.StateFile = "state.json" },
		"LockFile":         func(c *Config) { c.LockFile = "" },
	} {
		c := DefaultConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+" is ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if err := (Config{}).Validate(); err == nil || strings.Count(err.Error(), "\n") < 7 {
		t.Errorf("not every wrong field is named: %v", err)
	}
}

// A configuration that the budget does not allow would be skipped for ever.
func TestDefaultsFitIntoTheBudget(t *testing.T) {
	const context = 5 * time.Second // of a rank
	c := DefaultConfig()
	var day time.Duration // of the GPU that has most to do: the transport and socket probes use it too
	for kind, ranks := range map[Kind]int{Transport: 1, Node: 1, Rail: 2, Socket: 2} {
		took := context
		if kind == Transport {
			took = 2 * time.Second
		}
		day += time.Duration(ranks) * took * (24 * time.Hour / c.Every[kind])
	}
	if limit := time.Duration(c.Duty * float64(24*time.Hour)); day > limit {
		t.Errorf("the defaults take %s a day of a GPU, expected %s at most", day, limit)
	}
}
