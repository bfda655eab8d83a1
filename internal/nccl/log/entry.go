// SPDX-License-Identifier: Apache-2.0

package log

import (
	"strconv"
	"strings"
)

// Level is the kind of an entry.
type Level string

// Levels. NCCL writes others (TRACE, CALL) only if it was built for them.
const (
	Info    Level = "INFO"
	Warn    Level = "WARN"
	Version Level = "version" // the line of NCCL_DEBUG=VERSION, which has no host
)

// acrossCluster is how Ray ends a line that stands for several.
const acrossCluster = "x across cluster]"

// Entry is one line of NCCL, after the words of a launcher.
type Entry struct {
	Host    string // as far as the first full stop; empty if the line has none
	PID     int    // in the PID namespace of the process; Unknown if the line has none
	Thread  int    // Unknown if the line has none
	Level   Level
	Place   string // of a warning in the source: "transport/nvls.cc:244", or a function of a plugin
	Message string // not yet fit to be printed: see Text
}

// parseEntry parses "gpu1:41:50 [0] NCCL INFO message" and "[2026-01-02 03:04:05] gpu1:41:50 [0]
// net_ib.cc:1295 (f) NCCL WARN message" (NCCL src/debug.cc). It reports whether NCCL wrote the line.
func parseEntry(line string) (Entry, bool) {
	for from := 0; ; {
		at := strings.Index(line[from:], "NCCL ")
		if at < 0 {
			return parseOld(line)
		}
		at += from
		from = at + len("NCCL ")
		level, message, _ := strings.Cut(line[from:], " ")
		switch e := (Entry{PID: Unknown, Thread: Unknown, Level: Level(level)}); e.Level {
		case Info, Warn:
			e.Message = strings.TrimSpace(message)
			if strings.HasSuffix(e.Message, acrossCluster) {
				e.Message, _, _ = strings.Cut(e.Message, " [repeated ")
			}
			e.origin(uncoloured(line[:at]))
			if e.Level == Warn && e.Place == "" {
				e.Place = sourcePlace(line[:at])
			}
			return e, true
		case Version:
			// the rest of the line may have as many again
			release := word(strings.TrimLeft(message, " \t"))
			// PyTorch ends errors with one that has none
			if _, _, ok := ParseVersion(release); ok && strings.Contains(release, "+cuda") {
				e.Message = strings.TrimSpace(message)
				return e, true
			}
		}
	}
}

// parseOld parses "gpu1:41:50 [0] misc/ibvwrap.cu:61 WARN message" and "gpu1:41:50 [0] INFO message" of NCCL 2.3 and
// earlier.
func parseOld(line string) (Entry, bool) {
	if before, message, found := strings.Cut(line, "] INFO "); found {
		e := Entry{PID: Unknown, Thread: Unknown, Level: Info, Message: strings.TrimSpace(message)}
		before, device, numbered := cutLast(uncoloured(before), '[')
		origin := lastWord(before)
		for _, launcher := range []string{">:", "]:"} { // "[1,0]<stdout>:gpu1:41:50"
			if at := strings.LastIndex(origin, launcher); at >= 0 {
				origin = origin[at+len(launcher):]
			}
		}
		host, rest, _ := strings.Cut(origin, ":")
		if numbered && isNumber(device) && !isNumber(host) && strings.Count(rest, ":") == 1 { // it is no time
			e.origin(before)
		}
		return e, e.Host != ""
	}
	before, message, found := strings.Cut(line, "WARN ") // a rare byte first: most lines are of programs
	if !found || !strings.Contains(before, "] ") || !strings.Contains(before, ".cu:") && !strings.Contains(before, ".h:") {
		return Entry{}, false
	}
	e := Entry{PID: Unknown, Thread: Unknown, Level: Warn, Message: strings.TrimSpace(message)}
	e.origin(uncoloured(before))
	return e, e.Host != ""
}

// origin reads the last word of the form host:pid:tid, and what comes behind it.
func (e *Entry) origin(line string) {
	before := line
	for range 64 { // words, of the name of a function most of all
		before = strings.TrimRight(before, " \t")
		end := len(before)
		word := before[strings.LastIndexAny(before, " \t")+1:]
		if word == "" {
			return
		}
		before = before[:end-len(word)]
		rest, tid, found := cutLast(word, ':')
		// "[gpu1:pid=41]", as NCCL_DEBUG_FILE of some sites has it
		if pid, is := strings.CutPrefix(tid, "pid="); is && strings.HasPrefix(rest, "[") {
			e.Host, e.PID = Text(rest[1:]), number(strings.TrimSuffix(pid, "]"))
			return
		}
		host, pid, both := cutLast(rest, ':')
		if !found || !both || host == "" || !isNumber(tid) || !isNumber(pid) {
			continue
		}
		n, ok := count(pid)
		if !ok {
			continue
		}
		host = host[strings.LastIndexAny(host, ":]")+1:] // launchers may write right before it: "[node-a:3]:node-a"
		e.Host, e.PID = Text(host), n
		if t, ok := count(tid); ok {
			e.Thread = t
		}
		if e.Level == Warn {
			e.place(line[end:])
		}
		return
	}
}

