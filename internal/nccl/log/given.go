// SPDX-License-Identifier: Apache-2.0

package log

import (
	"slices"
	"strings"
)

// Given takes settings of NCCL from a line that sets or lists them: "NCCL_X=1", "export NCCL_X=1",
// "mpirun -x NCCL_X=1", "docker run -e NCCL_X=1". Prose that names one does not count.
func (l *Log) Given(line string) {
	if !strings.Contains(line, "NCCL_") || strings.IndexByte(line, '=') < 0 {
		return
	}
	before, leading := "", true // only settings are before this word
	for word := range strings.FieldsSeq(line) {
		name, value, sets := strings.Cut(word, "=")
		named := sets && strings.HasPrefix(name, "NCCL_") && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
		s := Setting{Name: Text(name), Value: Text(value)}
		given := leading || before == "-x" || before == "-e" || before == "--env"
		if given && named && len(l.Settings) < maxSettings && !slices.Contains(l.Settings, s) {
			l.Settings = append(l.Settings, s)
		}
		leading = leading && (named || word == "export" || word == "+" || word == "$")
		before = word
	}
}
