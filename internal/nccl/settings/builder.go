// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/ownership"
)

const (
	prefix     = "NCCL_"
	confFile   = "NCCL_CONF_FILE"
	systemFile = "/etc/nccl.conf"
	userFile   = ".nccl.conf"

	virtualTopology = "/var/run/nvidia-topologyd/virtualTopology.xml" // ncclTopoGetSystem of graph/topo.cc
)

// maxUntrusted bounds the text that says why a file is not trusted, which has a path in it.
const maxUntrusted = 512

// maxUnknown bounds how many variables are kept that are not in the table.
const maxUnknown = 256

// opener reads a file.
type opener func(name string) (content, error)

// builder puts a configuration together, from the file that takes precedence to the one that does not.
type builder struct {
	now  time.Time
	open opener

	config  fabric.NCCLConfig
	index   map[string]int // of config.Variables, by name
	unknown int            // variables that are not in the table
	read    int            // files
	errs    []error        // of files that exist
}

// environment reads the file that stands for the process environment.
func (b *builder) environment(name string) {
	b.file(name, func(data []byte, r *report) {
		last := map[string]statement{} // the settings that count
		for st := range parseEnvironment(data) {
			if ours(st.name) && usable(st) {
				last[st.name] = st
			}
		}
		for st := range parseEnvironment(data) {
			winner, ok := last[st.name]
			switch {
			case !ok || !usable(st) || winner.line == st.line:
				b.take(st, r, true)
			case winner.value != st.value:
				r.overridden(st, source(r.file, winner.line), winner.value)
			}
		}
	})
}

// userConf reads the file that NCCL_CONF_FILE names in the environment or else that of the home directory.
func (b *builder) userConf(home string) {
	var v fabric.NCCLVariable
	if i, ok := b.index[confFile]; ok {
		v = b.config.Variables[i]
	}
	name := clip(v.Value, maxConfPath)
	switch {
	case name == "" && home != "":
		b.conf(path.Join("/", home, userFile))
	case name == "":
	case !path.IsAbs(name):
		b.config.Files = append(b.config.Files, fabric.NCCLFile{
			Path: displayPath(name), Exists: fabric.UnknownFact[bool](fabric.ReasonNotRead, displayPath(name), b.now),
		})
		b.confFileFinding(v, RuleConfFileRelative, "is relative to the directory of the job: not read here")
	case name == systemFile: // is read anyway, and a second reading changes nothing
	case b.conf(name) == fabric.Absent:
		b.confFileFinding(v, RuleConfFileMissing, "does not exist")
	}
}

func (b *builder) confFileFinding(v fabric.NCCLVariable, rule, what string) {
	b.config.Findings = append(b.config.Findings, fabric.NCCLFinding{
		Rule: rule, Harm: harmOf(rule), Name: v.Name, Source: v.Source,
		Text: fmt.Sprintf("%s=%s %s", v.Name, quote(v.Value), what),
	})
}

// addressRange reports what is wrong with NCCL_IB_ADDR_RANGE, which depends on another variable. What is
// already reported of the line says it better.
func (b *builder) addressRange() {
	i, ok := b.index["NCCL_IB_ADDR_RANGE"]
	if !ok || b.config.Variables[i].Value == "" {
		return
	}
	v := b.config.Variables[i]
	if slices.ContainsFunc(b.config.Findings, func(f fabric.NCCLFinding) bool { return f.Source == v.Source }) {
		return
	}
	family, set := b.index["NCCL_IB_ADDR_FAMILY"]
	what := cidrProblem(v.Value, set && b.config.Variables[family].Value == "AF_INET6")
	if what == "" {
		return
	}
	b.config.Findings = append(b.config.Findings, fabric.NCCLFinding{
		Rule: RuleUnknownValue, Harm: harmOf(RuleUnknownValue), Name: v.Name, Source: v.Source,
		Text: fmt.Sprintf("%s=%s %s", v.Name, quote(v.Value), what),
	})
}

// conf reads a file that NCCL itself would read.
func (b *builder) conf(name string) fabric.State {
	return b.file(name, func(data []byte, r *report) {
		for st := range parseConf(data) {
			b.take(st, r, false)
		}
	})
}

