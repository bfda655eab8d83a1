// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
)

func empty() *Memory { return NewMemory(0.001, 10*time.Second) }

// fromFile is a fact as a state file has it: without source and time.
func fromFile[T any](v T) probes.Fact[T] { return probes.Known(v, "", time.Time{}) }

// lived returns a memory with something of everything.
func lived() *Memory {
	m := empty()
	m.Duty.GPUs["GPU-a"] = account{3 * time.Second, probestest.Origin.Add(-1000 * time.Second)}
	m.Duty.GPUs["GPU-b"] = account{-2 * time.Second, probestest.Origin}
	for i := range 4 {
		r := m.Record(probes.Key{Kind: probes.Rail, Device: fmt.Sprint("mlx5_", i), Port: 1})
		r.Began, r.Cost = probestest.Origin.Add(-time.Duration(i)*time.Hour), 4*time.Second
		b := r.Baselines.of("rail all_reduce", probestest.Origin.Add(-time.Minute))
		for j := range 20 {
			b.learn(1e9+float64(j), probes.Seconds(14_000+j)/1e9, false, probestest.Origin.Add(time.Duration(j-30)*time.Hour))
		}
		b.below, b.collapsed = i, i/2
	}
	m.Record(probes.Key{Kind: probes.Node}).Last = &probes.Result{
		Key: probes.Key{Kind: probes.Node}, At: probestest.Origin.UTC(), Outcome: probes.OK, NCCL: "2.27.3", GPUs: []string{"GPU-a"}, Settings: []string{}, Path: fromFile(probes.PathNVLS),
		Measurements: []probes.Measurement{{Op: probes.AllReduce, Type: probes.Float32, Bytes: 8, Ranks: 2, Time: 1, BusBW: 1.5}},
		Comparison:   probes.Comparison{Fingerprint: "node", Median: fromFile(2.), Ratio: fromFile(0.75), Regressed: true},
	}
	return m
}

func TestStateSurvives(t *testing.T) {
	m := lived()
	file, err := m.Encode(probestest.Origin, probestest.Origin)
	if err != nil {
		t.Fatal(err)
	}
	got := empty()
	if err := got.Decode(file, probestest.Origin, probestest.Origin); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m.Records, got.Records) {
		t.Errorf("got %+v, want %+v", got.Records, m.Records)
	}
	for gpu, want := range map[string]time.Duration{"GPU-a": 4 * time.Second, "GPU-b": -2 * time.Second} {
		if b := got.Duty.balance(gpu, probestest.Origin); b != want {
			t.Errorf("%s: balance %s, expected %s", gpu, b, want)
		}
	}
}

func TestStateAges(t *testing.T) {
	file, err := lived().Encode(probestest.Origin, probestest.Origin)
	if err != nil {
		t.Fatal(err)
	}
	key := probes.Key{Kind: probes.Rail, Device: "mlx5_0", Port: 1}
	for _, c := range []struct {
		name      string
		now, wall time.Time
		ago       time.Duration // when it ran
		earned    time.Duration
	}{
		{"down for an hour", probestest.Origin.Add(time.Hour), probestest.Origin.Add(time.Hour), time.Hour, 3600 * time.Millisecond},
		{"the clock went back", probestest.Origin.Add(-time.Hour), probestest.Origin.Add(-time.Hour), 0, 0},
		{"the clock was reset", time.Unix(1000, 0), time.Unix(1000, 0), 0, 0},
		{"the clock is far ahead", probestest.Origin.AddDate(90, 0, 0), probestest.Origin.AddDate(90, 0, 0), probes.LongAgo, 26 * time.Second},
	} {
		m := empty()
		if err := m.Decode(file, c.now, c.wall); err != nil {
			t.Fatal(err)
		}
		if ago := c.now.Sub(m.Records[key].Began); ago != c.ago {
			t.Errorf("%s: ran %s ago, expected %s", c.name, ago, c.ago)
		}
		if b := m.Duty.balance("GPU-a", c.now); b != min(4*time.Second+c.earned, m.Duty.ceiling) {
			t.Errorf("%s: balance %s, expected %s", c.name, b, 4*time.Second+c.earned)
		}
		for _, s := range m.Records[key].Baselines["rail all_reduce"].samples {
			if s.at.After(c.now) {
				t.Errorf("%s: a result of %s, which is to come", c.name, s.at)
			}
		}
	}
}

