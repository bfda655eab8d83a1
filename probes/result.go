// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/log"
)

// Result is one probe that was started. Its JSON is the same in the state file, in /probes.json and in what the
// command probe prints (docs/PROBES.md): names and meanings stay, new ones may come. What is null is not known, or
// there is none.
type Result struct {
	Label string `json:"label,omitempty"` // names the run in a comparison, "4 GPUs"; else empty
	Key
	At      time.Time `json:"started"`
	Wall    Seconds   `json:"wall_seconds"`
	GPUTime Seconds   `json:"gpu_seconds"` // time with a CUDA context, summed over GPUs
	GPUs    []string  `json:"gpus"`        // UUIDs, by rank

	Outcome Outcome `json:"outcome"`
	Failure Failure `json:"failure,omitempty"` // empty if OK
	// Node is where the rank runs that failed; empty: it is this node, or each rank tells only that others do not answer.
	Node  string `json:"node,omitempty"`
	Error string `json:"error,omitempty"` // in words, bounded
	// Intrusion says how fast the ranks made way for an intruder; nil unless Failure is FailureIntruder.
	Intrusion *Intrusion `json:"intrusion,omitempty"`
	// Release is how long it took from when the ranks were killed, or asked to close, until the driver showed none of
	// them on the GPUs, and, without other processes there, no memory in use. It is unknown without a guard, when that
	// was not so within 10 s, and when the exporter ended or maintenance began first.
	Release Fact[Seconds] `json:"release_seconds"`
	Left    string        `json:"left,omitempty"` // what the driver showed instead, or why it could not be asked; bounded

	// Versions: "2.27.3", "580.65.06", "13.0"; empty if not known.
	NCCL   string `json:"nccl_version,omitempty"`
	Driver string `json:"gpu_driver_version,omitempty"`
	CUDA   string `json:"cuda_version,omitempty"`
	// Path and what follows come from NCCL's log; unknown where it says nothing.
	Path Fact[Path] `json:"path"`
	// in NCCL's words: "IB", "Socket", "AWS Libfabric"; empty if not known
	Network   string     `json:"network,omitempty"`
	NoDevices bool       `json:"no_rdma_device,omitempty"` // NCCL reported that it found no RDMA device
	GPUDirect Fact[bool] `json:"gpudirect_rdma"`           // absent without a network that could use it
	NVLS      Fact[bool] `json:"nvls"`
	SHARP     Fact[bool] `json:"sharp"`
	Channels  Fact[int]  `json:"channels"`

	Init         Seconds       `json:"communicator_seconds"`     // to make the communicator
	Connect      Seconds       `json:"first_collective_seconds"` // in which connections are made
	Measurements []Measurement `json:"measurements"`             // in the order they were made
	// of the last measurement, for kinds that have a baseline
	Comparison Comparison `json:"baseline"`
	// Expected is the bus bandwidth over what the line rate allows; absent for kinds that have no expectation.
	Expected Fact[float64] `json:"expected_ratio"`

	Settings []string `json:"settings"`      // NAME=value that were in effect, according to NCCL's log; bounded
	Log      string   `json:"log,omitempty"` // excerpt of NCCL's log, of the rank that failed or of rank 0; bounded
}

// MarshalJSON has times in UTC, and lists that are never null.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	r.At = r.At.UTC().Truncate(time.Millisecond)
	r.GPUs, r.Settings = append([]string{}, r.GPUs...), append([]string{}, r.Settings...)
	r.Measurements = append([]Measurement{}, r.Measurements...)
	return json.Marshal(plain(r))
}

// SmallMessage returns the measurement that latency is judged by: that of the smallest message, if the result has one
// beside that which its bandwidth is of; else nil.
func (r *Result) SmallMessage() *Measurement {
	n := len(r.Measurements) - 1
	var small *Measurement
	for i := range max(n, 0) {
		if m := &r.Measurements[i]; small == nil || m.Bytes < small.Bytes {
			small = m
		}
	}
	if small == nil || small.Bytes >= r.Measurements[n].Bytes || small.Time <= 0 || small.Time > Slowest {
		return nil
	}
	return small
}

