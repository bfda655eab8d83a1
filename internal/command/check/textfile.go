// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/exposition"
	"gpufabric_exporter/internal/files"
	"gpufabric_exporter/internal/verdict"
)

// maxTextfile bounds what is read of an old textfile. Verdicts on a node of 128 ports and GPUs are some 100 KiB.
const maxTextfile = 4 << 20

// writeTextfile writes verdicts for node_exporter's textfile collector.
func writeTextfile(path string, list []verdict.Verdict, at time.Time) error {
	return replaceTextfile(path, nil, collector.CheckFamilies(list, at))
}

// writeTextfileError says in the textfile that no checks could be made. The verdicts in it stay, with the
// time at which they were given: that a check failed is no less true.
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
		return command.Unwritable("textfile", path, err)
	}
	return nil
}

// oldVerdicts returns the textfile without the metrics about the last run. A file that is not in the text format is
// dropped: node_exporter would refuse it.
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

// refused says in the textfile that the command line is invalid: the output of the command may not be read at all.
func refused(words []string) error {
	const flag = "--" + textfileFlag
	i := slices.IndexFunc(words, func(w string) bool { return w == flag || strings.HasPrefix(w, flag+"=") })
	if i < 0 {
		return nil
	}
	_, path, found := strings.Cut(words[i], "=")
	if !found && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
		path = words[i+1]
	}
	return writeTextfileError(path, time.Now())
}
