// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// parseManifest reads the settings of YAML or JSON documents: env of containers, maps whose keys are
// variables (ConfigMap, Compose, Helm), lists of NAME=value (Compose), and scripts in texts. Aliases are not
// followed: what they stand for is read where it is written. A document that is neither costs itself alone.
func (in *Input) parseManifest(data []byte) error {
	in.refused = map[*yaml.Node]bool{}
	var flaw error
	var flawed []int
	read, left := false, maxDocuments
	for line, text := range documents(data) {
		list, err := decode(text, &left)
		if err != nil && template().Match(text) {
			if list, err = decode(withoutTemplates(text), &left); err != nil || directive().Match(text) {
				read, flawed = true, append(flawed, line+1)
			}
		}
		if left < 0 {
			return fmt.Errorf("expected at most %d documents", maxDocuments)
		}
		if err != nil { // a text of the document may be a secret: only the place is reported
			flaw = cmp.Or(flaw, fmt.Errorf("expected YAML or JSON: %s", placeOf(err, line)))
			flawed = append(flawed, line+1)
		}
		for _, document := range list {
			read = true
			in.document++
			move(document, line)
			if err := in.node(document, 0); err != nil {
				return err
			}
		}
	}
	if flaw != nil && !read {
		return flaw
	}
	for _, line := range slices.Compact(flawed) {
		in.append(setting{Setting: settings.Setting{Line: line}, findings: []Finding{{
			Undecided, verdict.Info, "The document that begins here is no YAML or JSON as it stands: lines of it are not judged",
			"run lint on what a template becomes: helm template ... | gpufabric_exporter lint -",
		}}})
	}
	return nil
}

// documents yields the parts of a manifest between lines of ---, with the number of lines before each.
func documents(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		from, at, begin, number := 0, 0, 0, 0
		for line := range bytes.Lines(data) {
			if bytes.Equal(bytes.TrimRight(line, " \t\r\n"), []byte("---")) {
				if !yield(begin, data[from:at]) {
					return
				}
				from, begin = at+len(line), number+1
			}
			at += len(line)
			number++
		}
		yield(begin, data[from:])
	}
}

// decode reads the documents of a text, and takes their number from how many are left.
func decode(text []byte, left *int) (list []*yaml.Node, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		document := new(yaml.Node)
		switch err := d.Decode(document); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, err
		}
		if *left--; *left < 0 {
			return nil, nil
		}
		list = append(list, document)
	}
}

// move adds the lines before a document to those of its nodes.
func move(n *yaml.Node, lines int) {
	n.Line += lines
	for _, c := range n.Content {
		move(c, lines)
	}
}

// placeOf is the line that an error of the parser names, without its text.
func placeOf(err error, before int) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var line int
	if _, err := fmt.Sscanf(text, "line %d:", &line); err == nil {
		return fmt.Sprintf("line %d is neither", line+before)
	}
	return "it is neither"
}

var (
	template = lazyregexp.New(`\$\{[^{}\n]*\}|\{\{[^\n]*?\}\}`)
	// directive is a line that a template has for itself.
	directive = lazyregexp.New(`(?m)^[ \t]*\{\{[^\n]*\}\}[ \t\r]*$`)
)

// withoutTemplates puts words that are as long in place of what a template fills in. They begin with $, which
// says that they are not known, and keep its letters.
func withoutTemplates(text []byte) []byte {
	text = directive().ReplaceAllFunc(text, func(line []byte) []byte {
		return append([]byte{'#'}, bytes.Repeat([]byte{'_'}, len(line)-1)...)
	})
	return template().ReplaceAllFunc(text, func(one []byte) []byte {
		return append([]byte{'$'}, bytes.Map(func(c rune) rune {
			if c < 128 && isWordByte(byte(c)) {
				return c
			}
			return '_'
		}, one[1:])...)
	})
}

// chosenDefault matches ${NAME:-value}, as Compose and shells have it.
var chosenDefault = lazyregexp.New(`\$\{\w+:?-([^${}\n]*)\}`)

// filled returns the value that a template has where the caller does not choose. What else replaces a part of
// it before the container starts makes it unknown: $(NAME) of Kubernetes, ${NAME} of Compose and envsubst, {{ }}
// of Helm and Argo. No value of NCCL has these characters.
func filled(value string) (text string, chosen, dynamic bool) {
	text = chosenDefault().ReplaceAllString(value, "$1")
	if strings.Contains(text, "$") || strings.Contains(text, "{{") {
		return value, false, true
	}
	return text, text != value, false
}