// Whatever is wrong with a file, nothing of it is used, and what was there before stays.
func TestDamagedStateIsRefused(t *testing.T) {
	good, err := lived().Encode(probestest.Origin, probestest.Origin)
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(name string, file []byte) {
		t.Helper()
		m := empty()
		if err := m.Decode(file, probestest.Origin, probestest.Origin); !errors.Is(err, ErrState) {
			t.Errorf("%s: got %v, expected %v", name, err, ErrState)
		}
		if len(m.Records) != 0 || len(m.Duty.GPUs) != 0 {
			t.Errorf("%s: something was taken in: %+v", name, m)
		}
	}
	for n := range len(good) - 1 { // the last byte is the end of the line
		if n < 200 || n%97 == 0 || n > len(good)-20 {
			refuse(fmt.Sprint("cut after byte ", n), good[:n])
		}
	}
	for i := 0; i < len(good)-1; i += 53 {
		bad := bytes.Clone(good)
		bad[i] ^= 4
		refuse(fmt.Sprint("bit of byte ", i), bad)
	}
	refuse("no version", bytes.Replace(good, []byte(`"version":2`), []byte(`"version":0`), 1))
	older := bytes.Replace(good, []byte(`"version":2`), []byte(`"version":1`), 1)
	refuse("an older version", older)
	if err := empty().Decode(older, probestest.Origin, probestest.Origin); errors.Is(err, ErrNewerState) || !strings.Contains(err.Error(), "version 1, expected 2") {
		t.Errorf("an older version: %v", err)
	}
	newer := bytes.Replace(good, []byte(`"version":2`), []byte(`"version":3`), 1)
	refuse("a newer version", newer)
	if err := empty().Decode(newer, probestest.Origin, probestest.Origin); !errors.Is(err, ErrNewerState) || !strings.Contains(err.Error(), "version 3, expected 2") {
		t.Errorf("a newer version: %v", err)
	}
	refuse("too long", append(good, bytes.Repeat([]byte(" "), stateMost)...))
	refuse("two", append(bytes.Clone(good), good...))
	refuse("null", []byte("null"))

	// With a checksum that is right.
	for name, replace := range map[string][2]string{
		"a kind":                    {`"kind":"rail"`, `"kind":"road"`},
		"an age":                    {`"last_run_age_seconds":0`, `"last_run_age_seconds":-5`},
		"a cost":                    {`"gpu_cost_seconds":4`, `"gpu_cost_seconds":-1`},
		"a balance":                 {`"GPU-a":4`, `"GPU-a":1e18`},
		"a bandwidth":               {`"busbw_bytes_per_second":1000000000`, `"busbw_bytes_per_second":1e300`},
		"no bandwidth":              {`"busbw_bytes_per_second":1000000000`, `"busbw_bytes_per_second":0`},
		"no number":                 {`"busbw_bytes_per_second":1000000000`, `"busbw_bytes_per_second":1e999`},
		"a best":                    {`"best_median_bytes_per_second":1000000009.5`, `"best_median_bytes_per_second":-1`},
		"a latency":                 {`"seconds":0.000014`, `"seconds":-1`},
		"a long latency":            {`"seconds":0.000014`, `"seconds":3601`},
		"a collapse":                {`"results_collapsed":1`, `"results_collapsed":-1`},
		"more collapsed than below": {`"results_collapsed":1`, `"results_collapsed":9`},
		"samples in no row":         {`{"age_seconds":108000,`, `{"age_seconds":1,`},
		"a field":                   {`"written_timestamp_seconds"`, `"wrote"`},
		"a time":                    {`"written_timestamp_seconds":`, `"written_timestamp_seconds":9`},
		"a fingerprint":             {`"rail all_reduce"`, `"` + strings.Repeat("x", 600) + `"`},
	} {
		var s sealed
		if err := json.Unmarshal(good, &s); err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(s.State), replace[0], replace[1], 1)
		if changed == string(s.State) {
			t.Fatalf("%s: %q is not in %s", name, replace[0], s.State)
		}
		refuse(name, seal(changed))
	}
}

