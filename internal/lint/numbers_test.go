// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/ncclconf"
	"gpufabric_exporter/probes"
)

// numbers is docs/NUMBERS.md.
func numbers(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/NUMBERS.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nvlink is what the links of a GPU carry in one direction, in GB/s, as the estimates of advise count it.
func nvlink(t *testing.T, links int, signalling float64) string {
	t.Helper()
	l := fabric.NVLink{Speed: fabric.Known(signalling, "nvml", time.Time{})}
	rate, known := l.Specified()
	if !known {
		t.Fatalf("the rate of a link of %g bytes per second is not known", signalling)
	}
	return fmt.Sprintf("%.0f", float64(links)*rate/1e9)
}

// Figures of docs/NUMBERS.md are those that the functions of this program and plain arithmetic give.
func TestNumbersAreComputed(t *testing.T) {
	page := numbers(t)
	factor := probes.AllReduce.BusFactor
	for n := 2; n <= 16; n++ {
		if math.Abs(factor(n)-2*float64(n-1)/float64(n)) > 1e-9 {
			t.Errorf("the factor of %d ranks is %g", n, factor(n))
		}
	}
	retries := func(exponent int) float64 { return 4.096e-6 * math.Exp2(float64(exponent)) * 7 } // seconds
	for what, want := range map[string]string{
		"the factor of an AllReduce": "busbw = algbw × 2(n-1)/n",
		"bits and bytes":             diagnose.Gigabits(50e9) + " is 50 GB/s",
		"8 A100":                     fmt.Sprintf("8 A100 measure 131 GB/s and %.0f GB/s", math.Floor(131*factor(8))),
		"NVLink 3 of A100":           fmt.Sprintf("NVLink 3 has %s GB/s in each direction", nvlink(t, 12, 25.781e9)),
		"a link of H100":             fmt.Sprintf("One link has %s GB/s in each direction. A GPU has 18 links: %s GB/s in each direction", nvlink(t, 1, 26.562e9), nvlink(t, 18, 26.562e9)),
		"NVLink 5":                   fmt.Sprintf("A link has %s GB/s in each direction; a GPU with 18 links has %s GB/s", nvlink(t, 1, 53.125e9), nvlink(t, 18, 53.125e9)),
		"gibibits":                   fmt.Sprintf("8 times too much, less %.0f %%", 100*(1-1e9/math.Exp2(30))),
		"10 MB in 1 ms":              fmt.Sprintf("Both mean %.0f to %.0f GB/s", 10e6*factor(4)/1e-3/1e9, 10e6*factor(8)/1e-3/1e9),
		"time-out of a queue pair":   fmt.Sprintf("which is %.0f s with 20 and 7, %.0f min with 22", retries(20), retries(22)/60),
		"NVLS against the link":      "482 GB/s where a link direction has " + nvlink(t, 18, 26.562e9),
		"a traffic class of 5":       fmt.Sprintf("5 is DSCP %d.", 5>>2),
		"DSCP 26":                    fmt.Sprintf("it is %d or %d", 26<<2|2, 26<<2),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s: docs/NUMBERS.md lacks %q", what, want)
		}
	}
	if perHour := 32e9 * 3600 * 1e-12; perHour < 110 || perHour > 120 {
		t.Errorf("a bit error ratio of 10⁻¹² at 32 Gb/s is %.0f errors an hour, and not about 120", perHour)
	}
}

// A claim of docs/NUMBERS.md about a setting is what lint reports about it: of variables that do not exist, and of values without effect.
func TestNumbersOfSettings(t *testing.T) {
	page := numbers(t)
	variable := regexp.MustCompile(`NCCL_[A-Z0-9_]+`)
	for row := range strings.SplitSeq(page, "\n") {
		cells := strings.Split(row, " | ")
		if len(cells) != 3 || cells[0] == "| Claim" {
			continue
		}
		if !strings.Contains(strings.TrimSuffix(cells[2], " |"), "[") && !strings.Contains(cells[2], "computed") {
			t.Errorf("has no source: %s", row)
		}
		invented := strings.Contains(cells[1], "No such variable") || strings.Contains(cells[1], "no such variable")
		for _, name := range variable.FindAllString(cells[0], -1) {
			if v, exists := ncclconf.Describe(name); (!exists || v.Status != ncclconf.StatusCurrent) != invented {
				t.Errorf("the table of variables has %s as %q, but docs/NUMBERS.md says: %s", name, v.Status, cells[1])
			}
		}
		for _, name := range variable.FindAllString(cells[1], -1) {
			if v, _ := ncclconf.Describe(name); v.Status != ncclconf.StatusCurrent {
				t.Errorf("%s, which docs/NUMBERS.md recommends, is %q in the table of variables", name, v.Status)
			}
		}
	}
	threads, _ := ncclconf.Describe("NCCL_NTHREADS")
	if r := threads.Ranges[len(threads.Ranges)-1]; !strings.Contains(page, fmt.Sprintf("multiples of 32 from %d to %d. With 16 it uses %d.", r.Min, r.Max, r.Max)) {
		t.Errorf("docs/NUMBERS.md lacks the range of NCCL_NTHREADS: %d to %d", r.Min, r.Max)
	}
	for setting, want := range map[string]Verdict{
		"NCCL_NVLINK_DISABLE=1": Unknown, "NCCL_DEBUG_LOG_DIR=/logs": Unknown, "NCCL_TIMEOUT=600": Unknown,
		"NCCL_DEBUG=DEBUG": Misread, "NCCL_P2P_LEVEL=PCI": Misread, "NCCL_NTHREADS=16": Misread,
		"NCCL_NET_GDR_LEVEL=5": Deprecated, "NCCL_IB_GID_INDEX=3": NotRecommended, "NCCL_ALGO=Ring": NotRecommended,
	} {
		name, _, _ := strings.Cut(setting, "=")
		if !strings.Contains(page, name) {
			t.Errorf("docs/NUMBERS.md has no row of %s", name)
		}
		in, err := Environment("job", []string{setting})
		if err != nil {
			t.Fatal(err)
		}
		r := Judge([]Input{in}, Newest(), nil)
		if got := r.Lines[0].Worst().Verdict; got != want {
			t.Errorf("%s: lint says %s, expected %s: %s", setting, got, want, r.Lines[0].Worst().Reason)
		}
	}
}
