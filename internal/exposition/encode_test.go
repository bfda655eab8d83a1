// SPDX-License-Identifier: Apache-2.0

package exposition

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// formats are all that a scraper can ask for.
func formats() []expfmt.Format {
	var all []expfmt.Format
	for _, f := range expfmt.DefaultOpenMetricsAcceptedFormats() {
		for _, s := range []string{"", model.AllowUTF8, model.EscapeUnderscores, model.EscapeDots, model.EscapeValues} {
			if s != "" {
				s = "; escaping=" + s
			}
			all = append(all, f+expfmt.Format(s))
		}
	}
	return append(all, expfmt.FmtOpenMetrics_2_0_0)
}

// equal checks that families are written the way expfmt writes them.
func equal(t *testing.T, families ...Family) {
	t.Helper()
	var messages []*dto.MetricFamily
	for i := range families {
		messages = append(messages, families[i].Proto())
	}
	for _, format := range formats() {
		var got, want bytes.Buffer
		err, e := Encode(&got, format, families, nil), Encode(&want, format, nil, messages)
		if (err == nil) != (e == nil) {
			t.Errorf("%s: %v, want %v", format, err, e)
		}
		// The text form of protobuf varies its spaces on purpose.
		strip := strings.NewReplacer(" ", "")
		if strip.Replace(got.String()) != strip.Replace(want.String()) || dialectOf(format) != foreign && got.String() != want.String() {
			t.Errorf("%s: got\n%s\nwant\n%s", format, got.String(), want.String())
		}
	}
}

var numbers = []float64{
	0, math.Copysign(0, -1), 1, -1, 42, 0.1, -0.5, 1e-5, 123456, 1e6, 1234567, 1e15, 999999, 1000001, 1<<53 - 1, 1 << 53, 1<<53 + 2, 1e20, 1e21, 1e22, math.MaxUint64, math.MaxFloat64,
	math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN(),
}

func TestNumbers(t *testing.T) {
	for _, counter := range []bool{false, true} {
		f := Family{Head: &Head{Name: "f_total", Help: "h", Counter: counter, Labels: []string{"at"}}}
		for i, n := range numbers {
			f.Series = append(f.Series, Series{n, []string{strconv.Itoa(i)}})
		}
		equal(t, f)
	}
}

// The optional label is there where it has a value, wherever it stands among the others.
func TestOptionalLabel(t *testing.T) {
	for _, optional := range []string{"b", "c"} {
		f := Family{Head: &Head{Name: "f", Help: "h", Labels: []string{"b", "c", "a"}, Optional: optional}}
		f.Series = []Series{{1, []string{"", "", ""}}, {2, []string{"x", "y", ""}}, {3, []string{"", "y", "z"}}, {4, []string{"x", "", "z"}}}
		equal(t, f)
		var b bytes.Buffer
		if err := Encode(&b, expfmt.FmtText, []Family{f}, nil); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"b": "f{a=\"\",c=\"\"} 1\nf{a=\"\",b=\"x\",c=\"y\"} 2\nf{a=\"z\",c=\"y\"} 3\nf{a=\"z\",b=\"x\",c=\"\"} 4\n",
			"c": "f{a=\"\",b=\"\"} 1\nf{a=\"\",b=\"x\",c=\"y\"} 2\nf{a=\"z\",b=\"\",c=\"y\"} 3\nf{a=\"z\",b=\"x\"} 4\n",
		}[optional]
		if got := b.String(); !strings.HasSuffix(got, "\n"+want) {
			t.Errorf("%s: got\n%s\nwant\n%s", optional, got, want)
		}
	}
}

func TestWholeNumbers(t *testing.T) {
	for n := int64(1); n < 1<<53; n = n*3 + 7 {
		for _, n := range []int64{n, n / 1000 * 1000} {
			if got, want := string(appendWhole(nil, n)), strconv.FormatFloat(float64(n), 'g', -1, 64); got != want {
				t.Errorf("%d: %s, want %s", n, got, want)
			}
		}
	}
}

func TestHeads(t *testing.T) {
	one := []Series{{Value: 1}}
	for _, help := range []string{"", "plain", `back\slash "quoted"`, "two\nlines", "\xff no UTF-8 \u00e9"} {
		equal(t,
			Family{Head: &Head{Name: "a_seconds_total", Help: help, Unit: "seconds", Counter: true}, Series: one},
			Family{Head: &Head{Name: "b_bytes", Help: help, Unit: "bytes"}, Series: one},
			Family{Head: &Head{Name: "c", Help: help, Counter: true}, Series: one}, // a counter that is not called one
			Family{Head: &Head{Name: "d:e_total", Help: help}, Series: one},
			Family{Head: &Head{Name: "x_total", Help: help, Unit: "odd\" \\\n", Counter: true}, Series: one},
		)
	}
}

