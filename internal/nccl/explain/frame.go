// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/nccl/log"
)

// at is where a program raised an exception, as far as its stack shows it.
type at struct {
	line             int64 // of the frame; 0: none
	stream           string
	path, number, in string
	packed           bool // the path begins with the package
}

// standard are parts of paths of what is no part of a program: Python itself, and what starts processes.
var standard = []string{
	"/lib/python3", "/lib64/python3", "<frozen", "<string>", "bin/torchrun",
	"torch/distributed/elastic", "torch/distributed/run.py", "torch/distributed/launcher",
}

// packaged are folders of packages, in which the path of a package begins.
var packaged = []string{"site-packages/", "dist-packages/"}

// frame takes `  File "/x/site-packages/zzz/yyy.py", line 7, in f`.
func (a *at) frame(line int64, text string) {
	if !strings.Contains(text, `File "`) {
		return
	}
	o := log.Strip(text)
	before, rest, is := strings.Cut(o.Rest, `File "`)
	path, rest, quoted := strings.Cut(rest, `", line `)
	number, function, named := strings.Cut(rest, ", in ")
	if !is || !quoted || !named || strings.TrimSpace(before) != "" {
		return
	}
	whole, packed := path, false
	for _, folder := range packaged {
		if at := strings.LastIndex(path, folder); at >= 0 {
			path, packed = path[at+len(folder):], true
		}
	}
	if !packed && has(whole, standard) || has(path, standard[2:]) {
		return
	}
	const near = 16
	torch := func(path string) bool { return strings.HasPrefix(path, "torch/") }
	if o.Stream == a.stream && line-a.line < near && torch(path) && a.line > 0 && !torch(a.path) {
		a.line = line // who called it tells more
		return
	}
	*a = at{line, o.Stream, strings.Clone(path), strings.Clone(number), strings.Clone(function), packed}
}

var homes = lazyregexp.New(`/(?:home|users|Users|fsx|lustre|scratch)/[^/ :'"]+`)

// place is "zzz/yyy.py:7 (f)"; empty: no frame is known.
func (a *at) place() string {
	if a.line == 0 {
		return ""
	}
	const parts = 3
	path := homes().ReplaceAllString(a.path, "~")
	if list := strings.Split(path, "/"); !a.packed && len(list) > parts {
		path = strings.Join(list[len(list)-parts:], "/")
	}
	return shown(path + ":" + a.number + " (" + a.in + ")")
}

// of is the place of the exception that a line names, of whose stack the frame is; empty: not known.
func (a *at) of(line int64, text string) string {
	const near = 16
	if a.line == 0 || line-a.line > near || !strings.Contains(text, "rror") && !strings.Contains(text, "xception") {
		return ""
	}
	o := log.Strip(text)
	name, _, named := strings.Cut(strings.TrimSpace(o.Rest), ":")
	if o.Stream != a.stream || !named || strings.ContainsRune(name, ' ') {
		return ""
	}
	return a.place()
}
