// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// Format is how an input is read.
type Format string

// Formats.
const (
	FormatAuto     Format = "auto"     // by name and content
	FormatConf     Format = "conf"     // nccl.conf, as NCCL reads it
	FormatEnv      Format = "env"      // an environment file, as systemd reads it
	FormatShell    Format = "shell"    // a shell script, or the script of a Slurm job
	FormatManifest Format = "manifest" // YAML or JSON: Kubernetes, Compose and the like
	FormatPython   Format = "python"   // a Python program that sets os.environ
)

// Formats returns every format.
func Formats() []Format {
	return []Format{FormatAuto, FormatConf, FormatEnv, FormatShell, FormatManifest, FormatPython}
}

// formatPrinted is what env prints of an environment: values are as they are, and may have line ends.
const formatPrinted Format = "printed"

// formatUnread is that of files which set variables in a way that is not read.
const formatUnread Format = "unread"

var unread = []string{".toml", ".tf", ".ini", ".fish"}

// MaxInput bounds an input, in bytes.
const MaxInput = 10 << 20

// maxSettings bounds the settings of one input that are judged.
const maxSettings = 10_000

// maxValue bounds a name or value that is shown, in bytes.
const maxValue = 1024

// Input is a parsed input.
type Input struct {
	Name   string // for messages: a path, or what the input is
	Format Format

	settings     []setting
	others       int                 // settings of other variables
	firstCounts  bool                // the first setting of a name counts, else the last one
	scopes       int                 // containers that were seen
	document     int                 // documents of a manifest that were seen
	refused      map[*yaml.Node]bool // values that Kubernetes refuses
	scripts      []script            // what the scripts do with the settings
	nodes        map[int]several     // what says that a job has several nodes, by document
	traces       []string            // software that the text shows
	containers   []container         // that are known
	maps         map[int]string      // names of ConfigMaps, by document
	within       int                 // the container that is read, from 1; 0: none
	annotated    bool                // the pods that are read may get networks by annotations
	tcpxo        int                 // the release of GPUDirect-TCPXO is v1.0.tcpxo; below 0: not known
	sourcesTCPXO bool                // the text sources the settings of that plugin
	host         bool                // it is the configuration of the node itself
	environment  bool                // it is the environment of this process
}

// setting is one line of an input.
type setting struct {
	settings.Setting
	set      bool   // it sets the variable for NCCL
	dynamic  bool   // the value follows from what only a shell knows
	scripted bool   // a part of a script sets it
	sources  string // the last element of the path of a file that the line sources
	chosen   bool   // the value is that of ${NAME:-value}, where NAME is not set
	scope    int    // the container that it belongs to
	document int    // of a manifest; 0: it is none
	rccl     bool   // it is for RCCL
	within   int    // the container that gets it, from 1; 0: not known
	findings []Finding
}

// script is what a script does, whose settings are those of a container.
type script struct {
	scope int
	body  []part
}

// Errors of Parse.
var (
	errBinary = errors.New("expected text: it has NUL bytes")
	errMany   = fmt.Errorf("expected at most %d settings", maxSettings)
)

// ErrTooLarge is the error of an input of more than MaxInput bytes.
var ErrTooLarge = fmt.Errorf("expected at most %d MiB", MaxInput>>20)

