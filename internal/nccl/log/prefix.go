// SPDX-License-Identifier: Apache-2.0

package log

import (
	"fmt"
	"strings"
)

// Origin is what launchers put before a line: where it is from.
type Origin struct {
	Rank int    // Unknown if they do not say
	Host string // a host, a pod or an address; empty if they do not say
	PID  int    // Unknown if they do not say
	// Stream distinguishes writers whose lines are mixed: what launchers wrote, without times.
	Stream string
	Time   string // "2026-01-02 03:04:05", as far as the line has it; empty if not
	Rest   string // the line of the program
}

// maxPrefixes is how many launchers may have written before one line: kubectl, containerd, Ray and PyTorch, with times.
const maxPrefixes = 12

// Strip takes off what launchers write before a line: Ray, torchrun, srun --label, mpirun --tag-output, SkyPilot,
// docker compose, kubectl --prefix, containerd, journald, the kernel, and times of all of them.
func Strip(line string) Origin {
	o := Origin{Rank: Unknown, PID: Unknown, Rest: uncoloured(line)}
	for range maxPrefixes {
		before := o.Rest
		if o.takeTime() || o.takeLabel() {
			if len(o.Rest) < len(before) {
				continue
			}
		}
		break
	}
	o.Host, o.Stream = Text(o.Host), Text(o.Stream)
	return o
}