// sourcePlace is the last word of the form "graph/rings.cc:38", in brackets or not, where a line names no process.
func sourcePlace(line string) string {
	const words = 4
	for range words {
		w := lastWord(line)
		line = strings.TrimSuffix(strings.TrimRight(line, " "), w)
		w = strings.Trim(w, "[]")
		file, number, found := cutLast(w, ':')
		ending := file[strings.LastIndexByte(file, '.')+1:]
		if found && isNumber(number) && (ending == "cc" || ending == "h" || ending == "cu") {
			return Text(w)
		}
	}
	return ""
}

// place reads " [0] transport/nvls.cc:244 (function) ".
func (e *Entry) place(behind string) {
	behind = strings.TrimLeft(behind, " \t")
	if _, after, closed := strings.Cut(behind, "]"); closed && strings.HasPrefix(behind, "[") {
		behind = strings.TrimLeft(after, " \t")
	}
	if place := word(behind); place != "" {
		e.Place = Text(place)
	}
}

// File is the source file of the place, "transport/nvls.cc"; empty if it has none. RCCL writes whole paths, and
// has C++ of another ending.
func (e *Entry) File() string {
	file, _, found := strings.Cut(e.Place, ":")
	if !found || !strings.Contains(file, ".") {
		return ""
	}
	file = withinSource(file)
	if name, is := strings.CutSuffix(file, ".cpp"); is && strings.Contains(e.Place, "/src/") {
		return name + ".cc"
	}
	return file
}

// withinSource is the path of a file in the source, where the whole one is given.
func withinSource(file string) string {
	if at := strings.LastIndex(file, "/src/"); at >= 0 {
		return file[at+len("/src/"):]
	}
	return file
}

func cutLast(s string, separator byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, separator); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// lastWord is the last word of a text.
func lastWord(s string) string {
	s = strings.TrimRight(s, " ")
	return s[strings.LastIndexByte(s, ' ')+1:]
}

// Init is the begin or the end of the set-up of a communicator, on one rank.
type Init struct {
	ID          string // commId, which all ranks of a communicator share, from 2.16; empty before
	Rank, Ranks int
	Complete    bool
}

// ParseInit parses "ncclCommInitRank comm 0x55d0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7d
// - Init COMPLETE" (NCCL src/init.cc).
func ParseInit(message string) (Init, bool) {
	what, complete := strings.CutSuffix(message, "Init COMPLETE")
	if !complete && strings.HasPrefix(message, "comm ") {
		what, complete = strings.CutSuffix(message, " - COMPLETE") // before NCCL 2.4
	}
	if !complete {
		started := false
		if what, started = strings.CutSuffix(message, "Init START"); !started {
			return Init{}, false
		}
	}
	i := Init{Rank: Unknown, Ranks: Unknown, Complete: complete}
	name := ""
	for word := range strings.FieldsSeq(what) {
		switch name {
		case "rank":
			i.Rank = number(word)
		case "nranks":
			i.Ranks = number(word)
		case "commId":
			i.ID = Text(word)
		}
		name = word
	}
	return i, i.Rank >= 0 && i.Rank < i.Ranks
}

// maxRanks bounds the ranks of a communicator.
const maxRanks = 1 << 20

func number(s string) int {
	if n, ok := count(s); ok && n <= maxRanks {
		return n
	}
	return Unknown
}

// Timings is how long the set-up of a communicator took on one rank, in seconds.
type Timings struct {
	Rank  int
	Total float64
	// the longest part, in NCCL's words: kernels, alloc, bootstrap, allgathers, topo, graphs, connections, rest
	Phase   string
	Longest float64 // of that part
}

// parseTimings parses "Init timings - ncclCommInitRank: rank 0 nranks 2 total 1.50 (kernels 0.20, bootstrap
// 1.00, rest 0.30)" (NCCL src/init.cc, from 2.22).
func parseTimings(message string) (Timings, bool) {
	rest, found := strings.CutPrefix(message, "Init timings")
	if !found {
		return Timings{}, false
	}
	t := Timings{Rank: Unknown}
	name, known := "", false
	for word := range strings.FieldsSeq(rest) {
		switch value := strings.Trim(word, "(),"); name {
		case "rank":
			t.Rank = number(value)
		case "total":
			t.Total, known = seconds(value)
		case "kernels", "alloc", "bootstrap", "allgathers", "topo", "graphs", "connections", "rest":
			if s, ok := seconds(value); ok && s > t.Longest {
				t.Phase, t.Longest = name, s
			}
		}
		name = strings.TrimLeft(word, "(")
	}
	return t, known && t.Rank >= 0
}

// seconds refuses what no set-up takes, and what NCCL does not write: for other numbers strconv may take microseconds.
func seconds(s string) (float64, bool) {
	const day, longest = 86400, len("86400.000000000")
	if len(s) > longest || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && f >= 0 && f <= day
}