// Parse reads an input. The name decides the format where that is FormatAuto.
func Parse(name string, data []byte, format Format) (Input, error) {
	switch {
	case len(data) > MaxInput:
		return Input{}, fmt.Errorf("%s: %w", name, ErrTooLarge)
	case bytes.IndexByte(data, 0) >= 0:
		return Input{}, fmt.Errorf("%s: %w", name, errBinary)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if format == FormatAuto || format == "" {
		format = detect(name, data)
	}
	in := Input{Name: name, Format: format}
	in.trace(data)
	var err error
	switch format {
	case FormatConf:
		in.firstCounts = true
		for s := range settings.ParseConf(data) {
			if in.addLine(s); len(in.settings) > maxSettings {
				break
			}
		}
	case FormatEnv:
		for s := range settings.ParseEnvironment(data) {
			if in.addLine(s); len(in.settings) > maxSettings {
				break
			}
		}
	case FormatManifest:
		err = in.parseManifest(data)
	case FormatPython:
		in.parsePython(data)
	case formatPrinted:
		in.Format = FormatEnv
		in.parsePrinted(string(data))
	case formatUnread:
	default:
		err = in.parseShell(string(data), 1)
	}
	read := slices.ContainsFunc(in.settings, func(s setting) bool { return s.sources == "" })
	if err == nil && !read && format != FormatConf && format != FormatEnv {
		in.append(setting{
			Setting:  settings.Setting{Line: 1},
			findings: []Finding{{Undecided, verdict.Info, nothingFound, ""}},
		})
	}
	if err == nil && len(in.settings) > maxSettings {
		err = errMany
	}
	if err != nil {
		return Input{}, fmt.Errorf("%s: %w", name, err)
	}
	return in, nil
}

// Environment returns the environment of a process as an input.
func Environment(name string, environ []string) (Input, error) {
	in := Input{Name: name, Format: FormatEnv, environment: true}
	in.trace([]byte(strings.Join(environ, "\n")))
	for _, entry := range environ {
		if variable, value, ok := strings.Cut(entry, "="); ok {
			in.add(setting{Setting: settings.Setting{Line: 0, Name: variable, Value: value}, set: true})
		}
	}
	if len(in.settings) > maxSettings {
		return Input{}, fmt.Errorf("%s: %w", name, errMany)
	}
	return in, nil
}

// nothingFound is said of a file in which no setting was found: that is no approval of what it sets in another way.
const nothingFound = "No NCCL setting found. lint reads assignments, export, env, and options of srun, mpirun and docker in shell scripts; " +
	"env, data and scripts in manifests; and os.environ and V1EnvVar in Python"

// detect returns the format by the name, else from the first lines that are no comments.
func detect(name string, data []byte) Format {
	base := path.Base(name)
	switch ext := path.Ext(base); {
	case slices.Contains(unread, ext):
		return formatUnread
	case strings.HasSuffix(base, "nccl.conf"):
		return FormatConf
	case ext == ".yaml", ext == ".yml", ext == ".json":
		return FormatManifest
	case ext == ".sh", ext == ".bash", ext == ".sbatch", ext == ".slurm":
		return FormatShell
	case ext == ".py", bytes.HasPrefix(data, []byte("#!")) && bytes.Contains(data[:min(len(data), 128)], []byte("python")):
		return FormatPython
	case strings.HasPrefix(base, ".env"), ext == ".env", ext == ".deepspeed_env", base == "environment":
		return FormatEnv
	case bytes.HasPrefix(data, []byte("#!")), bytes.Contains(data, []byte("#SBATCH ")):
		return FormatShell
	}
	for line := range bytes.Lines(data[:min(len(data), 64<<10)]) {
		line = bytes.TrimSpace(line)
		switch {
		case bytes.HasPrefix(line, []byte("apiVersion:")), bytes.HasPrefix(line, []byte("kind:")),
			bytes.HasPrefix(line, []byte("---")),
			bytes.HasPrefix(line, []byte("{")), bytes.HasPrefix(line, []byte("- name:")), bytes.HasPrefix(line, []byte("env:")):
			return FormatManifest
		case len(line) == 0, line[0] == '#':
			continue
		}
		break
	}
	if onlyAssignments(data[:min(len(data), 64<<10)]) {
		return FormatEnv
	}
	if printed(data) {
		return formatPrinted
	}
	return FormatShell
}

// usual are variables that every environment has.
var usual = []string{"PATH", "PWD", "HOME", "SHLVL", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "TERM", "_"}

// printed reports whether a text is what env prints: it begins with NAME=value, has two of the usual
// variables on lines of their own, and nothing that only scripts have; or it is a part of that, with each
// variable once, and one value at least without blanks.
func printed(data []byte) bool {
	seen := map[string]bool{}
	found, plain, all := 0, false, true
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		name, value, _ := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "export "), strings.HasPrefix(line, "srun "), strings.HasPrefix(line, "mpirun "),
			strings.HasPrefix(line, "#"):
			return false
		case !isAssignment(line) && len(seen) == 0:
			return false
		case !isAssignment(line), seen[name], strings.ContainsAny(value, "$`;&|\\"):
			all = false
		case slices.Contains(usual, name):
			found++
		}
		plain = plain || !strings.ContainsAny(value, " \t")
		seen[name] = true
	}
	return found > 1 || all && plain && len(seen) > 1
}