// Intrusion describes how another process came to the GPUs of a run. Times count from when the sample was asked
// for that showed the intruder. Result.Release is when the memory was free.
type Intrusion struct {
	Who    string  `json:"who"`
	Killed Seconds `json:"killed_after_seconds"` // until SIGKILL was sent to all ranks
	Gone   Seconds `json:"gone_after_seconds"`   // until all ranks were reaped
}

// Measurement is one operation of one size.
type Measurement struct {
	Op         Op     `json:"op"`
	Type       DType  `json:"type"`
	Bytes      uint64 `json:"bytes"` // of the message as nccl-tests counts it
	Count      uint64 `json:"count"` // elements, see Op.Count
	Ranks      int    `json:"ranks"`
	Iterations int    `json:"iterations"`
	// Time is that of one iteration by the clock of the host, the mean over iterations, the slowest rank. DeviceTime is
	// the same by events on the GPU's stream. Between nodes both are the best iteration by events.
	Time       Seconds       `json:"seconds"`
	DeviceTime Fact[Seconds] `json:"device_seconds"`
	// AlgBW and BusBW are bytes per second; 0 with one rank.
	AlgBW float64 `json:"algbw_bytes_per_second"`
	BusBW float64 `json:"busbw_bytes_per_second"`
	Wrong uint64  `json:"wrong_elements"` // elements that are not what they must be, over all ranks
}

// Comparison is how a result compares with those before it of the same fingerprint.
type Comparison struct {
	Fingerprint string `json:"fingerprint"` // what must be equal for results to be compared; empty: there is none
	Samples     int    `json:"samples"`     // in the baseline, without this result
	// Median and MAD (median absolute deviation) of the bus bandwidths in bytes per second; unknown without a baseline.
	Median Fact[float64] `json:"median_bytes_per_second"`
	MAD    Fact[float64] `json:"mad_bytes_per_second"`
	// Ratio is the bus bandwidth over Median; unknown without a baseline.
	Ratio Fact[float64] `json:"ratio"`
	// Regressed means that Ratio is below the limit, and that a second run confirmed it.
	Regressed bool `json:"regressed"`
	// Below is how many results in a row were below that limit, with this one; Collapsed how many of them, in a row up to
	// this one, were below 80 % of Median too.
	Below     int `json:"results_below"`
	Collapsed int `json:"results_collapsed"`
	// Best is the highest Median that there was; unknown until there are enough samples. Drifted means that Median itself
	// is so far below it that the baseline has worn away, too slowly for any one result to be regressed.
	Best    Fact[float64] `json:"best_median_bytes_per_second"`
	Drifted bool          `json:"drifted"`
	// Latency is about the smallest message; nil where none was measured beside that which has the bandwidth.
	Latency *LatencyComparison `json:"latency"`
}

// MarshalJSON is null for a result that is not compared.
func (c Comparison) MarshalJSON() ([]byte, error) {
	type plain Comparison
	if c.Fingerprint == "" {
		return []byte("null"), nil
	}
	return json.Marshal(plain(c))
}

func (c *Comparison) late() bool { return c.Latency != nil && c.Latency.Late }

// LatencyComparison is how the time of one iteration of the smallest message compares with those of the same baseline.
type LatencyComparison struct {
	Samples int           `json:"samples"`        // without this result, and without those that were late
	Median  Fact[Seconds] `json:"median_seconds"` // unknown without a baseline
	MAD     Fact[Seconds] `json:"mad_seconds"`
	Ratio   Fact[float64] `json:"ratio"` // time over Median; unknown without a baseline
	Late    bool          `json:"late"`  // Ratio is above 2
}

// Seconds is a time span.
type Seconds float64

// SecondsOf returns a duration in seconds.
func SecondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Duration returns the time span to the nanosecond, within the 10 years that any can take.
func (s Seconds) Duration() time.Duration {
	return time.Duration(math.Round(min(max(float64(s), -LongAgo.Seconds()), LongAgo.Seconds()) * 1e9))
}

