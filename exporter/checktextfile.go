// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/exposition"
	"gpufabric_exporter/internal/files"
)

// maxTextfile bounds what is read of an old textfile. Verdicts on a node of 128 ports and GPUs are some 100 KiB.
const maxTextfile = 4 << 20

// writeTextfile writes verdicts for node_exporter's textfile collector.
func writeTextfile(path string, list []diagnose.Verdict, at time.Time) error {
	return replaceTextfile(path, nil, collector.CheckFamilies(list, at))
}

// writeTextfileError says in the textfile that no checks could be made. The verdicts in it stay, with the time at which they
// were given: that a check failed is no less true.
func writeTextfileError(path string, at time.Time) error {
	if path == "" {
		return nil
	}
	return replaceTextfile(path, oldVerdicts(path), collector.CheckErrorFamilies(at))
}

func replaceTextfile(path string, before []byte, families []exposition.Family) error {
	b := bytes.NewBuffer(before)
	err := exposition.Encode(b, expfmt.FmtText, families, nil)
	if err == nil {
		err = files.Replace(path, b.Bytes())
	}
	if err != nil {
		return unwritable("textfile", path, err)
	}
	return nil
}

// oldVerdicts returns what the textfile has but for how the last run went. What is not the text format is dropped: with it
// node_exporter would refuse the whole file.
func oldVerdicts(path string) []byte {
	old, err := files.ReadOwn(path, maxTextfile)
	if err != nil {
		return nil
	}
	run := collector.CheckRunFamilies()
	var kept bytes.Buffer
	for line := range bytes.Lines(old) {
		words := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '{' })
		if len(words) > 2 && words[0] == "#" {
			words = words[2:]
		}
		if len(words) > 0 && !slices.Contains(run, words[0]) {
			kept.Write(line)
		}
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(bytes.NewReader(kept.Bytes())); err != nil {
		return nil
	}
	return kept.Bytes()
}

// usage ends a command line that makes no sense. Of a check it says so in the textfile too, which may be all that anyone reads
// of it.
func usage(code int, args []string, o Options) int {
	i := slices.IndexFunc(args, func(a string) bool { return a == "--textfile" || strings.HasPrefix(a, "--textfile=") })
	if code != exitUsage || i < 0 || !slices.Contains(args, commandCheck) {
		return code
	}
	_, path, found := strings.Cut(args[i], "=")
	if !found && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
		path = args[i+1]
	}
	if err := writeTextfileError(path, time.Now()); err != nil {
		complain(o.Stderr, err)
	}
	return code
}
