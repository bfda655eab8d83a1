// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"strings"
	"time"
)

// NCCLConfig is the NCCL configuration and library that a process started on this host would read: /etc/nccl.conf below
// the environment the site configured. What one job sets for itself is not part of it.
type NCCLConfig struct {
	Files     []NCCLFile
	Variables []NCCLVariable // the effective ones, sorted by name
	Findings  []NCCLFinding  // what NCCL will silently ignore or misread, in order of occurrence
	// VirtualTopology says that there is the file of a virtual machine
	// (/var/run/nvidia-topologyd/virtualTopology.xml) that NCCL prefers to sysfs, unless NCCL_TOPO_FILE names
	// another one; absent without it.
	VirtualTopology Fact[bool]
	// Library is what the dynamic loader of this host finds as libnccl.so.2, else that of a Python package;
	// absent without one. Images of containers bring their own.
	Library Fact[Library]
	// ProbeLibrary is the file that the site has probes use instead; absent if it names none.
	ProbeLibrary Fact[Library]
}

// Library is a shared library.
type Library struct {
	Path    string // as the loader finds it
	Version string // such as 2.27.3; empty: neither the name of the file nor its content shows it
}

// NCCLFile is one file that was looked for.
type NCCLFile struct {
	Path   string
	Exists Fact[bool]
	// Untrusted says who else than root and the user of the exporter can have written the file or can put another one in
	// its place, by owners and modes of the file, its folders and links; empty: no one, or it was not read.
	Untrusted string
}

// Untrusted returns a file that sets something and a process with privileges must not trust; nil: there is none.
func (c *NCCLConfig) Untrusted() *NCCLFile {
	for i := range c.Files {
		f := &c.Files[i]
		if f.Untrusted != "" && slices.ContainsFunc(c.Variables, func(v NCCLVariable) bool {
			line, found := strings.CutPrefix(v.Source, f.Path+":")
			return found && !strings.Contains(line, ":")
		}) {
			return f
		}
	}
	return nil
}

// NCCLVariable is an effective variable.
type NCCLVariable struct {
	Name   string
	Value  string
	Source string // file:line; empty: the job that is judged
	// Number is the value as NCCL's own number parser sees it; IsNumber is false for variables NCCL reads as
	// text, and where that parser falls back to the default.
	Number   int64
	IsNumber bool
	Masked   bool // Value lacks a credential that the file has
}

// From is where a setting is from, behind its name in a text; empty for that of the job that is judged.
func (v *NCCLVariable) From() string {
	if v.Source == "" {
		return ""
	}
	return " (" + v.Source + ")"
}

// NCCLHarm is what a finding means for the jobs of the host.
type NCCLHarm uint8

// Harms.
const (
	NCCLMisread NCCLHarm = iota // NCCL or the network does something else than the line says
	NCCLNote                    // nothing is wrong, but it explains what is in effect
	NCCLFatal                   // NCCL does not start, or its first collective ends the job
)

// NCCLFinding is something that is worth to be said of a line of the configuration.
type NCCLFinding struct {
	Rule   string // stable id, used as a label value
	Harm   NCCLHarm
	Name   string // variable
	Source string // file:line
	Text   string
}

// whole is the configuration, if it was read: unknown when a file that may set something could not be.
func (c *NCCLConfig) whole() Fact[*NCCLConfig] {
	const source = "NCCL configuration"
	if len(c.Files) == 0 {
		return UnknownFact[*NCCLConfig](ReasonNotRead, source, time.Time{})
	}
	for _, f := range c.Files {
		if f.Exists.State == Unknown {
			return unknownLike[*NCCLConfig](f.Exists.Meta())
		}
	}
	return Known(c, source, c.Files[0].Exists.At)
}

// Lookup returns the effective variable of that name.
func (c *NCCLConfig) Lookup(name string) (NCCLVariable, bool) {
	i, ok := slices.BinarySearchFunc(c.Variables, name,
		func(v NCCLVariable, s string) int { return strings.Compare(v.Name, s) })
	if !ok {
		return NCCLVariable{}, false
	}
	return c.Variables[i], true
}

// Number returns the number that NCCL would use for a variable with that default.
func (c *NCCLConfig) Number(name string, def int64) int64 {
	if v, ok := c.Lookup(name); ok && v.IsNumber {
		return v.Number
	}
	return def
}

// Text returns the value of a variable that NCCL reads as text; set is false when it is unset or empty.
func (c *NCCLConfig) Text(name string) (value string, set bool) {
	v, ok := c.Lookup(name)
	return v.Value, ok && v.Value != ""
}

// topologyFile is the file that describes the places of GPUs and NICs to NCCL in place of sysfs, in words;
// absent without one (ncclTopoGetSystem of graph/topo.cc).
func (c *NCCLConfig) topologyFile() Fact[string] {
	if _, set := c.Text("NCCL_TOPO_FILE"); set {
		v, _ := c.Lookup("NCCL_TOPO_FILE")
		return Known("NCCL_TOPO_FILE ("+v.Source+")", v.Source, c.VirtualTopology.At)
	}
	f := c.VirtualTopology
	if f.State == OK {
		return Known("/"+f.Source, f.Source, f.At)
	}
	return Fact[string]{State: f.State, Reason: f.Reason, Source: f.Source, At: f.At}
}
