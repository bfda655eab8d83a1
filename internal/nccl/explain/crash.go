// SPDX-License-Identifier: Apache-2.0

package explain

import "strings"

// crash is where a process crashed: the first frames of its stack that say so.
type crash struct {
	line              int64 // of the crash; 0: none is known yet
	seen              int64 // line of the first frame that counts
	library, function string
	python            string // first frame that the handler of faults of Python shows, "x.py (f)"
}

// near is how many lines a stack and the line of its signal are apart at most.
const near = 64

// bystanders are libraries and functions that every stack of a signal has at its top.
var bystanders = []string{
	"libc.so", "libc-", "libpthread", "ld-linux", "libucs", "libopen-", "libmpi", "libasan", "libtsan",
	"linux-vdso", "libfolly",
}

// at notes the first crash; a kernel's line names the library itself. Frames long before it are of something else.
func (c *crash) at(line int64, text string) {
	if c.line > 0 {
		return
	}
	if c.seen > 0 && line-c.seen > near {
		*c = crash{}
	}
	c.line = line
	if _, rest, is := strings.Cut(text, "segfault at "); is && c.library == "" {
		if _, library, found := strings.Cut(rest, " in "); found {
			library, _, _ = strings.Cut(library, "[")
			c.add(line, library, "")
		}
	}
}

// frame takes a line of a stack.
func (c *crash) frame(line int64, text string) {
	if c.line > 0 && line-c.line > near {
		return
	}
	if c.line == 0 && c.seen > 0 && line-c.seen > near {
		*c = crash{}
	}
	if c.line == 0 && strings.Contains(text, "frame #") { // of an exception of C++
		return
	}
	if library, function := frameOf(text); library+function != "" {
		c.add(line, library, function)
	} else if c.line > 0 && c.python == "" {
		c.python = pythonFrame(text)
	}
}

// pythonFrame takes `  File "/x/zzz.py", line 7 in f`; tracebacks of exceptions have a comma before "in".
func pythonFrame(text string) string {
	_, rest, is := strings.Cut(text, `File "`)
	file, rest, quoted := strings.Cut(rest, `", line `)
	number, function, named := strings.Cut(rest, " in ")
	if !is || !quoted || !named || strings.HasSuffix(number, ",") {
		return ""
	}
	return file[strings.LastIndexByte(file, '/')+1:] + " (" + function + ")"
}

func (c *crash) add(line int64, library, function string) {
	library = library[strings.LastIndexByte(library, '/')+1:]
	if library != "" && has(library, bystanders) {
		return
	}
	if c.seen == 0 {
		c.seen = line
	}
	if c.library == "" {
		c.library = shown(library)
	}
	if c.function == "" && (c.library == shown(library) || library == "") {
		c.function = shown(function)
	}
}

// place is the library and function, "libfoo.so (foo)"; empty: not known. It says nothing without a crash.
func (c *crash) place() string {
	switch {
	case c.line == 0 || c.library+c.function == "":
		return ""
	case c.library == "" || c.function == "":
		return c.library + c.function
	}
	return c.library + " (" + c.function + ")"
}

// frameOf takes frames of gdb ("#1  0x7f in foo (x=1) from /lib/libfoo.so"), glibc and Open MPI
// ("[ 1] /lib/libfoo.so(foo+0x12)[0x7f]") and UCX ("24 0x81f9a foo()  /src/foo.cc:9").
func frameOf(text string) (library, function string) {
	if strings.Contains(text, "frame #") { // of PyTorch, "frame #1: foo(int) + 0x57 (0x7f in /lib/libfoo.so)"
		library = text[strings.LastIndex(text, " in ")+1:]
		library, is := strings.CutPrefix(library, "in ")
		if !is {
			return "", ""
		}
		return strings.TrimRight(library, ") "), ""
	}
	if file, function := written(text); function != "" && !has(file, handlers) {
		return "", function
	}
	if at := strings.IndexByte(text, '#'); at >= 0 && at+1 < len(text) && isDigit(text[at+1]) {
		_, rest, found := strings.Cut(text[at:], " in ")
		if !found {
			return "", ""
		}
		name, rest, _ := strings.Cut(rest, " (")
		if name == "??" {
			name = ""
		}
		if _, from, is := strings.Cut(rest, " from "); is {
			library = strings.TrimSpace(from)
		}
		return library, name
	}
	if before, rest, found := strings.Cut(text, "()  "); found && strings.Contains(before, " 0x") {
		name := before[strings.LastIndexByte(before, ' ')+1:]
		switch library, _, _ := strings.Cut(rest, ":"); {
		case name == "???" && strings.Contains(library, ".so"):
			return library, ""
		case name == "???", strings.HasPrefix(rest, "???"): // the nearest symbol, of which most are wrong
			return "", ""
		}
		return "", name
	}
	before, rest, found := strings.Cut(text, "(")
	symbol, _, closed := strings.Cut(rest, "+0x")
	if !found || !closed || !strings.Contains(before, ".so") {
		return "", ""
	}
	return strings.TrimSpace(before), symbol
}

// handlers are parts of the C library that every stack of a signal has at its top.
var handlers = []string{"sysdeps/", "nptl/", "signal/"}

// written takes `  File "misc/cudawrap.cc", line 92, in f()`, as some handlers of signals print frames that are not of
// Python.
func written(text string) (file, function string) {
	_, rest, is := strings.Cut(text, `File "`)
	file, rest, quoted := strings.Cut(rest, `", line `)
	_, function, named := strings.Cut(rest, ", in ")
	if !is || !quoted || !named || strings.HasSuffix(file, ".py") || strings.HasPrefix(file, "<") && file != "<unknown>" ||
		strings.HasPrefix(function, "0x") || strings.HasPrefix(function, "<") { // <module> is of Python
		return "", ""
	}
	return file, strings.TrimSuffix(function, "()")
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
