// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// pythonSetting finds os.environ["NAME"] = "value", env["NCCL_NAME"] = "value" of any dictionary,
// environ.setdefault("NAME", "value"), putenv("NAME", "value") and an entry "NAME": "value" of a dictionary,
// or an argument NCCL_NAME="value", also on a line of its own. The value is a text in quotes, or any other
// expression.
var pythonSetting = lazyregexp.New(`(?:environ\s*\[\s*["'](\w+)["']\s*\]\s*=|\w\s*\[\s*["'](NCCL_\w+)["']\s*\]\s*=|(?:setdefault|putenv)\s*\(\s*["'](\w+)["']\s*,|["'](\w+)["']\s*:|[(,]\s*(NCCL_\w+)\s*=|^\s+(NCCL_\w+)=)\s*[rb]?(?:"([^"\\\n]*)"|'([^'\\\n]*)'|([^\s]))`)

// clientObject finds EnvVar(name="NAME", value="value"), an object of a client of Kubernetes, on several lines too.
var clientObject = lazyregexp.New(`EnvVar\s*\(\s*(?:name\s*=\s*)?["'](\w+)["']\s*,\s*(?:value\s*=\s*)?(?:"([^"\\\n]*)"|'([^'\\\n]*)'|([^\s]))`)

// clientObjects returns the settings of such objects, by line.
func clientObjects(text string) map[int][]setting {
	objects := map[int][]setting{}
	line, at := 1, 0
	for _, m := range clientObject().FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		line += strings.Count(text[at:m[2]], "\n")
		at = m[2]
		objects[line] = append(objects[line], setting{
			Setting: settings.Setting{Line: line, Name: part(1), Value: part(2) + part(3)}, set: true,
			dynamic: m[8] >= 0, scripted: true,
		})
	}
	return objects
}

// pythonNodes finds the number of nodes among arguments: of Lightning, Ray and Kubeflow.
var pythonNodes = lazyregexp.New(`(?:num_nodes|nnodes)\s*=\s*(\d+)`)

// parsePython reads the settings of a Python program, line by line. Comments and texts of several lines are
// no settings; such a text that sets variables of NCCL and is no documentation is mentioned. What is indented
// may not be reached: each indented group counts as an alternative, and of settings that are repeated
// outside, each one.
func (in *Input) parsePython(data []byte) {
	text, unread := pythonCode(string(data))
	var body, indented []part
	reached := func() { // what is indented ends
		if len(indented) > 0 {
			body, indented = append(body, part{kind: partBranch, body: [][]part{indented}}), nil
		}
	}
	objects := clientObjects(text)
	number, indent := 0, 0
	for line := range strings.Lines(text) {
		number++
		code := strings.TrimLeft(line, " \t")
		if strings.TrimSpace(code) == "" {
			continue
		}
		if now := len(line) - len(code); now < indent || now > indent && now > 0 {
			reached()
			indent = now
		}
		if m := pythonNodes().FindStringSubmatch(line); m != nil && !strings.HasPrefix(code, "def ") {
			in.noteNodes(number, m[0], m[1])
		}
		found := objects[number]
		for _, m := range pythonSetting().FindAllStringSubmatch(line, -1) {
			if m[9] == "=" { // a comparison
				continue
			}
			found = append(found, setting{
				Setting: settings.Setting{Line: number, Name: strings.Join(m[1:7], ""), Value: m[7] + m[8]}, set: true,
				dynamic: m[9] != "", scripted: true,
			})
		}
		for _, s := range found {
			at := len(in.settings)
			in.add(s)
			switch {
			case len(in.settings) == at:
			case indent > 0:
				indented = append(indented, part{kind: partSet, setting: at})
			default:
				body = append(body, part{kind: partSet, setting: at})
			}
		}
		if indent == 0 && strings.Contains(code, "(") { // it may start ranks
			body = append(body, part{kind: partRun})
		}
	}
	reached()
	in.scripts = append(in.scripts, script{in.scopes, body})
	for _, at := range unread {
		in.append(setting{Setting: settings.Setting{Line: at}, findings: []Finding{
			{Undecided, verdict.Info, "The text that begins here sets variables of NCCL, and is not judged: what reads it is not known", "run lint with the text in a file of its own"},
		}})
	}
}

// pythonCode returns a program with blanks in place of its comments and of texts between three quotes, and
// the lines of those that set variables of NCCL and are more than a statement, which is documentation.
func pythonCode(text string) (code string, unread []int) {
	b := []byte(text)
	line, begin := 1, true // begin: nothing but blanks stands before, on the line
	erase := func(from, to int) {
		for i := from; i < to; i++ {
			if b[i] != '\n' {
				b[i] = ' '
			}
		}
	}
	for i := 0; i < len(text); {
		rest := text[i:]
		switch c := text[i]; {
		case c == '\n':
			line, begin = line+1, true
			i++
		case c == '#':
			end, _, _ := strings.Cut(rest, "\n")
			erase(i, i+len(end))
			i += len(end)
		case strings.HasPrefix(rest, `"""`), strings.HasPrefix(rest, "'''"):
			body, _, _ := strings.Cut(rest[3:], rest[:3])
			if !begin && setsNCCL().MatchString(body) {
				unread = append(unread, line)
			}
			end := min(i+len(body)+6, len(text))
			erase(i, end)
			line += strings.Count(body, "\n")
			i, begin = end, false
		case c == '"' || c == '\'':
			i += quotedLength(rest)
			begin = false
		default:
			begin = begin && strings.IndexByte(" \trRuUbBfF", c) >= 0
			i++
		}
	}
	return string(b), unread
}

// quotedLength is the length of a text between quotes on one line.
func quotedLength(text string) int {
	for i := 1; i < len(text) && text[i] != '\n'; i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return 1
}
