// SPDX-License-Identifier: Apache-2.0

package probes

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
)

func newMemory() *memory { return &memory{newDuty(0.001, 10*time.Second), map[Key]*record{}} }

// fromFile is a fact as a state file has it: without source and time.
func fromFile[T any](v T) Fact[T] { return Known(v, "", time.Time{}) }

// lived returns a memory with something of everything.
func lived() *memory {
	m := newMemory()
	m.duty.gpus["GPU-a"] = account{3 * time.Second, origin.Add(-1000 * time.Second)}
	m.duty.gpus["GPU-b"] = account{-2 * time.Second, origin}
	for i := range 4 {
		r := m.record(Key{Rail, fmt.Sprint("mlx5_", i), 1})
		r.began, r.cost = origin.Add(-time.Duration(i)*time.Hour), 4*time.Second
		b := r.baselines.of("rail all_reduce", origin.Add(-time.Minute))
		for j := range 20 {
			b.learn(1e9+float64(j), Seconds(14_000+j)/1e9, false, origin.Add(time.Duration(j-30)*time.Hour))
		}
		b.below, b.collapsed = i, i/2
	}
	m.record(Key{Kind: Node}).last = &Result{
		Key: Key{Kind: Node}, At: origin.UTC(), Outcome: OK, NCCL: "2.27.3", GPUs: []string{"GPU-a"}, Settings: []string{}, Path: fromFile(PathNVLS),
		Measurements: []Measurement{{Op: AllReduce, Type: Float32, Bytes: 8, Ranks: 2, Time: 1, BusBW: 1.5}},
		Comparison:   Comparison{Fingerprint: "node", Median: fromFile(2.), Ratio: fromFile(0.75), Regressed: true},
	}
	return m
}

func TestStateSurvives(t *testing.T) {
	m := lived()
	file, err := m.encode(origin, origin)
	if err != nil {
		t.Fatal(err)
	}
	got := newMemory()
	if err := got.decode(file, origin, origin); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m.records, got.records) {
		t.Errorf("got %+v, want %+v", got.records, m.records)
	}
	for gpu, want := range map[string]time.Duration{"GPU-a": 4 * time.Second, "GPU-b": -2 * time.Second} {
		if b := got.duty.balance(gpu, origin); b != want {
			t.Errorf("%s: balance %s, expected %s", gpu, b, want)
		}
	}
}

func TestStateAges(t *testing.T) {
	file, err := lived().encode(origin, origin)
	if err != nil {
		t.Fatal(err)
	}
	key := Key{Rail, "mlx5_0", 1}
	for _, c := range []struct {
		name      string
		now, wall time.Time
		ago       time.Duration // when it ran
		earned    time.Duration
	}{
		{"down for an hour", origin.Add(time.Hour), origin.Add(time.Hour), time.Hour, 3600 * time.Millisecond},
		{"the clock went back", origin.Add(-time.Hour), origin.Add(-time.Hour), 0, 0},
		{"the clock was reset", time.Unix(1000, 0), time.Unix(1000, 0), 0, 0},
		{"the clock is far ahead", origin.AddDate(90, 0, 0), origin.AddDate(90, 0, 0), longAgo, 26 * time.Second},
	} {
		m := newMemory()
		if err := m.decode(file, c.now, c.wall); err != nil {
			t.Fatal(err)
		}
		if ago := c.now.Sub(m.records[key].began); ago != c.ago {
			t.Errorf("%s: ran %s ago, expected %s", c.name, ago, c.ago)
		}
		if b := m.duty.balance("GPU-a", c.now); b != min(4*time.Second+c.earned, m.duty.ceiling) {
			t.Errorf("%s: balance %s, expected %s", c.name, b, 4*time.Second+c.earned)
		}
		for _, s := range m.records[key].baselines["rail all_reduce"].samples {
			if s.at.After(c.now) {
				t.Errorf("%s: a result of %s, which is to come", c.name, s.at)
			}
		}
	}
}