// parsePrinted reads what env prints. A line that is no assignment belongs to the value before.
func (in *Input) parsePrinted(text string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if name, value, _ := strings.Cut(line, "="); isAssignment(line) {
			in.add(setting{Setting: settings.Setting{Line: number, Name: name, Value: value}, set: true})
		}
	}
}

// onlyAssignments reports whether a text is a list of NAME=value with nothing that a shell expands or runs: an
// environment file, or what env prints. A script would do nothing with them.
func onlyAssignments(data []byte) bool {
	found := false
	for line := range bytes.Lines(data) {
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0, line[0] == '#':
		case !isAssignment(string(line)), bytes.ContainsAny(line, "$`;&| \t") || bytes.HasSuffix(line, []byte("\\")):
			return false
		default:
			found = true
		}
	}
	return found
}

// addLine adds a line of a file that has a setting on each.
func (in *Input) addLine(s settings.Setting) {
	bare, f, sets := settings.CheckName(s)
	one := setting{Setting: s, set: sets && s.Usable()}
	switch {
	case s.Flaw == settings.RuleNotASetting, s.Flaw == settings.RuleLineTooLong, s.Flaw == settings.RuleUnclosedQuote:
		one.Name, one.Value, one.set = "", "", false
		one.findings = []Finding{{Misread, verdict.Warning, flawText(s.Flaw), "correct or remove the line"}}
		if concerns(s.Name) {
			one.Name = shown(s.Name)
		}
	case !sets && concerns(bare):
		one.Name = bare
		one.findings = []Finding{{Misread, verdict.Warning, upper(f.Text), bare + "=" +
			presentable(bare, strings.TrimSpace(s.Value))}}
	}
	if one.findings != nil {
		in.append(one)
		return
	}
	in.add(one)
}

func flawText(rule string) string {
	for _, r := range settings.Rules() {
		if r.ID == rule {
			return r.Summary
		}
	}
	return rule
}

// containerPrefixes are those of variables that Apptainer and Singularity set in containers without the prefix.
var containerPrefixes = []string{"APPTAINERENV_", "SINGULARITYENV_"}

// add adds a setting if its variable has to do with NCCL, and counts it else.
func (in *Input) add(s setting) {
	for _, prefix := range containerPrefixes {
		if name, cut := strings.CutPrefix(s.Name, prefix); cut && concerns(name) {
			s.Name = name
		}
	}
	if !concerns(s.Name) {
		if slices.Contains(countVariables, s.Name) && !s.dynamic {
			line := s.Line
			if in.Format == FormatManifest && !s.scripted { // of a text in it
				line = 0
			}
			in.noteNodes(line, s.Name+"="+s.Value, s.Value)
		}
		in.others++
		return
	}
	in.append(s)
}

func (in *Input) append(s setting) {
	s.document, s.within = in.document, in.within
	s.Value, s.Name = presentable(s.Name, s.Value), fabric.MaskTokens(fabric.MaskCredentials(s.Name))
	if len(s.Name) > maxValue {
		s.Name = shown(s.Name)
		s.findings = append(s.findings, Finding{
			Misread, verdict.Warning,
			fmt.Sprintf("The name has more than %d bytes", maxValue), remove,
		})
		s.set = false
	}
	if len(s.Value) > maxValue {
		s.Value = shown(s.Value)
		s.findings = append(s.findings, Finding{
			Undecided, verdict.Info,
			fmt.Sprintf("The value has more than %d bytes: it is not judged", maxValue), "",
		})
		s.set = false
	}
	if len(in.settings) <= maxSettings {
		in.settings = append(in.settings, s)
	}
}

// presentable is a value as it may be shown: that of a variable that is not known may be anything, and is not.
func presentable(name, value string) string {
	if _, known := settings.Describe(name); !known && value != "" {
		return fabric.Mask
	}
	return fabric.MaskValue(name, value)
}

func shown(s string) string { return s[:min(len(s), maxValue)] }

// concerns reports whether a variable has to do with NCCL: then it is judged, and its value may be shown.
func concerns(name string) bool {
	if len(name) > 5 && strings.EqualFold(name[:5], "NCCL_") {
		return true
	}
	if len(name) > maxValue {
		return false
	}
	_, known := settings.Describe(name)
	return known
}
