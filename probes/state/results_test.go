// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
)

func TestSavedResults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "probes.json")
	if all, err := SavedResults(t.Context(), file, probestest.Origin); err != nil || all != nil {
		t.Errorf("without a file: %v, %v", all, err)
	}
	data, err := lived().Encode(probestest.Origin, probestest.Origin)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	all, err := SavedResults(t.Context(), file, probestest.Origin)
	if err != nil || len(all) != 1 || all[0].Kind != probes.Node || all[0].Comparison.Median.Or(0) != 2 || !all[0].Comparison.Regressed {
		t.Errorf("%+v, %v", all, err)
	}
	if err := os.WriteFile(file, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := SavedResults(t.Context(), file, probestest.Origin); !errors.Is(err, ErrState) {
		t.Errorf("half a file: %v", err)
	}
}

// Results come from users, too: what no probe can have measured is refused as a whole.
func TestParseResults(t *testing.T) {
	run := func(kind probes.Kind, at time.Time) probes.Result {
		return probes.Result{
			Key: probes.Key{Kind: kind}, At: at, Outcome: probes.OK,
			Measurements: []probes.Measurement{{Op: probes.AllReduce, Type: probes.Float32, Bytes: 8, Ranks: 2, Time: 1, BusBW: 1.5e9}},
		}
	}
	text := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	later := probestest.Origin.Add(time.Hour)
	good, failed := run(probes.Node, probestest.Origin.Add(-time.Hour)), probes.Result{Key: probes.Key{Kind: probes.Node}, At: probestest.Origin, Outcome: probes.Failed, Failure: probes.FailureHang}
	type object = map[string]any
	for name, tt := range map[string]struct {
		in   string
		want int
		err  string
	}{
		"a run":                 {text(object{"probe": "rail", "runs": []probes.Result{run(probes.Rail, probestest.Origin), run(probes.Rail, later)}}), 2, ""},
		"no run":                {`{"probe": "rail", "runs": []}`, 0, ""},
		"the page":              {text(object{"probes": []object{{"last": failed, "last_good": good}, {"last": good, "last_good": good}, {"last": nil}}}), 3, ""},
		"something else":        {`{"verdicts": []}`, 0, "neither runs nor probes"},
		"no JSON":               {`# nccl-tests`, 0, "invalid character"},
		"another type":          {`{"runs": [{"kind": 3}]}`, 0, "kind cannot be this number"},
		"a list":                {`[]`, 0, "found array in place of an object"},
		"a long number":         {`{"runs": [{"port": ` + strings.Repeat("9", 5000) + `}]}`, 0, "port cannot be this number"},
		"an absurd message":     {strings.ReplaceAll(text(object{"runs": []probes.Result{run(probes.Rail, probestest.Origin)}}), `"bytes":8`, `"bytes":18446744073709551615`), 0, "no probe has"},
		"an unknown kind":       {text(object{"runs": []probes.Result{run("<script>", probestest.Origin)}}), 0, `"<script>"`},
		"an absurd bandwidth":   {strings.ReplaceAll(text(object{"runs": []probes.Result{run(probes.Rail, probestest.Origin)}}), "1500000000", "1e300"), 0, "no probe has"},
		"a negative bandwidth":  {strings.ReplaceAll(text(object{"runs": []probes.Result{run(probes.Rail, probestest.Origin)}}), "1500000000", "-1"), 0, "no probe has"},
		"more than a node has":  {text(object{"runs": make([]probes.Result, 600)}), 0, "expected at most 512"},
		"a result without time": {text(object{"runs": []probes.Result{run(probes.Rail, time.Time{})}}), 0, "no probe has"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := ParseResults([]byte(tt.in), probestest.Origin)
			if len(all) != tt.want || (tt.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%d results, error %v; expected %d and %q", len(all), err, tt.want, tt.err)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			for _, r := range all {
				if r.At.After(probestest.Origin) {
					t.Errorf("a result of tomorrow: %v", r.At)
				}
			}
		})
	}
}
