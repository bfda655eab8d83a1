// SPDX-License-Identifier: Apache-2.0

package ras

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lazyregexp"
)

// Lines of a report of rasClientRunComms (src/ras/client_support.cc of 2.24 to 2.28.3).
var (
	lineVersion = lazyregexp.New(`^NCCL version (\S{1,32}) compiled with CUDA`)
	// group, communicators in it, nodes and ranks per node, ranks per communicator, ranks in the group, status, errors
	lineGroup    = lazyregexp.New(`^ *(\d{1,5}) +(\d{1,5}) +\d+ +\d+(?:-\d+)? +(\d{1,7}) +\d+ +([A-Z]+) +([A-Z,]+)$`)
	lineDetails  = lazyregexp.New(`^#(\d{1,5})-(\d{1,5}) \(([0-9a-f]{16})\) (INCOMPLETE|ERROR|MISMATCH)$`)
	lineSilent   = lazyregexp.New(`^  Missing communicator data from (\d{1,7}) job process(?:es)?$`)
	lineDead     = lazyregexp.New(`^  (\d{1,7}) job process(?:es are| is) considered dead`)
	lineProcess  = lazyregexp.New(`^  Process (\d{1,10}) on node (\S{1,60}) managing GPU`)
	lineTimeouts = lazyregexp.New(`^  Encountered (\d{1,7}) communication timeouts? while`)
	lineMissing  = lazyregexp.New(`^  Missing communicator data from (\d{1,7}) ranks?$`)
	lineList     = lazyregexp.New(`^  The missing ranks?: ([0-9,]+)$`) // 2.24 and 2.25
	lineErrors   = lazyregexp.New(`^  (Initialization|Asynchronous) errors? on (\d{1,7}) ranks?$`)
	lineLaunched = lazyregexp.New(`^  \d{1,7} ranks have (?:launched up to operation (\d{1,19})|not launched any operations)$`)
	lineReported = lazyregexp.New(`^  \d{1,7} ranks reported ([A-Za-z ]{1,40})$`)
	lineRank     = lazyregexp.New(`^  Rank (\d{1,7})(?: (has launched up to operation (\d{1,19})|has not launched any operations|has status [A-Z]+|reported ([A-Za-z ]{1,40})))? -- (?:GPU (\d{1,3})(?: \(NVML \d+\))? managed by process (\d{1,10}) on node (\S{1,60})|\[process information not found\])$`)
)

// resultOf is the ncclResult_t that ncclErrorToString names; 1, an error, for one that is not known.
func resultOf(text string) int {
	for result, name := range []string{
		1: "Unhandled CUDA error", 2: "System error", 3: "Internal error",
		4: "Invalid argument", 5: "Invalid usage", 6: "Remote process error",
	} {
		if name == text {
			return result
		}
	}
	return 1
}

// textReport is what has been read of a report.
type textReport struct {
	answer  fabric.RASAnswer
	first   map[int]int             // index of the first communicator of a group
	current *fabric.RASCommunicator // whose details are read; nil: none
	section string                  // word of the details
	group   fabric.RASRank          // what the ranks that follow have in common
	async   bool                    // of the errors
	kind    uint64                  // kinds of collectives read, so that counts of different ones are not compared
	ended   bool                    // the last section has begun
	listing bool                    // processes that follow are those that RAS has given up
	dead    map[fabric.RASPlace]bool
}

// parseText reads a report of 2.24 to 2.28.3. It names communicators and ranks only where something is wrong.
func parseText(b []byte) (fabric.RASAnswer, error) {
	if len(b) > maxText {
		return fabric.RASAnswer{}, fmt.Errorf("read a text of %d bytes, expected at most %d", len(b), maxText)
	}
	t := &textReport{first: map[int]int{}, dead: map[fabric.RASPlace]bool{}}
	n := 0
	for line := range bytes.Lines(b) {
		n++
		s := strings.TrimRight(string(line[:min(len(line), maxLine)]), "\r\n")
		if n == 1 {
			m := lineVersion().FindStringSubmatch(s)
			if m == nil {
				return fabric.RASAnswer{}, fmt.Errorf("read %s, expected \"NCCL version ...\"", quoted([]byte(s)))
			}
			t.answer.Version = release(m[1])
			continue
		}
		if err := t.take(s); err != nil {
			return fabric.RASAnswer{}, fmt.Errorf("line %d of the report, %s: %w", n, quoted([]byte(s)), err)
		}
	}
	if !t.ended {
		return fabric.RASAnswer{}, fmt.Errorf("read a report of %d bytes without the section Warnings: %w", len(b),
			fabric.ErrRASEnded)
	}
	return t.answer, nil
}

// take reads a line.
func (t *textReport) take(s string) error {
	switch {
	case s == "Warnings":
		t.ended, t.current = true, nil
		return nil
	case strings.HasPrefix(s, "#"):
		return t.begin(s)
	case t.current != nil:
		return t.detail(s)
	}
	if m := lineGroup().FindStringSubmatch(s); m != nil && !t.ended {
		return t.row(m)
	}
	t.processes(s)
	return nil
}