// A file that a release wrote is read, and written as it was: later ones go on with it.
func TestStateOfAReleaseIsRead(t *testing.T) {
	file, err := os.ReadFile(filepath.Join("testdata", "state_v2.json"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	m := empty()
	if err := m.Decode(file, now, now); err != nil {
		t.Fatal(err)
	}
	if again, err := m.Encode(now, now); err != nil || !bytes.Equal(file, again) {
		t.Errorf("%v: got\n%s\nexpected\n%s", err, again, file)
	}
	if a, b := m.Duty.balance("GPU-a", now), m.Duty.balance("GPU-b", now); a != 4*time.Second || b != -2*time.Second {
		t.Errorf("balances %s and %s", a, b)
	}
	if len(m.Records) != 3 {
		t.Errorf("%d probes, expected 3", len(m.Records))
	}
	rail := m.Records[probes.Key{Kind: probes.Rail, Device: "mlx5_0", Port: 1}]
	if rail == nil || rail.Cost != 4500*time.Millisecond || now.Sub(rail.Began) != 30*time.Minute || rail.Last == nil || len(rail.Baselines) != 1 {
		t.Fatalf("%+v", rail)
	}
	c := rail.Baselines[rail.Last.Comparison.Fingerprint].judge(33554432000, 14e-6, 0.95, now)
	if c.Below != 3 || c.Collapsed != 3 || c.Samples != 20 || c.Latency.Samples != 20 || c.Best.Value != 48_009_500_000 || math.Abs(float64(c.Latency.Median.Value)-13_009.5e-9) > 1e-15 {
		t.Errorf("%+v", c)
	}
	if s := m.Records[probes.Key{Kind: probes.Socket}]; s == nil || s.Last == nil || s.Last.GPUDirect.State != fabric.Absent || s.Last.Path.Value != probes.PathSocket {
		t.Errorf("%+v", s)
	}
	if n := m.Records[probes.Key{Kind: probes.Node}]; n == nil || n.Last == nil || n.Last.Failure != probes.FailureHang || n.Last.Wall != 3.2 || n.Last.Left == "" {
		t.Errorf("%+v", n)
	}
}

// Results of another version must not cost the baselines.
func TestStrangeLastResultIsLeftOut(t *testing.T) {
	node := probes.Key{Kind: probes.Node}
	good := saveResult(*lived().Records[node].Last)
	if r := loadResult(good, node, probestest.Origin.Add(-time.Hour)); r == nil || !r.At.Equal(probestest.Origin.Add(-time.Hour)) {
		t.Errorf("a result of what is to come: %+v", r)
	}
	for name, raw := range map[string]string{
		"none":          "",
		"null":          "null",
		"a number":      "5",
		"another type":  strings.Replace(string(good), `"nccl_version":"2.27.3"`, `"nccl_version":22703`, 1),
		"another probe": strings.Replace(string(good), `"kind":"node"`, `"kind":"socket"`, 1),
		"no time":       strings.Replace(string(good), `"started"`, `"at"`, 1),
		"an outcome":    strings.Replace(string(good), `"outcome":"ok"`, `"outcome":"fine"`, 1),
		"a failure":     strings.Replace(string(good), `"outcome":"ok"`, `"outcome":"ok","failure":"hang"`, 1),
		"a path":        strings.Replace(string(good), `"nvls"`, `"road"`, 1),
		"too long":      strings.Replace(string(good), `"2.27.3"`, `"`+strings.Repeat("2", lastMost)+`"`, 1),
	} {
		if raw == string(good) {
			t.Fatalf("%s: nothing was replaced in %s", name, good)
		}
		if r := loadResult(json.RawMessage(raw), node, probestest.Origin); r != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if raw := saveResult(probes.Result{Error: strings.Repeat("x", lastMost)}); raw != nil {
		t.Errorf("%d bytes are saved", len(raw))
	}
	if raw := saveResult(probes.Result{Measurements: []probes.Measurement{{BusBW: math.NaN()}}}); raw != nil {
		t.Errorf("no number is saved: %s", raw)
	}
}

// seal returns a state file with a checksum that is right.
func seal(state string) []byte {
	return fmt.Appendf(nil, `{"version":%d,"sha256":"%x","state":%s}`, stateVersion, sum256(state), state)
}

func TestStateIsBounded(t *testing.T) {
	m := empty()
	for i := range 2 * probes.GPUsMost {
		m.Duty.Open([]string{fmt.Sprintf("GPU-%036d", i)}, probestest.Origin)
	}
	for i := range ProbesMost + 10 {
		r := m.Record(probes.Key{Kind: probes.Rail, Device: fmt.Sprint("mlx5_", i), Port: 1})
		r.Began = probestest.Origin.Add(-time.Duration(i) * time.Hour)
		for j := range 20 {
			b := r.Baselines.of(fmt.Sprint(strings.Repeat("f", 200), j), probestest.Origin)
			for range windowSize {
				b.samples = append(b.samples, sample{probestest.Origin.Add(-100 * time.Hour), 123456789012.3456})
				b.latencies = append(b.latencies, sample{probestest.Origin.Add(-100 * time.Hour), 0.000012345678901234})
			}
		}
	}
	file, err := m.Encode(probestest.Origin, probestest.Origin)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(file))
	got := empty()
	if err := got.Decode(file, probestest.Origin, probestest.Origin); err != nil {
		t.Fatalf("the largest file is not read: %v", err)
	}
	if len(got.Records) != ProbesMost || got.Records[probes.Key{Kind: probes.Rail, Device: "mlx5_0", Port: 1}] == nil {
		t.Errorf("%d probes, expected the %d that ran last", len(got.Records), ProbesMost)
	}
}

func FuzzState(f *testing.F) {
	good, err := lived().Encode(probestest.Origin, probestest.Origin)
	if err != nil {
		f.Fatal(err)
	}
	var s sealed
	if err := json.Unmarshal(good, &s); err != nil {
		f.Fatal(err)
	}
	f.Add(string(s.State))
	f.Add(`{"written_timestamp_seconds":1,"gpu_balance_seconds":{"a":-5},"probes":[{"kind":"node","gpu_cost_seconds":1,"baselines":[]}]}`)
	f.Add(`{"probes":[null],"gpu_balance_seconds":null}`)
	f.Fuzz(func(t *testing.T, state string) {
		m := empty()
		if err := m.Decode([]byte(state), probestest.Origin, probestest.Origin); err == nil {
			t.Fatal("a state without a checksum was read")
		}
		if err := m.Decode(seal(state), probestest.Origin, probestest.Origin); err != nil {
			if !errors.Is(err, ErrState) {
				t.Fatalf("%v is no %v", err, ErrState)
			}
			return
		}
		for gpu := range m.Duty.GPUs {
			m.Duty.Charge(gpu, time.Second, probestest.Origin)
		}
		for _, r := range m.Records {
			for _, b := range r.Baselines {
				b.judge(1e9, 0.001, 0.95, probestest.Origin)
				b.learn(1e9, 0.001, false, probestest.Origin)
			}
		}
		file, err := m.Encode(probestest.Origin, probestest.Origin)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if err := empty().Decode(file, probestest.Origin, probestest.Origin); err != nil {
			t.Fatalf("what was read and written cannot be read: %v", err)
		}
	})
}
