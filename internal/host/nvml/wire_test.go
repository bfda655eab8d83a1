// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"

	"gpufabric_exporter/internal/fabric"
)

// sample has every kind of fact in every state.
func sample() fabric.GPUDriver {
	ok := func(v uint64) fabric.Fact[uint64] { return fabric.Fact[uint64]{State: fabric.OK, Value: v} }
	g := fabric.GPU{Index: 1, UUID: "GPU-00000001-1111-2222-3333-444444444444", Address: "0000:1b:00.0"}
	g.Lost.State = fabric.OK
	g.Name = fabric.Fact[string]{State: fabric.OK, Value: "NVIDIA H100"}
	g.NUMANode.State = fabric.Absent
	g.Processes = fabric.Fact[[]fabric.GPUProcess]{State: fabric.OK, Value: []fabric.GPUProcess{{PID: 7, Kind: fabric.GPUMPS, Memory: ok(9)}}}
	g.Utilization = fabric.Fact[float64]{State: fabric.OK, Value: 0.29}
	g.Memory = fabric.Fact[fabric.GPUMemory]{State: fabric.OK, Value: fabric.GPUMemory{Total: 5, Used: 4}}
	g.ComputeMode.Reason = fabric.ReasonPrivilege
	g.NVLinks = fabric.Fact[[]fabric.NVLink]{State: fabric.OK, Value: []fabric.NVLink{{
		Number: 3, Active: fabric.Fact[bool]{State: fabric.OK, Value: true}, Remote: fabric.Fact[string]{State: fabric.OK, Value: "0000:c1:00.0"},
		RemoteKind: fabric.Fact[fabric.NVLinkEnd]{State: fabric.OK, Value: fabric.NVLinkToSwitch}, Speed: fabric.Fact[float64]{State: fabric.OK, Value: 26562e6},
		Errors: []fabric.NVLinkErrors{{Kind: fabric.NVLinkCRC, Count: ok(1)}},
	}}}
	g.Fabric = fabric.Fact[fabric.GPUFabric]{State: fabric.OK, Value: fabric.GPUFabric{
		State: fabric.GPUFabricCompleted, Status: "success", Clique: 1, Cluster: "00000000-0000-0000-0000-000000000000", Unhealthy: []string{"route_unhealthy"},
	}}
	return fabric.GPUDriver{
		Version: fabric.Fact[string]{State: fabric.OK, Value: "580.65.06"},
		GPUs:    []fabric.GPU{{}, g},
		P2P:     []fabric.GPUPair{{A: 0, B: 1, Write: fabric.Fact[fabric.P2PStatus]{State: fabric.OK, Value: fabric.P2POK}}},
	}
}

func encodeSample(t tier) []byte {
	p := reply{tier: t, epoch: 5, driver: sample()}
	return encode(nil, p.walk)
}

func decodeReply(raw []byte, last fabric.GPUDriver) (reply, error) {
	p := reply{driver: last}
	return p, decode(raw, testTime, p.walk)
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	p, err := decodeReply(encodeSample(all), fabric.GPUDriver{})
	if err != nil {
		t.Fatal(err)
	}
	for path, v := range differences(sample(), p.driver) {
		if v != "unknown(not_read)" { // as which a fact without a reason is written
			t.Errorf("%s became %s", path, v)
		}
	}
	last := p.driver
	for _, tr := range []tier{fast, slow} {
		p, err := decodeReply(encodeSample(tr), last)
		if err != nil {
			t.Fatal(err)
		}
		if got := differences(last, p.driver); len(got) != 0 {
			t.Errorf("tier %d: %v", tr, got)
		}
	}
	if n, m := len(encodeSample(fast)), len(encodeSample(all)); n >= m/2 {
		t.Errorf("a fast reply has %d bytes, one with all %d", n, m)
	}
}

