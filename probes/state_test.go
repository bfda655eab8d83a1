// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

func newMemory() *memory { return &memory{newDuty(0.001, 10*time.Second), map[Key]*record{}} }

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
			b.learn(1e9+float64(j), time.Duration(14_000+j), LatencyComparison{}, origin.Add(time.Duration(j-30)*time.Hour))
		}
		b.below, b.collapsed = i, i/2
	}
	m.record(Key{Kind: Node}).last = &Result{
		Key: Key{Kind: Node}, At: origin, Outcome: OK, NCCL: "2.27.3", GPUs: []string{"GPU-a"}, Path: fabric.Known(PathNVLS, "log", origin),
		Measurements: []Measurement{{Op: AllReduce, Type: Float32, Bytes: 8, Ranks: 2, Time: time.Second, BusBW: 1.5}},
		Comparison:   Comparison{Median: 2, Ratio: fabric.Known(0.75, "baseline", origin), Regressed: true},
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

// Whatever is wrong with a file, nothing of it is believed, and what was there before stays.
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
	refuse("another version", bytes.Replace(good, []byte(`"version":1`), []byte(`"version":2`), 1))
	refuse("too long", append(good, bytes.Repeat([]byte(" "), stateMost)...))
	refuse("two", append(bytes.Clone(good), good...))
	refuse("null", []byte("null"))

	// With a checksum that is right.
	for name, replace := range map[string][2]string{
		"a kind":                    {`"Kind":"rail"`, `"Kind":"road"`},
		"an age":                    {`"ran":0`, `"ran":-5`},
		"a cost":                    {`"cost":4000000000`, `"cost":-1`},
		"a balance":                 {`"GPU-a":4000000000`, `"GPU-a":9223372036854775807`},
		"a bandwidth":               {`"busbw":1000000000`, `"busbw":1e300`},
		"no bandwidth":              {`"busbw":1000000000`, `"busbw":0`},
		"no number":                 {`"busbw":1000000000`, `"busbw":1e999`},
		"a best":                    {`"best":1000000009.5`, `"best":-1`},
		"a latency":                 {`"seconds":0.000014`, `"seconds":-1`},
		"a long latency":            {`"seconds":0.000014`, `"seconds":3601`},
		"a collapse":                {`"collapsed":1`, `"collapsed":-1`},
		"more collapsed than below": {`"collapsed":1`, `"collapsed":9`},
		"samples in no row":         {`{"age":108000,`, `{"age":1,`},
		"a field":                   {`"written"`, `"wrote"`},
		"a time":                    {`"written":`, `"written":9`},
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
		refuse(name, seal(t, changed))
	}
}

// A file of before there were latencies and collapses is read, and what it does not say is not known.
func TestOldStateIsRead(t *testing.T) {
	var samples []string
	for i := range enough {
		samples = append(samples, fmt.Sprintf(`{"age":%d,"busbw":100000000000}`, 90000-i))
	}
	file := seal(t, `{"written":1700000000,"gpus":{"GPU-a":5},"probes":[{"key":{"Kind":"node","Device":"","Port":0},"ran":60,"cost":5,"baselines":[`+
		`{"fingerprint":"node","best":0,"below":2,"used":60,"samples":[`+strings.Join(samples, ",")+`]}],`+
		`"last":{"Key":{"Kind":"node","Device":"","Port":0},"At":"2023-11-14T22:12:20Z","Outcome":"ok","Comparison":{"Ratio":{"Value":0.7,"State":1},"Regressed":true,"Below":2}}}]}`)
	now := time.Unix(1_700_000_000, 0)
	m := newMemory()
	if err := m.decode(file, now, now); err != nil {
		t.Fatal(err)
	}
	r := m.records[Key{Kind: Node}]
	if r == nil || r.last == nil || !r.last.Comparison.Regressed || r.last.Comparison.Collapsed != 0 || r.last.Comparison.Latency.Ratio.State == fabric.OK {
		t.Fatalf("%+v", r)
	}
	c := r.baselines["node"].judge(70e9, time.Second, 0.95, now)
	if c.Below != 3 || c.Collapsed != 1 || c.Samples != enough || c.Latency.Samples != 0 || c.Latency.Ratio.State == fabric.OK || c.Latency.Late {
		t.Errorf("%+v", c)
	}
}

// What another version says of a result must not cost the baselines.
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
		"another type":  strings.Replace(string(good), `"NCCL":"2.27.3"`, `"NCCL":22703`, 1),
		"another probe": strings.Replace(string(good), `"Kind":"node"`, `"Kind":"socket"`, 1),
		"an outcome":    strings.Replace(string(good), `"Outcome":"ok"`, `"Outcome":"fine"`, 1),
		"a failure":     strings.Replace(string(good), `"Failure":""`, `"Failure":"hang"`, 1),
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
func seal(t testing.TB, state string) []byte {
	sum := fmt.Sprintf("%x", sum256(state))
	return fmt.Appendf(nil, `{"version":%d,"sha256":%q,"state":%s}`, stateVersion, sum, state)
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
	f.Add(`{"written":1,"gpus":{"a":-5},"probes":[{"key":{"Kind":"node"},"cost":1,"baselines":[]}]}`)
	f.Add(`{"probes":[null],"gpus":null}`)
	f.Fuzz(func(t *testing.T, state string) {
		m := newMemory()
		if err := m.decode([]byte(state), origin, origin); err == nil {
			t.Fatal("a state without a checksum was read")
		}
		if err := m.decode(seal(t, state), origin, origin); err != nil {
			if !errors.Is(err, ErrState) {
				t.Fatalf("%v is no %v", err, ErrState)
			}
			return
		}
		for gpu := range m.duty.gpus {
			m.duty.pay(gpu, time.Second, origin)
		}
		for _, r := range m.records {
			for _, b := range r.baselines {
				b.judge(1e9, time.Millisecond, 0.95, origin)
				b.learn(1e9, time.Millisecond, LatencyComparison{}, origin)
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
