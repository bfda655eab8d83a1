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
		if err != nil && isTemplate(text) {
			plain, whole := withoutTemplates(text)
			if list, err = decode(plain, &left); err != nil || !whole {
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

// isTemplate reports whether something fills in a part of a text.
func isTemplate(text []byte) bool {
	return bytes.Contains(text, []byte("${")) || bytes.Contains(text, []byte("{{"))
}

// withoutTemplates puts words that are as long in place of what a template fills in. They begin with $, which
// says that they are not known, and keep its letters. Lines that a template has for itself become comments: then
// whole is false.
func withoutTemplates(text []byte) (plain []byte, whole bool) {
	plain, whole = bytes.Clone(text), true
	at := 0
	for line := range bytes.Lines(text) {
		own := plain[at : at+len(line)]
		at += len(line)
		if bare := bytes.TrimSpace(line); bytes.HasPrefix(bare, []byte("{{")) && bytes.HasSuffix(bare, []byte("}}")) {
			own[bytes.IndexByte(own, '{')], whole = '#', false
			continue
		}
		for _, bounds := range [][2]string{{"${", "}"}, {"{{", "}}"}} {
			for from := 0; ; {
				begin := bytes.Index(own[from:], []byte(bounds[0]))
				if begin < 0 {
					break
				}
				begin += from
				length := bytes.Index(own[begin:], []byte(bounds[1]))
				if length < 0 {
					break
				}
				from = begin + length + len(bounds[1])
				for i := begin; i < from; i++ {
					if !isWordByte(own[i]) {
						own[i] = '_'
					}
				}
				own[begin] = '$'
			}
		}
	}
	return plain, whole
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