// Whatever is wrong with a file, nothing of it is used, and what was there before stays.
func TestDamagedStateIsRefused(t *testing.T) {
	good, err := lived().encode(origin, origin)
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(name string, file []byte) {
		t.Helper()
		m := newMemory()
		if err := m.decode(file, origin, origin); !errors.Is(err, ErrState) {
			t.Errorf("%s: got %v, expected %v", name, err, ErrState)
		}
		if len(m.records) != 0 || len(m.duty.gpus) != 0 {
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
	if err := newMemory().decode(older, origin, origin); errors.Is(err, ErrNewerState) || !strings.Contains(err.Error(), "version 1, expected 2") {
		t.Errorf("an older version: %v", err)
	}
	newer := bytes.Replace(good, []byte(`"version":2`), []byte(`"version":3`), 1)
	refuse("a newer version", newer)
	if err := newMemory().decode(newer, origin, origin); !errors.Is(err, ErrNewerState) || !strings.Contains(err.Error(), "version 3, expected 2") {
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
	m := newMemory()
	if err := m.decode(file, now, now); err != nil {
		t.Fatal(err)
	}
	if again, err := m.encode(now, now); err != nil || !bytes.Equal(file, again) {
		t.Errorf("%v: got\n%s\nexpected\n%s", err, again, file)
	}
	if a, b := m.duty.balance("GPU-a", now), m.duty.balance("GPU-b", now); a != 4*time.Second || b != -2*time.Second {
		t.Errorf("balances %s and %s", a, b)
	}
	if len(m.records) != 3 {
		t.Errorf("%d probes, expected 3", len(m.records))
	}
	rail := m.records[Key{Rail, "mlx5_0", 1}]
	if rail == nil || rail.cost != 4500*time.Millisecond || now.Sub(rail.began) != 30*time.Minute || rail.last == nil || len(rail.baselines) != 1 {
		t.Fatalf("%+v", rail)
	}
	c := rail.baselines[rail.last.Comparison.Fingerprint].judge(33554432000, 14e-6, 0.95, now)
	if c.Below != 3 || c.Collapsed != 3 || c.Samples != 20 || c.Latency.Samples != 20 || c.Best.Value != 48_009_500_000 || math.Abs(float64(c.Latency.Median.Value)-13_009.5e-9) > 1e-15 {
		t.Errorf("%+v", c)
	}
	if s := m.records[Key{Kind: Socket}]; s == nil || s.last == nil || s.last.GPUDirect.State != fabric.Absent || s.last.Path.Value != PathSocket {
		t.Errorf("%+v", s)
	}
	if n := m.records[Key{Kind: Node}]; n == nil || n.last == nil || n.last.Failure != FailureHang || n.last.Wall != 3.2 || n.last.Left == "" {
		t.Errorf("%+v", n)
	}
}

// Results of another version must not cost the baselines.
func TestStrangeLastResultIsLeftOut(t *testing.T) {
	node := Key{Kind: Node}
	good := saveResult(*lived().records[node].last)
	if r := loadResult(good, node, origin.Add(-time.Hour)); r == nil || !r.At.Equal(origin.Add(-time.Hour)) {
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
		if r := loadResult(json.RawMessage(raw), node, origin); r != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if raw := saveResult(Result{Error: strings.Repeat("x", lastMost)}); raw != nil {
		t.Errorf("%d bytes are saved", len(raw))
	}
	if raw := saveResult(Result{Measurements: []Measurement{{BusBW: math.NaN()}}}); raw != nil {
		t.Errorf("no number is saved: %s", raw)
	}
}

// seal returns a state file with a checksum that is right.
func seal(state string) []byte {
	return fmt.Appendf(nil, `{"version":%d,"sha256":"%x","state":%s}`, stateVersion, sum256(state), state)
}

func TestStateIsBounded(t *testing.T) {
	m := newMemory()
	for i := range 2 * gpusMost {
		m.duty.open([]string{fmt.Sprintf("GPU-%036d", i)}, origin)
	}
	for i := range probesMost + 10 {
		r := m.record(Key{Rail, fmt.Sprint("mlx5_", i), 1})
		r.began = origin.Add(-time.Duration(i) * time.Hour)
		for j := range 20 {
			b := r.baselines.of(fmt.Sprint(strings.Repeat("f", 200), j), origin)
			for range windowSize {
				b.samples = append(b.samples, sample{origin.Add(-100 * time.Hour), 123456789012.3456})
				b.latencies = append(b.latencies, sample{origin.Add(-100 * time.Hour), 0.000012345678901234})
			}
		}
	}
	file, err := m.encode(origin, origin)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(file))
	got := newMemory()
	if err := got.decode(file, origin, origin); err != nil {
		t.Fatalf("the largest file is not read: %v", err)
	}
	if len(got.records) != probesMost || got.records[Key{Rail, "mlx5_0", 1}] == nil {
		t.Errorf("%d probes, expected the %d that ran last", len(got.records), probesMost)
	}
}

func FuzzState(f *testing.F) {
	good, err := lived().encode(origin, origin)
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
		m := newMemory()
		if err := m.decode([]byte(state), origin, origin); err == nil {
			t.Fatal("a state without a checksum was read")
		}
		if err := m.decode(seal(state), origin, origin); err != nil {
			if !errors.Is(err, ErrState) {
				t.Fatalf("%v is no %v", err, ErrState)
			}
			return
		}
		for gpu := range m.duty.gpus {
			m.duty.charge(gpu, time.Second, origin)
		}
		for _, r := range m.records {
			for _, b := range r.baselines {
				b.judge(1e9, 0.001, 0.95, origin)
				b.learn(1e9, 0.001, false, origin)
			}
		}
		file, err := m.encode(origin, origin)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if err := newMemory().decode(file, origin, origin); err != nil {
			t.Fatalf("what was read and written cannot be read: %v", err)
		}
	})
}
