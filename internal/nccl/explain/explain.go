// SPDX-License-Identifier: Apache-2.0

// Package explain summarizes the log of a job: how NCCL was set up, which transport its connections use, and
// what failed first.
//
// A log is not trusted, and may have no end. Read takes it line by line, up to a number of bytes; what it
// keeps is bounded, and can be printed. A Result is for one goroutine until it is read, and does not change
// then. The errors of Read are those of reading, and ErrNotText for input
// that is not text.
package explain

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// Limits of what is kept of a log.
const (
	maxHosts         = 4096
	maxProcesses     = 1 << 16
	maxCommunicators = 256
	maxRanks         = 1 << 20 // of all communicators together
	maxVersions      = 8
	maxFindings      = 64
	maxFindingHosts  = 64
	maxWarnings      = 16
	maxBytes         = 4 << 30 // that are read: a pipe may have no end
)

// Unknown is a number that the log does not have.
const Unknown = log.Unknown

// ErrNotText is wrapped by the errors of input that is not text.
var ErrNotText = errors.New("it is not text")

// Result is what a log shows.
type Result struct {
	Lines, NCCLLines int64 // all, and those of NCCL
	Cut              bool  // the log is longer than maxBytes, and its end was not read
	Long             int64 // lines of more than log.MaxLine bytes, of which the rest was not read
	Unprintable      int64 // lines with control characters or bytes that are not UTF-8

	Log       log.Log
	Versions  []string // of NCCL, as they were found
	Hosts     []string // sorted
	Processes int
	Full      bool // a limit was reached: counts are at least these

	Communicators []Communicator

	Findings []Finding // failures and notes, in the order of their first lines
	Warnings []Warning // of NCCL without a signature
	Unknown  int64     // lines that are such warnings
}

// Communicator is a group of ranks.
type Communicator struct {
	ID       string // empty before NCCL 2.16
	Ranks    int    // that it has
	Started  int    // ranks whose set-up the log shows the begin or the end of
	Complete int    // ranks whose set-up ended
	Missing  []int  // first ranks that began and did not end
	Spread   bool   // ranks of it are on more than one host

	host string // that logged first
	// How often each rank began and ended a set-up. Releases from 2.23 on log no ID of what is split from
	// another communicator, so that groups of one size count as one communicator.
	started, complete map[int]int32
}

// Finding is a signature that the log shows.
type Finding struct {
	Signature *signature.Signature
	Count     int64
	Hosts     []string // that logged it; as far as is known
	// What follows is of the first line.
	Line int64
	Host string // empty if not known
	Rank int    // Unknown if not known
	Code int    // completion status or Xid; signature.NoCode if it has none
	Peer string // address of the other side; empty if it names none
	Text string
}

// Warning is a line of NCCL that has no signature.
type Warning struct {
	Line int64
	Text string
}

// process is a process that logs.
type process struct {
	host string
	pid  int
}

// member is which rank a process is, of how many.
type member struct{ rank, of int }

// group is what distinguishes communicators.
type group struct {
	id    string
	ranks int
}

// reading is a Result in the making.
type reading struct {
	Result
	log       *log.Log
	hosts     map[string]struct{}
	processes map[process]member
	groups    map[group]int // communicators by what distinguishes them
	tracked   int           // ranks
	warnings  map[string]struct{}
}

// Read reads a log to its end, or the first maxBytes of it.
func Read(from io.Reader) (*Result, error) { return readSome(from, maxBytes) }

func readSome(from io.Reader, most int64) (*Result, error) {
	const buffer = 64 << 10
	limited := &io.LimitedReader{R: from, N: most + 1}
	in := bufio.NewReaderSize(limited, buffer)
	if err := refuse(in); err != nil {
		return nil, err
	}
	r := &reading{
		log: log.New(), hosts: map[string]struct{}{}, processes: map[process]member{}, groups: map[group]int{},
		warnings: map[string]struct{}{},
	}
	for {
		line, long, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		r.Cut = limited.N == 0
		if err == nil || len(line) > 0 && !r.Cut {
			r.line(line, long)
		}
		if err != nil {
			break
		}
	}
	return r.result(), nil
}

// readLine returns a line, or the beginning of a long one whose rest it skips. The line is valid until the next call.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	line, err = in.ReadSlice('\n')
	if len(line) > log.MaxLine {
		line, long = line[:log.MaxLine], true
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, long, err
	}
	line = bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return line, true, err
}

// compressed is how archives begin, and what prints them.
var compressed = []struct{ magic, name, command string }{
	{"\x1f\x8b", "gzip", "zcat"}, {"\x28\xb5\x2f\xfd", "zstd", "zstdcat"}, {"\xfd7zXZ\x00", "xz", "xzcat"}, {"BZh", "bzip2", "bzcat"},
}

// refuse looks at the first bytes. Zeros are no sign of a binary file: a log that was truncated while it was
// written begins with them.
func refuse(in *bufio.Reader) error {
	head, err := in.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, c := range compressed {
		if bytes.HasPrefix(head, []byte(c.magic)) {
			return fmt.Errorf("%w: it is compressed with %s: expected a log (%s FILE | gpufabric_exporter explain -)",
				ErrNotText, c.name, c.command)
		}
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return fmt.Errorf("%w in UTF-8 but in UTF-16: expected a log (iconv -f UTF-16 -t UTF-8 FILE)", ErrNotText)
	}
	controls := 0
	for _, b := range head {
		if b != 0 && b < ' ' && !strings.ContainsRune("\t\n\r\x1b\b\f", rune(b)) {
			controls++
		}
	}
	const tolerated = 5 // percent; random bytes have 10
	if controls*100 > len(head)*tolerated {
		return fmt.Errorf("%w: %d of its first %d bytes are control characters: expected a log", ErrNotText, controls,
			len(head))
	}
	return nil
}