// processes reads a line about processes, not about a communicator.
func (t *textReport) processes(s string) {
	for _, c := range []struct {
		line *regexp.Regexp
		to   *int
	}{
		{lineSilent(), &t.answer.SilentProcesses},
		{lineDead(), &t.answer.DeadProcesses},
		{lineTimeouts(), &t.answer.Timeouts},
	} {
		if m := c.line.FindStringSubmatch(s); m != nil {
			*c.to, _ = strconv.Atoi(m[1])
			t.listing = c.to == &t.answer.DeadProcesses
		}
	}
	if m := lineProcess().FindStringSubmatch(s); m != nil && t.listing && len(t.dead) < maxSize {
		pid, _ := strconv.Atoi(m[1])
		t.dead[fabric.RASPlace{Host: hostOf(m[2]), PID: pid}] = true
	}
}

// row reads a group of communicators that are alike.
func (t *textReport) row(m []string) error {
	group, _ := strconv.Atoi(m[1])
	count, _ := strconv.Atoi(m[2])
	size, _ := strconv.Atoi(m[3])
	if _, twice := t.first[group]; twice || count < 1 || size < 1 || size > maxSize ||
		len(t.answer.Communicators)+count > maxComms {
		return fmt.Errorf("expected one row for a group, of 1 to %d communicators of 1 to %d ranks", maxComms, maxSize)
	}
	t.first[group] = len(t.answer.Communicators)
	for range count {
		t.answer.Communicators = append(t.answer.Communicators, fabric.RASCommunicator{Size: size})
	}
	return nil
}

// begin reads the line above the details of a communicator.
func (t *textReport) begin(s string) error {
	m := lineDetails().FindStringSubmatch(s)
	if m == nil {
		return errors.New("expected #GROUP-NUMBER (HASH) and what is wrong")
	}
	group, _ := strconv.Atoi(m[1])
	number, _ := strconv.Atoi(m[2])
	first, ok := t.first[group]
	if !ok || first+number >= len(t.answer.Communicators) {
		return errors.New("expected a communicator of the table")
	}
	t.current, t.section, t.group, t.kind = &t.answer.Communicators[first+number], m[4], fabric.RASRank{}, 0
	t.current.ID = m[3]
	return nil
}

// detail reads a line about the current communicator.
func (t *textReport) detail(s string) error {
	c := t.current
	if m := lineMissing().FindStringSubmatch(s); m != nil {
		n, _ := strconv.Atoi(m[1])
		c.MissingCount = min(n, c.Size)
	} else if m := lineList().FindStringSubmatch(s); m != nil && len(s) < maxLine {
		// one that was cut may end in a part of a number
		t.missing(m[1])
	} else if m := lineErrors().FindStringSubmatch(s); m != nil {
		n, _ := strconv.Atoi(m[2])
		c.FailedCount, t.async = min(c.FailedCount+n, c.Size), m[1] == "Asynchronous"
	} else if m := lineReported().FindStringSubmatch(s); m != nil {
		t.group = t.failed(m[1])
	} else if strings.HasPrefix(s, "  Communicator ranks have different ") {
		t.kind++
		t.group = fabric.RASRank{}
	} else if m := lineLaunched().FindStringSubmatch(s); m != nil {
		t.group = t.launched(m[1])
	} else if m := lineRank().FindStringSubmatch(s); m != nil {
		return t.rank(m)
	}
	return nil
}

// missing takes a list of ranks: "3,5", or ",3" where rank 0 is there.
func (t *textReport) missing(list string) {
	for number := range strings.SplitSeq(list, ",") {
		if n, err := strconv.Atoi(number); err == nil && n < t.current.Size && len(t.current.Missing) < t.current.Size {
			t.current.Missing = append(t.current.Missing, fabric.RASMissing{
				RASPlace:     fabric.RASPlace{Rank: n, GPU: -1},
				Unresponsive: true,
			})
		}
	}
}

func (t *textReport) failed(name string) fabric.RASRank {
	if t.async {
		return fabric.RASRank{AsyncError: resultOf(name)}
	}
	return fabric.RASRank{InitState: resultOf(name)}
}

// launched takes a number of operations, of the first kind of collectives that ranks differ in: the numbers
// of another kind say nothing about it.
func (t *textReport) launched(number string) fabric.RASRank {
	if t.section != "MISMATCH" || t.kind > 1 {
		return fabric.RASRank{}
	}
	n, _ := strconv.ParseUint(number, 10, 64) // empty: none
	t.current.Spread.Add(n)
	return fabric.RASRank{Operations: n, Counted: true}
}

// rank reads a line about one rank.
func (t *textReport) rank(m []string) error {
	at := fabric.RASPlace{GPU: -1}
	at.Rank, _ = strconv.Atoi(m[1])
	if m[5] != "" {
		at.GPU, _ = strconv.Atoi(m[5])
		at.PID, _ = strconv.Atoi(m[6])
		at.Host = hostOf(m[7])
	}
	if at.Rank >= t.current.Size {
		return fmt.Errorf("expected a rank below %d", t.current.Size)
	}
	if t.section == "INCOMPLETE" {
		if len(t.current.Missing) < t.current.Size {
			t.current.Missing = append(t.current.Missing, fabric.RASMissing{
				RASPlace: at, Unresponsive: true, Dead: t.dead[fabric.RASPlace{Host: at.Host, PID: at.PID}],
			})
		}
		return nil
	}
	r := t.group
	switch {
	case m[4] != "":
		r = t.failed(m[4])
	case strings.HasPrefix(m[2], "has launched"), strings.HasPrefix(m[2], "has not launched"):
		r = t.launched(m[3])
	}
	r.RASPlace = at
	if len(t.current.Ranks) < t.current.Size && (r.Counted || r.Failed()) {
		t.current.Ranks = append(t.current.Ranks, r)
	}
	return nil
}