// file reads one file, has it parsed, and notes how that went.
func (b *builder) file(name string, parse func([]byte, *report)) fabric.State {
	shown := displayPath(name)
	read, err := b.open(name)
	exists := existence(err, strings.TrimPrefix(shown, "/"), b.now)
	file := fabric.NCCLFile{Path: shown, Exists: exists}
	if read.others != nil {
		file.Untrusted = clip(read.others.Error(), maxUntrusted)
	}
	b.config.Files = append(b.config.Files, file)
	switch exists.State {
	case fabric.Unknown:
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // the path may be one that a user's link leads to
		}
		b.errs = append(b.errs, fmt.Errorf("read NCCL configuration %s: %w", shown, err))
		return exists.State
	case fabric.Absent:
		return exists.State
	}
	b.read++
	r := report{file: shown}
	data := read.data
	if !read.whole {
		data = data[:bytes.LastIndexByte(data, '\n')+1] // the last line is not complete
		r.add(1, RuleFileTooLarge, "", "only the first %d bytes of the file have been read", maxFile)
	}
	parse(data, &r)
	b.config.Findings = append(b.config.Findings, r.close()...)
	return exists.State
}

// existence turns the outcome of a read into a fact. For NCCL, whose fopen fails, a file below something
// that is no directory is as good as none.
func existence(err error, source string, now time.Time) fabric.Fact[bool] {
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	switch {
	case err == nil:
		return fabric.Known(true, source, now)
	case missing && !errors.Is(err, errNoRoot):
		return fabric.AbsentFact[bool](source, now)
	case errors.Is(err, fs.ErrPermission):
		return fabric.UnknownFact[bool](fabric.ReasonPrivilege, source, now)
	case errors.Is(err, ownership.ErrNotRegular):
		return fabric.UnknownFact[bool](fabric.ReasonMalformed, source, now)
	}
	return fabric.UnknownFact[bool](fabric.ReasonIO, source, now)
}

// take deals with one statement: it reports what is wrong with it, and sets the variable unless a file
// before this one, or a line before this one, has.
func (b *builder) take(st statement, r *report, inEnvironment bool) {
	switch st.flaw {
	case RuleNotASetting:
		r.add(st.line, st.flaw, "", "the line is not NAME=value and is skipped")
	case RuleLineTooLong:
		r.add(st.line, st.flaw, "", "the line is longer than %d bytes; NCCL from 2.30.3 on takes the rest for another line",
			maxConfLine)
	case RuleUnclosedQuote:
		r.add(st.line, st.flaw, "", "a quote that begins here is not closed on its line")
	}
	bare, rule, text := nameFlaw(st)
	if !ours(bare) || !usable(st) {
		return
	}
	switch {
	case st.flaw == RuleValueTooLong && inEnvironment:
		r.add(st.line, st.flaw, bare, "%s is longer than an environment can hold: left out", clip(bare, maxQuoted))
		return
	case rule != "":
		r.add(st.line, rule, identifierIn(bare), "%s", text)
		return
	}
	b.set(st, r, inEnvironment)
}

// nameFlaw returns the variable that a line is meant to set, and why it does not set it; the rule is empty
// where it does.
func nameFlaw(st statement) (bare, rule, text string) {
	bare, exported := cutExport(strings.Trim(st.name, blanks+"\ufeff")) // an editor may put a byte order mark first
	bare = strings.TrimRight(bare, blanks)
	switch shown := quote(st.name); {
	case exported:
		return bare, RuleExportKeyword, fmt.Sprintf("the name is %s to NCCL: %s is not set", shown, quote(bare))
	case bare != st.name:
		return bare, RuleBlankInName, fmt.Sprintf("the name is %s to NCCL: %s is not set", shown, quote(bare))
	case !identifier(bare):
		return bare, RuleUnknownVariable, shown + " is not the name of a variable"
	}
	return bare, "", ""
}

func (b *builder) set(st statement, r *report, inEnvironment bool) {
	if i, ok := b.index[st.name]; ok {
		if v := b.config.Variables[i]; v.Value != st.value {
			r.overridden(st, v.Source, v.Value)
		}
		return
	}
	v, known := Describe(st.name)
	r.checkVariable(st, v, known, inEnvironment)
	if !strings.HasPrefix(st.name, prefix) {
		return // nccl_debug: reported, but no variable of NCCL's
	}
	if !known {
		if b.unknown++; b.unknown > maxUnknown {
			return
		}
	}
	number, ok := v.Number(st.value)
	b.index[st.name] = len(b.config.Variables)
	b.config.Variables = append(b.config.Variables, fabric.NCCLVariable{
		Name: st.name, Value: st.value, Source: source(r.file, st.line), Number: number, IsNumber: ok, Masked: st.masked,
	})
}

// ours reports whether a name is meant for NCCL. Environment names are case sensitive, people are not.
func ours(name string) bool {
	return len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// usable reports whether a statement sets what it seems to set.
func usable(st statement) bool { return st.name != "" && st.flaw != RuleUnclosedQuote }

// identifierIn returns the part of a name up to the first character that does not belong in one.
func identifierIn(s string) string {
	for i := range len(s) {
		if !identifier(s[i:i+1]) && (s[i] < '0' || s[i] > '9') {
			return s[:i]
		}
	}
	return s
}
