// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// scaled are units with prefixes: their sign, and the factor from one prefix to the next.
var scaled = map[string]struct {
	sign   string
	factor float64
}{
	"short": {"", 1000}, "bytes": {"B", 1024}, "decbytes": {"B", 1000}, "bits": {"b", 1024}, "decbits": {"b", 1000},
	"Bps": {"B/s", 1000}, "binBps": {"B/s", 1024}, "bps": {"b/s", 1000}, "binbps": {"b/s", 1024}, "pps": {"p/s", 1000},
	"hertz": {"Hz", 1000}, "watt": {"W", 1000},
	"ops": {"ops/s", 1000}, "cps": {"c/s", 1000}, "reqps": {"req/s", 1000}, "iops": {"io/s", 1000}, "eps": {"evt/s", 1000},
}

// plain are units without prefixes.
var plain = map[string]string{"": "", "none": "", "celsius": " °C", "percent": "%", "rotrpm": " rpm", "string": "", "locale": ""}

// words are units for 0 and 1.
var words = map[string][2]string{"bool": {"False", "True"}, "bool_yes_no": {"No", "Yes"}, "bool_on_off": {"Off", "On"}}

// seconds are units of time, in seconds.
var seconds = map[string]float64{"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400, "dtdurations": 1, "dtdurationms": 1e-3}

func knownUnit(unit string) bool {
	_, a := scaled[unit]
	_, b := plain[unit]
	_, c := words[unit]
	_, d := seconds[unit]
	switch unit {
	case "percentunit", "dateTimeAsIso", "dateTimeAsLocal", "dateTimeFromNow", "sci":
		return true
	}
	return a || b || c || d || strings.HasPrefix(unit, "suffix:") || strings.HasPrefix(unit, "prefix:")
}

// format writes a value in a unit. decimals < 0 leaves their number to the value.
func format(v float64, unit string, decimals int, now time.Time) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	if s, ok := strings.CutPrefix(unit, "suffix:"); ok {
		return number(v, decimals) + s
	}
	if s, ok := strings.CutPrefix(unit, "prefix:"); ok {
		return s + number(v, decimals)
	}
	if w, ok := words[unit]; ok {
		if v == 0 {
			return w[0]
		}
		return w[1]
	}
	if p, ok := scaled[unit]; ok {
		return prefixed(v, p.sign, p.factor, decimals)
	}
	if second, ok := seconds[unit]; ok {
		return duration(v*second, decimals)
	}
	switch unit {
	case "percentunit":
		return number(100*v, decimals) + "%"
	case "sci":
		return strconv.FormatFloat(v, 'e', max(decimals, 2), 64)
	case "dateTimeAsIso", "dateTimeAsLocal": // milliseconds
		return time.UnixMilli(int64(v)).UTC().Format(time.DateTime)
	case "dateTimeFromNow":
		return ago(now.Sub(time.UnixMilli(int64(v))))
	}
	return number(v, decimals) + plain[unit]
}

// number writes about three significant digits, and no zeros that say nothing.
func number(v float64, decimals int) string {
	if decimals >= 0 {
		return strconv.FormatFloat(v, 'f', decimals, 64)
	}
	if a := math.Abs(v); a > 0 && a < 1e-4 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := 0
	if a := math.Abs(v); a > 0 {
		digits = min(max(2-int(math.Floor(math.Log10(a))), 0), 6)
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func prefixed(v float64, sign string, factor float64, decimals int) string {
	prefixes := []string{"", " k", " M", " G", " T", " P"}
	if factor == 1024 {
		prefixes = []string{"", " Ki", " Mi", " Gi", " Ti", " Pi"}
	}
	if sign == "" {
		prefixes = []string{"", " K", " Mil", " Bil", " Tri", " Quadr"}
	}
	i := 0
	for math.Abs(v) >= factor && i < len(prefixes)-1 {
		v /= factor
		i++
	}
	if i == 0 && sign != "" {
		return number(v, decimals) + " " + sign
	}
	return number(v, decimals) + prefixes[i] + sign
}

func duration(s float64, decimals int) string {
	a := math.Abs(s)
	for _, u := range []struct {
		of   float64
		name string
	}{{31536000, "years"}, {604800, "weeks"}, {86400, "days"}, {3600, "hours"}, {60, "mins"}, {1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}} {
		if a >= u.of {
			return number(s/u.of, decimals) + " " + u.name
		}
	}
	if a == 0 {
		return "0 s"
	}
	return number(s*1e9, decimals) + " ns"
}

func ago(d time.Duration) string {
	if d < 0 {
		return "in " + strings.TrimSpace(duration(-d.Round(time.Second).Seconds(), 0))
	}
	return duration(d.Round(time.Second).Seconds(), 0) + " ago"
}