func TestDamagedRepliesAreErrors(t *testing.T) {
	good := encodeSample(all)
	for n := range good {
		if _, err := decodeReply(good[:n], fabric.GPUDriver{}); fabric.ReasonOf(err) != fabric.ReasonMalformed {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	if _, err := decodeReply(append(good, 0), fabric.GPUDriver{}); err == nil {
		t.Error("a byte too many is taken")
	}
	if _, err := decodeReply(encodeSample(fast), fabric.GPUDriver{GPUs: make([]fabric.GPU, 3)}); err == nil {
		t.Error("facts of other GPUs are taken")
	}
}

// answering is a Caller with one answer.
type answering struct {
	raw []byte
	err error
}

func (a answering) Call(context.Context, []byte) ([]byte, error) { return a.raw, a.err }
func (a answering) Close() error                                 { return nil }

func TestAnswersThatDoNotFitTheRequest(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]answering{
		"less than was asked": {raw: encodeSample(fast)},
		"too much":            {raw: make([]byte, maxReply+1)},
		"nothing":             {},
		"an error":            {err: boom},
	} {
		d, err := NewClient(c).Read(fabric.GPUDriver{}, false, testTime)
		if err == nil || len(d.GPUs) != 0 || c.err != nil && !errors.Is(err, boom) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Another epoch than that which was kept, after a good reading.
	c := NewClient(answering{raw: encodeSample(all)})
	d := mustRead(t, c, fabric.GPUDriver{}, false)
	other := reply{tier: fast, epoch: 6, driver: sample()}
	c.caller = answering{raw: encode(nil, other.walk)}
	if _, err := c.Read(d, false, testTime); fabric.ReasonOf(err) != fabric.ReasonMalformed {
		t.Errorf("another epoch: %v", err)
	}
	if c.epoch != 0 {
		t.Error("the next reading does not ask for all")
	}
}

func TestInvalidRequests(t *testing.T) {
	s := NewServer(filepath.Join(t.TempDir(), "none.so"))
	for _, raw := range []string{"", "\x02", "\x01\x07\x00", "\x01\x00\x00\x00"} {
		q := request{}
		_, err := s.Handle(t.Context(), []byte(raw))
		if want := decode([]byte(raw), time.Time{}, q.walk) != nil || q.tier > all; (err != nil) != want {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// TestAPanicIsAnAnswer: go-nvml slices by lengths that the library gives.
func TestAPanicIsAnAnswer(t *testing.T) {
	m := dgxh100.New()
	s := serverOf(m)
	m.SystemGetDriverVersionFunc = nil // the mock panics
	if _, err := NewClient(inProcess{s}).Read(fabric.GPUDriver{}, true, testTime); fabric.ReasonOf(err) != fabric.ReasonPanic {
		t.Errorf("%v", err)
	}
}

// FuzzReply proves that whatever an answer holds, what comes of it is within bounds, and that an answer which is taken
// says the same when it is written again.
func FuzzReply(f *testing.F) {
	for t := range all + 1 {
		f.Add(encodeSample(t))
	}
	f.Add([]byte{version, byte(noDriver)})
	f.Add([]byte{version, byte(failed), 1, 2, 'o', 'k'})
	base, err := decodeReply(encodeSample(all), fabric.GPUDriver{})
	if err != nil {
		f.Fatal(err)
	}
	same, _ := decodeReply(encodeSample(all), fabric.GPUDriver{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := decodeReply(raw, base.driver)
		if !reflect.DeepEqual(base.driver, same.driver) {
			t.Fatal("the last reading changed")
		}
		if err != nil || p.status != answered {
			return
		}
		if len(p.driver.GPUs) > maxGPUs {
			t.Fatalf("%d GPUs", len(p.driver.GPUs))
		}
		for i, g := range p.driver.GPUs {
			if g.Index != i || g.UUID != "" && !uuids.MatchString(g.UUID) || g.Address != "" && !addresses.MatchString(g.Address) {
				t.Fatalf("%+v", g)
			}
			if u := g.Utilization.Or(0); u < 0 || u > 1 || g.Memory.Value.Used > g.Memory.Value.Total || len(g.NVLinks.Value) > maxLinks {
				t.Fatalf("%+v", g)
			}
			for _, l := range g.NVLinks.Value {
				if len(l.Errors) > len(linkErrors) || l.Number < 0 || l.Number >= maxLinks || l.Speed.Or(0) < 0 {
					t.Fatalf("%+v", l)
				}
			}
		}
		for _, pair := range p.driver.P2P {
			if pair.A < 0 || pair.A >= pair.B || pair.B >= len(p.driver.GPUs) {
				t.Fatalf("%+v", pair)
			}
		}
		p.tier = all
		again, err := decodeReply(encode(nil, p.walk), fabric.GPUDriver{})
		if err != nil {
			t.Fatal(err)
		}
		if got := differences(p.driver, again.driver); len(got) != 0 {
			t.Fatalf("written again, it differs in %v", got)
		}
	})
}
