// SPDX-License-Identifier: Apache-2.0

package exposition

import (
	"bytes"
	"errors"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Encode writes a scrape in a format: our families and those of a registry, either list sorted by name and no
// name in both. The error is about families that cannot be written, such as those of a registry that have no
// series; all others are written.
func Encode(b *bytes.Buffer, format expfmt.Format, ours []Family, others []*dto.MetricFamily) error {
	dialect, enc := dialectOf(format), expfmt.NewEncoder(b, format)
	var errs []error
	for len(ours)+len(others) > 0 {
		if len(others) == 0 || len(ours) > 0 && ours[0].Name < others[0].GetName() {
			if f := &ours[0]; dialect != foreign && f.write().plain && !f.Histogram {
				b.Write(dialect.append(b.AvailableBuffer(), f))
			} else {
				errs = append(errs, enc.Encode(f.Proto()))
			}
			ours = ours[1:]
			continue
		}
		errs = append(errs, enc.Encode(others[0]))
		others = others[1:]
	}
	if end, ok := enc.(expfmt.Closer); ok {
		errs = append(errs, end.Close())
	}
	return errors.Join(errs...)
}

// dialectOf ignores how a format escapes names: plain ones need no escaping.
func dialectOf(format expfmt.Format) dialect {
	is := func(f expfmt.Format) bool { return strings.HasPrefix(string(format), string(f)) }
	switch {
	case is(expfmt.FmtText):
		return text
	case is(expfmt.FmtOpenMetrics_1_0_0), is(expfmt.FmtOpenMetrics_0_0_1):
		return openMetrics
	}
	return foreign
}