// uncoloured is a line without the sequences that set colours.
func uncoloured(line string) string {
	if strings.IndexByte(line, '#') >= 0 {
		line = strings.ReplaceAll(line, "#033[", "\x1b[") // as rsyslog writes it
	}
	if strings.IndexByte(line, '\x1b') < 0 {
		return line
	}
	var b strings.Builder
	for {
		at := strings.Index(line, "\x1b[")
		if at < 0 {
			b.WriteString(line)
			return b.String()
		}
		b.WriteString(line[:at])
		line = line[at+2:]
		end := 0
		for end < len(line) && (isDigit(line[end]) || line[end] == ';') {
			end++
		}
		if end < len(line) {
			end++
		}
		line = line[end:]
	}
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// leadingDigits is how many digits a text begins with.
func leadingDigits(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

// fits reports whether a text has the form of a pattern, in which 0 is a digit.
func fits(s, pattern string) bool {
	if len(s) < len(pattern) {
		return false
	}
	for i := range len(pattern) {
		if pattern[i] == '0' && !isDigit(s[i]) || pattern[i] != '0' && pattern[i] != s[i] {
			return false
		}
	}
	return true
}

const (
	months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
	days   = "Mon Tue Wed Thu Fri Sat Sun"
)

// takeTime takes a time, in brackets or not: of RFC 3339, of Python's logging, of syslog, of dmesg.
func (o *Origin) takeTime() bool {
	rest := strings.TrimLeft(o.Rest, " \t")
	s, bracket := strings.CutPrefix(rest, "[")
	s = strings.TrimLeft(s, " ")
	end, stamp := clock(s)
	if end == 0 {
		return false
	}
	s = s[end:]
	if bracket {
		inside, after, closed := strings.Cut(s, "]")
		const most = 64 // "TP0" of SGLang, a level or a zone
		if !closed || len(inside) > most {
			return false
		}
		s = after
	}
	if o.Time == "" {
		o.Time = stamp
	}
	o.Rest = strings.TrimPrefix(s, " ")
	return true
}

// clock returns how many bytes a time has that a text begins with, and the time if it has a date.
func clock(s string) (end int, stamp string) {
	switch {
	case fits(s, "0000-00-00 00:00:00"), fits(s, "0000-00-00T00:00:00"):
		const size = len("0000-00-00 00:00:00")
		return size + zone(s[size:]), s[:len("0000-00-00")] + " " + s[len("0000-00-00 "):size]
	case len(s) > 4 && s[3] == ' ' && strings.Contains(days, s[:3]): // "Mon Jan  2 03:04:05 2026"
		if n, _ := clock(s[4:]); n > 0 {
			n += 4
			if fits(s[n:], " 0000") {
				stamp = dated(s[4:n], s[n+1:])
				n += len(" 0000")
			}
			return n, stamp
		}
	case len(s) > 15 && s[3] == ' ' && strings.Contains(months, s[:3]): // "Jan  2 03:04:05"
		if day := strings.TrimLeft(s[4:6], " "); day != "" && isNumber(strings.TrimSpace(day)) && fits(s[6:], " 00:00:00") {
			return 15, ""
		}
	case fits(s, "00:00:00"):
		return 8 + zone(s[8:]), ""
	}
	if n := leadingDigits(s); n > 0 && n < len(s) && s[n] == '.' { // "1203.447281" of dmesg, in brackets
		if d := leadingDigits(s[n+1:]); d == 6 && strings.HasPrefix(s[n+1+d:], "]") {
			return n + 1 + d, ""
		}
	}
	return 0, ""
}

// dated is "2026-01-02 03:04:05" of "Jan  2 03:04:05" and a year.
func dated(s, year string) string {
	if len(s) < len("Jan  2 03:04:05") {
		return ""
	}
	month := strings.Index(months, s[:3])/len("Jan ") + 1
	return fmt.Sprintf("%s-%02d-%s %s", year[:4], month, strings.ReplaceAll(s[4:6], " ", "0"), s[7:15])
}

// Stamp is the time that a line begins with; empty: none that has a date.
func Stamp(line string) string {
	_, stamp := clock(strings.TrimLeft(line, "[ "))
	return stamp
}

// zone is how many bytes of fractions and zone follow a time.
func zone(s string) int {
	n := 0
	if n < len(s) && (s[n] == '.' || s[n] == ',') {
		n += 1 + leadingDigits(s[1:])
	}
	if n < len(s) && s[n] == 'Z' {
		n++
	} else if fits(s[n:], "+00:00") || fits(s[n:], "-00:00") {
		n += len("+00:00")
	}
	return n
}

// takeLabel takes what is no time.
func (o *Origin) takeLabel() bool {
	rest := strings.TrimLeft(o.Rest, " \t")
	if rest == "" {
		return false
	}
	switch rest[0] {
	case '(':
		return o.parentheses(rest)
	case '[':
		return o.brackets(rest)
	case '<': // <stderr>: of mpirun
		for _, s := range []string{"<stdout>:", "<stderr>:"} {
			if after, found := strings.CutPrefix(rest, s); found {
				o.Rest = after
				return true
			}
		}
		return false
	}
	for _, s := range []string{"stdout F ", "stderr F ", "stdout P ", "stderr P "} { // containerd
		if after, found := strings.CutPrefix(rest, s); found {
			o.Rest = after
			return true
		}
	}
	return o.bar(rest) || o.colon(rest) || o.glog(rest) || o.level(rest)
}

// level takes "ERROR 02-12 19:57:26 worker_base.py:572]" of vLLM, and keeps how far the rest is indented.
func (o *Origin) level(s string) bool {
	name, rest, _ := strings.Cut(s, " ")
	switch name {
	case "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL":
	default:
		return false
	}
	const most = 96
	head, after, closed := strings.Cut(rest, "]")
	if !closed || len(head) > most || !fits(rest, "00-00 00:00:00 ") {
		return false
	}
	o.Rest = strings.TrimPrefix(after, " ")
	return true
}

// parentheses takes "(Worker pid=7, ip=10.0.0.5) " of Ray, "(EngineCore_DP0 pid=7) " of vLLM and "(head, rank=0,
// pid=7) " of SkyPilot.
func (o *Origin) parentheses(s string) bool {
	inside, after, closed := strings.Cut(s[1:], ")")
	if !closed || !strings.Contains(inside, "pid=") && !strings.Contains(inside, "rank=") {
		return false
	}
	for field := range strings.FieldsFuncSeq(inside, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "rank":
			o.rank(value)
		case "pid":
			if n, ok := count(value); ok {
				o.PID = n
			}
		case "ip":
			o.Host = value
		}
	}
	o.take("("+inside+")", strings.TrimPrefix(after, " "))
	return true
}

// brackets takes "[rank3]:" and "[default3]:" of torchrun, "[1,3]<stderr>:" of mpirun, "[pod/name/container] " of
// kubectl, "[E626 06:24:44.9 ProcessGroupNCCL.cpp:616] [Rank 3] " of PyTorch and "[node-a:3]:" of SkyPilot.
func (o *Origin) brackets(s string) bool {
	inside, after, closed := strings.Cut(s[1:], "]")
	if !closed {
		return false
	}
	if len(inside) > 2 && strings.Contains("IWEF", inside[:1]) && isDigit(inside[1]) && strings.Contains(inside, ".cpp:") {
		o.Rest = strings.TrimPrefix(after, " ")
		return true
	}
	switch name, number, _ := cutLast(inside, ','); {
	case strings.HasPrefix(inside, "rank") && o.rank(inside[len("rank"):]),
		strings.HasPrefix(inside, "Rank ") && o.rank(inside[len("Rank "):]):
	case strings.HasPrefix(inside, "default") && isNumber(inside[len("default"):]):
	case strings.HasPrefix(inside, "pod/"):
		o.Host, _, _ = strings.Cut(inside[len("pod/"):], "/")
	case isNumber(name) && isNumber(number) && strings.HasPrefix(after, "<"):
		o.rank(number)
	case strings.HasPrefix(after, ":") && !strings.ContainsAny(inside, " \t"):
		host, device, _ := cutLast(inside, ':')
		if host == "" || !isNumber(device) {
			return false
		}
		o.Host = host
	default:
		return false
	}
	o.take("["+inside+"]", strings.TrimPrefix(strings.TrimPrefix(after, ":"), " "))
	return true
}

// bar takes "trainer-1  | " of docker compose.
func (o *Origin) bar(s string) bool {
	name, after, found := strings.Cut(s, "|")
	name = strings.TrimRight(name, " ")
	if !found || !isName(name) || !strings.ContainsAny(name, "-_0123456789") || !strings.HasPrefix(after, " ") {
		return false
	}
	o.Host = name
	o.take(name, after[1:])
	return true
}

// colon takes "12: " of srun --label, "node-1: " of pdsh, and "node-1 kernel: " of journald.
func (o *Origin) colon(s string) bool {
	if host, after, found := strings.Cut(s, " kernel: "); found && isName(host) { // journald and syslog
		o.Host = host
		o.take(host, after)
		return true
	}
	name, after, found := strings.Cut(s, ": ")
	if !found || !isName(name) {
		return false
	}
	if isNumber(name) {
		o.rank(name)
		o.take(name, after)
		return true
	}
	// a word before a colon may as well be of an error: names of hosts end with a number
	numbered := isDigit(name[len(name)-1]) && !strings.Contains(name, ".cc") && !strings.Contains(name, ".py")
	says := strings.HasPrefix(after, "[") || strings.Contains(after, "NCCL") || strings.Contains(after, "Error")
	if !numbered || !says {
		return false
	}
	o.Host = name
	o.take(name, after)
	return true
}

// glog takes "E0626 06:24:44.903881 1234 ProcessGroupNCCL.cpp:616] ".
func (o *Origin) glog(s string) bool {
	if len(s) < 2 || !strings.Contains("IWEF", s[:1]) || !isDigit(s[1]) {
		return false
	}
	head, after, found := strings.Cut(s, "] ")
	const most = 96
	if !found || len(head) > most || !strings.Contains(head, ":") {
		return false
	}
	o.Rest = after
	return true
}

func isName(s string) bool {
	const most = 80
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isDigit(c) && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func (o *Origin) rank(s string) bool {
	n := number(s)
	if n == Unknown {
		return false
	}
	o.Rank = n
	return true
}

func (o *Origin) take(label, rest string) {
	o.Stream += label
	o.Rest = rest
}