// line reads one line.
func (r *reading) line(line []byte, long bool) {
	r.Lines++
	if long {
		r.Long++
	}
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	line = bytes.TrimLeft(line, "\x00")
	if unprintable(line) {
		r.Unprintable++
	}
	if len(line) < len("NCCL ") { // each signature is longer
		return
	}
	text := string(line)
	e, found := r.log.Add(text)
	if !found {
		if s, code := signature.MatchLine(text); s != nil {
			r.find(s, code, process{pid: log.Unknown}, text)
		}
		return
	}
	r.NCCLLines++
	from := r.process(e)
	switch e.Level {
	case log.Warn:
		r.warned(from, e.Message)
	case log.Info:
		r.informed(from, e.Message)
	case log.Version:
	}
	message := e.Message
	if rest, printed := strings.CutPrefix(message, "NCCL version "); printed || e.Level == log.Version {
		message = rest
		if v, _, ok := log.ParseVersion(message); ok && !slices.Contains(r.Versions, v) && len(r.Versions) < maxVersions {
			r.Versions = append(r.Versions, v)
		}
	}
}

func unprintable(line []byte) bool {
	ascii := true
	for _, b := range line {
		if b < ' ' && b != '\t' || b == 0x7f {
			return true
		}
		ascii = ascii && b < utf8.RuneSelf
	}
	return !ascii && !utf8.Valid(line)
}

// process counts the process that an entry is of.
func (r *reading) process(e log.Entry) process {
	from := process{e.Host, e.PID}
	if e.Host == "" {
		return from
	}
	if _, known := r.processes[from]; known {
		return from
	}
	if len(r.processes) == maxProcesses {
		r.Full = true
		return from
	}
	r.processes[from] = member{rank: log.Unknown}
	if _, known := r.hosts[e.Host]; !known {
		if len(r.hosts) == maxHosts {
			r.Full = true
			return from
		}
		r.hosts[e.Host] = struct{}{}
	}
	return from
}

func (r *reading) warned(from process, message string) {
	if message == "" {
		return
	}
	if s, code := signature.Match(signature.NCCL, message); s != nil {
		r.find(s, code, from, message)
		return
	}
	r.Unknown++
	if len(r.Warnings) == maxWarnings {
		return
	}
	text := log.Text(message)
	if _, known := r.warnings[text]; !known {
		r.warnings[text] = struct{}{}
		r.Warnings = append(r.Warnings, Warning{r.Lines, shown(message)})
	}
}

func (r *reading) informed(from process, message string) {
	if i, ok := log.ParseInit(message); ok {
		if p, is := r.processes[from]; is && i.Ranks > p.of { // the largest communicator is the job's
			r.processes[from] = member{i.Rank, i.Ranks}
		}
		r.communicator(i, from.host)
		return
	}
	if s := signature.MatchInfo(message); s != nil {
		r.find(s, signature.NoCode, from, message)
	}
}

// communicator notes the set-up of a rank.
func (r *reading) communicator(i log.Init, host string) {
	at, known := r.groups[group{i.ID, i.Ranks}]
	if !known {
		if len(r.Communicators) == maxCommunicators {
			r.Full = true
			return
		}
		at = len(r.Communicators)
		r.groups[group{i.ID, i.Ranks}] = at
		r.Communicators = append(r.Communicators, Communicator{
			ID: i.ID, Ranks: i.Ranks, started: map[int]int32{},
			complete: map[int]int32{},
		})
	}
	c := &r.Communicators[at]
	if c.host == "" {
		c.host = host
	}
	// without an ID, ranks of other communicators may be among them
	c.Spread = c.Spread || host != "" && host != c.host && i.ID != ""
	if _, known := c.started[i.Rank]; !known {
		if r.tracked == maxRanks {
			r.Full = true
			return
		}
		r.tracked++
	}
	if i.Complete {
		c.complete[i.Rank]++
		c.started[i.Rank] = max(c.started[i.Rank], c.complete[i.Rank]) // releases before 2.16 log no begin
	} else {
		c.started[i.Rank]++
	}
}

// find notes a signature.
func (r *reading) find(s *signature.Signature, code int, from process, message string) {
	at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Signature.ID == s.ID })
	if at < 0 {
		if len(r.Findings) == maxFindings {
			r.Full = true
			return
		}
		rank := rankNamed(message)
		if p, known := r.processes[from]; known {
			rank = p.rank
		}
		at = len(r.Findings)
		r.Findings = append(r.Findings, Finding{
			Signature: s, Line: r.Lines, Host: from.host, Rank: rank, Code: code, Peer: shown(signature.Peer(message)),
			Text: shown(message),
		})
	}
	f := &r.Findings[at]
	f.Count++
	if from.host != "" && len(f.Hosts) < maxFindingHosts && !slices.Contains(f.Hosts, from.host) {
		f.Hosts = append(f.Hosts, from.host)
	}
}

// rankNamed is the rank that PyTorch puts before its lines, "[rank3]:[E ..." or "[Rank 3] ...".
func rankNamed(line string) int {
	for _, before := range []string{"[rank", "[Rank ", " Rank "} {
		if _, rest, found := strings.Cut(line, before); found {
			digits, _, _ := strings.Cut(rest, "]")
			if n, err := strconv.Atoi(digits); err == nil && n >= 0 && n < maxRanks {
				return n
			}
		}
	}
	return log.Unknown
}

// shown is text of a log that may be printed: bounded, without control characters and credentials.
func shown(s string) string { return fabric.MaskCredentials(log.Text(s)) }