func TestLabels(t *testing.T) {
	equal(t, Family{Head: &Head{Name: "f", Labels: []string{"z", "a", "m"}}, Series: []Series{
		{1, []string{"last", "first", "middle"}},
		{2, []string{"", `"`, `\`}},
		{3, []string{"\n", "\\n\n\"\"", "\u00e9\u4e16\U0001f600\ufffd"}},
	}})
}

// Names that cannot stand for themselves are rare enough to be left to the library.
func TestNamesThatNeedQuotes(t *testing.T) {
	for _, name := range []string{"", "a.b", "1st", "a b", "\u00e9", "a_b"} {
		equal(t, Family{Head: &Head{Name: name, Labels: []string{"l"}}, Series: []Series{{1, []string{"v"}}}})
		equal(t, Family{Head: &Head{Name: "f", Labels: []string{name}}, Series: []Series{{1, []string{"v"}}}})
	}
	equal(t, Family{Head: &Head{Name: "f", Labels: []string{model.MetricNameLabel}}, Series: []Series{{1, []string{"a.b"}}}})
}

// The families of a registry come between ours, and one that cannot be written costs nothing but itself.
func TestBesideARegistry(t *testing.T) {
	registry := prometheus.NewRegistry()
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "help", Buckets: []float64{1, 2}})
	histogram.Observe(1.5)
	registry.MustRegister(histogram, prometheus.NewCounter(prometheus.CounterOpts{Name: "d_total", Help: "help"}))
	others, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	name := "e"
	others = slices.Insert(others, 1, &dto.MetricFamily{Name: &name}) // without series
	ours := []Family{{Head: &Head{Name: "a"}, Series: []Series{{Value: 1}}}, {Head: &Head{Name: "g"}, Series: []Series{{Value: 2}}}, {Head: &Head{Name: "z"}, Series: []Series{{Value: 3}}}}
	var b bytes.Buffer
	if err := Encode(&b, expfmt.FmtText, ours, others); err == nil || !strings.Contains(err.Error(), "no metrics") {
		t.Errorf("error %v", err)
	}
	var names []string
	for line := range strings.Lines(b.String()) {
		if rest, is := strings.CutPrefix(line, "# TYPE "); is {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	if want := []string{"a", "d_total", "g", "h", "z"}; !slices.Equal(names, want) {
		t.Errorf("families %s, want %s", names, want)
	}
	b.Reset()
	if err := Encode(&b, expfmt.FmtOpenMetrics_1_0_0, ours, nil); err != nil || !strings.HasSuffix(b.String(), "z 3.0\n# EOF\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("gpufabric_x_total", "A \"help\"\\\n", "seconds", true, "device", "port", "a\"b\\c\nd", "1", 1.5)
	f.Add("a.b", "", "", false, "l.m", "__name__", "\xff", "", math.Inf(1))
	f.Fuzz(func(t *testing.T, name, help, unit string, counter bool, l1, l2, v1, v2 string, value float64) {
		valid := func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
		name, l1, l2 = valid(name), valid(l1), valid(l2)
		if l1 == l2 {
			t.Skip("not a family")
		}
		equal(t, Family{Head: &Head{Name: name, Help: valid(help), Unit: valid(unit), Counter: counter, Labels: []string{l1, l2}}, Series: []Series{
			{value, []string{valid(v1), valid(v2)}}, {-value, []string{valid(v2), valid(v1)}},
		}})
	})
}

func BenchmarkEncode(b *testing.B) {
	var families []Family
	for i := range 60 {
		f := Family{Head: &Head{Name: fmt.Sprintf("gpufabric_family_%02d_total", i), Help: strings.Repeat("some help ", 10), Counter: true, Labels: []string{"device", "port"}}}
		for k := range 10 {
			f.Series = append(f.Series, Series{float64(i) * 1e9, []string{fmt.Sprintf("mlx5_%d", k), "1"}})
		}
		families = append(families, f)
	}
	messages := make([]*dto.MetricFamily, len(families))
	var buffer bytes.Buffer
	for _, c := range []struct {
		name   string
		encode func() error
	}{
		{"ours", func() error { return Encode(&buffer, expfmt.FmtText, families, nil) }},
		{"expfmt", func() error {
			for i := range families {
				messages[i] = families[i].Proto()
			}
			return Encode(&buffer, expfmt.FmtText, nil, messages)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buffer.Reset()
				if err := c.encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