// String is that of the duration.
func (s Seconds) String() string { return s.Duration().String() }

// Fact is a fabric.Fact whose JSON is its value, or null where it is absent or unknown. Null is read as unknown.
type Fact[T any] struct{ fabric.Fact[T] }

// Known returns a fact that was read from source.
func Known[T any](v T, source string, at time.Time) Fact[T] {
	return Fact[T]{fabric.Known(v, source, at)}
}

// AbsentFact returns a fact whose subject does not exist.
func AbsentFact[T any](source string, at time.Time) Fact[T] {
	return Fact[T]{fabric.AbsentFact[T](source, at)}
}

// UnknownFact returns a fact that could not be read, and why.
func UnknownFact[T any](why fabric.Reason, source string, at time.Time) Fact[T] {
	return Fact[T]{fabric.UnknownFact[T](why, source, at)}
}

// MarshalJSON implements json.Marshaler.
func (f Fact[T]) MarshalJSON() ([]byte, error) {
	if f.State != fabric.OK {
		return []byte("null"), nil
	}
	return json.Marshal(f.Value)
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Fact[T]) UnmarshalJSON(b []byte) error {
	var v *T
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if *f = (Fact[T]{}); v != nil {
		f.Value, f.State = *v, fabric.OK
	}
	return nil
}

// Sound reports whether a result is one that a probe can have.
func (r *Result) Sound() bool {
	good := r.Outcome == OK && r.Failure == "" || (r.Outcome == Failed || r.Outcome == Aborted) &&
		slices.Contains(Failures(), r.Failure)
	path, known := r.Path.Get()
	if !good || known && !slices.Contains(Paths(), path) || !slices.Contains(Kinds(), r.Kind) || r.At.IsZero() ||
		len(r.Device) > TextMost {
		return false
	}
	for _, v := range []float64{r.Expected.Or(0), r.Comparison.Median.Or(0), r.Comparison.Ratio.Or(0)} {
		if !(v >= 0 && v < Absurd) {
			return false
		}
	}
	return !slices.ContainsFunc(r.Measurements, func(m Measurement) bool {
		return m.Bytes > bytesMost || !(m.BusBW >= 0 && m.BusBW < Absurd && m.AlgBW >= 0 && m.AlgBW < Absurd &&
			m.Time >= 0 && m.Time < math.MaxInt32) ||
			m.Ranks < 0 || m.Ranks > GPUsMost || !slices.Contains(Ops(), m.Op)
	})
}

// Judged returns the bus bandwidth that a result is judged by, that of its last measurement, in bytes per second.
func Judged(r Result) (busBW float64, ok bool) {
	if r.Outcome != OK || len(r.Measurements) == 0 {
		return 0, false
	}
	busBW = r.Measurements[len(r.Measurements)-1].BusBW
	return busBW, busBW > 0 && busBW < Absurd
}

// CompareKeys orders probes: by kind as Kinds lists them, then by device and port.
func CompareKeys(a, b Key) int {
	kinds := Kinds()
	return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
		fabric.NaturalOrder(a.Device, b.Device),
		cmp.Compare(a.Port, b.Port))
}

// PathOf is what a network of that name is.
func PathOf(network string) Path {
	switch log.CarrierOf(network) {
	case log.Verbs:
		return PathIB
	case log.Sockets:
		return PathSocket
	case log.OtherCarrier:
	}
	return PathPlugin
}

// LogSource is where facts come from that NCCL logged.
const LogSource = "NCCL log"

// What is beyond these limits is no result of a probe.
const (
	Absurd    = 1e15    // bytes per second
	Slowest   = 3600    // seconds of a small message
	bytesMost = 1 << 50 // of a message: more than the memory of all GPUs of a node
	GPUsMost  = 256
	TextMost  = 512 // bytes of a fingerprint or a name
	LongAgo   = 10 * 365 * 24 * time.Hour
)
