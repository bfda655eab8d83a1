// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	pingOnly = flag.String("ping-only", "", "pattern of the faults that are planted; default: all, of the slow ones with -full only")
	pingAsk  = flag.Bool("ping-ask", false, "only show what the command ping says of faults")
)

// A pingFault is planted in the fabric of guest/ping.sh for a while, and mended.
type pingFault struct {
	name string
	planting
	want   []string      // that is said; no other rail calls itself at fault and no other alert fires
	within time.Duration // each of them, alerts later
	may    string        // pattern of what else may be said
	watch  time.Duration // at least; it ends when all is said, or the time is long over
	ask    string        // arguments of the command ping meanwhile
	show   []string      // queries whose answers are printed before it is mended
	afresh bool          // nodes and Prometheus begin anew before it, because they still tell of the fault before
	settle bool          // wait until nothing is said any more
}

type planting struct{ plant, mend func(*testing.T, *pingFabric) }

// Times to name what is dead and what loses 5 %, and what scrapes and rules take beyond.
const (
	pingDead  = 30 * time.Second
	pingLossy = 60 * time.Second
	pingRules = 45 * time.Second
)

func shells(do, undo string) planting {
	run := func(script string) func(*testing.T, *pingFabric) {
		return func(t *testing.T, _ *pingFabric) { shellOutput(t, "set -ex; "+script) }
	}
	return planting{run(do), run(undo)}
}

// netem adds a discipline to what leaves devices.
func netem(what string, devices ...string) planting {
	each := "for dev in " + strings.Join(devices, " ") + "; do tc qdisc "
	return shells(each+"add dev $dev root netem limit 10000 "+what+"; done", each+"del dev $dev root; done")
}

// drop loses what matches and leaves a device.
func drop(device string, matches ...string) planting {
	var do strings.Builder
	fmt.Fprintf(&do, "tc qdisc add dev %s clsact\n", device)
	for _, m := range matches {
		fmt.Fprintf(&do, "tc filter add dev %s egress protocol ip u32 match ip %s action drop\n", device, m)
	}
	return shells(do.String(), "tc qdisc del dev "+device+" clsact")
}

// dropLarge loses packets of 4,096 bytes and more that come to a device or leave it. A smaller MTU of a rail's own peer would do the same,
// but its veth says so to Soft-RoCE, which then sends the message again for ever.
func dropLarge(device string) planting {
	large := "protocol ip u32 match u16 0x1000 0xf000 at 2 action drop"
	return shells("tc qdisc add dev "+device+" clsact; for way in ingress egress; do tc filter add dev "+device+" $way "+large+"; done",
		"tc qdisc del dev "+device+" clsact")
}

// dropFlow loses the messages of a rail's queue pair, by its UDP source port, on their way from leaf a to others. Each device counts its
// queue pairs from the same number, so many have the same port.
func dropFlow(device, address string) planting {
	return planting{func(t *testing.T, f *pingFabric) {
		body, err := getBody("http://" + pingNode(int(device[1]-'0')) + "/rdma-ping.json")
		var answer struct {
			Rails []struct {
				Device string
				QPN    uint32
			} `json:"queue_pairs"`
		}
		if err == nil {
			err = json.Unmarshal(body, &answer)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range answer.Rails {
			if r.Device == device {
				port := 0xc000 + r.QPN*0x61c88647>>18 // as rxe_qp_init_req chooses it
				drop("ua", fmt.Sprintf("src %s/32 match ip sport %d 0xffff", address, port)).plant(t, f)
				return
			}
		}
		t.Fatalf("%s is not among %s", device, body)
	}, drop("ua").mend}
}

// readdress gives n4r0 another address, and so another GID.
func readdress(from, to string) string {
	return strings.NewReplacer("OLD", from, "NEW", to).Replace(`ip addr add NEW/32 dev n4r0
ip route replace local NEW dev n4r0 table 104
ip rule add pref 20 iif lo from NEW lookup 104 || ip rule list | grep -q NEW # it has been there before
ip route replace 10.0.0.0/24 dev n4r0 src NEW table 104
ip addr flush dev n4r0 to OLD`)
}

// TestPing plants one fault after the other, and prints who names what when, by the clock of the guest.
func TestPing(t *testing.T) {
	if !*pinging {
		t.Skip("only in a guest of its own (PING=1 of test.sh)")
	}
	var f *pingFabric
	only := regexp.MustCompile(*pingOnly)
	for _, fault := range pingFaults() {
		if !only.MatchString(fault.name) || *pingAsk && fault.ask == "" {
			continue
		}
		if *pingOnly == "" && fault.within >= pingSlow && !*full {
			t.Logf("== %s: skipped, it takes %s (FULL=1)", fault.name, fault.watch)
			continue
		}
		if fault.afresh && f != nil && !*pingAsk {
			f.stop(t)
			f = nil
		}
		if f == nil {
			f = startPingFabric(t)
		}
		if *pingAsk {
			fault.plant(t, f)
			fault.print(t)
			fault.mend(t, f)
			continue
		}
		fault.try(t, f)
	}
	f.stop(t)
}

// try plants a fault, watches, mends it, and prints what was said first.
func (p *pingFault) try(t *testing.T, f *pingFabric) {
	before, old := f.said(t), f.counts(t)
	p.plant(t, f)
	planted := time.Now()
	t.Logf("== %s: planted at %s", p.name, planted.Format(time.TimeOnly))
	first, most := map[string]time.Duration{}, map[string]int{}
	look := func() map[string]int {
		said := f.said(t)
		for what, n := range said {
			if before[what] > 0 && !strings.HasSuffix(what, "loses large messages") {
				continue
			}
			if _, known := first[what]; !known {
				first[what] = time.Since(planted)
			}
			most[what] = max(most[what], n)
		}
		return said
	}
	lacking := func(what string) bool { _, said := first[what]; return !said }
	for time.Since(planted) < p.watch || slices.ContainsFunc(p.want, lacking) && time.Since(planted) < 2*p.within+pingRules {
		time.Sleep(max(3*time.Second, p.watch/60))
		look()
	}
	if p.ask != "" {
		p.print(t)
	}
	for _, query := range p.show {
		f.show(t, query)
	}
	p.mend(t, f)
	mended := time.Now()
	for p.settle && time.Since(mended) < 6*time.Minute {
		time.Sleep(5 * time.Second)
		if said := look(); !slices.ContainsFunc(slices.Collect(maps.Keys(said)), func(s string) bool { return !strings.Contains(s, "(info)") }) {
			t.Logf("quiet %.0f s after it was mended", time.Since(mended).Seconds())
			break
		}
	}
	t.Logf("== %s: %s", p.name, f.counts(t).since(old))
	for _, what := range slices.SortedFunc(maps.Keys(first), func(a, b string) int { return int(first[a] - first[b]) }) {
		t.Logf("%4.0f s  %s (%d)", first[what].Seconds(), what, most[what])
	}
	p.judge(t, first)
}

// print shows what the command ping says.
func (p *pingFault) print(t *testing.T) {
	t.Helper()
	out, err := exec.Command("/tmp/gpufabric_exporter", append([]string{"ping"}, strings.Fields(p.ask)...)...).CombinedOutput()
	t.Logf("%s: ping %s (%v)\n%s", p.name, p.ask, err, out)
}

// judge compares what was said with what should have been.
func (p *pingFault) judge(t *testing.T, first map[string]time.Duration) {
	t.Helper()
	for _, want := range p.want {
		limit := p.within
		if strings.HasPrefix(want, "GpuFabric") {
			limit += pingRules
		}
		switch after, said := first[want]; {
		case !said:
			t.Errorf("%s: never said: %s", p.name, want)
		case after > limit:
			t.Errorf("%s: %s after %s, wanted within %s", p.name, want, after, limit)
		}
	}
	accuses := regexp.MustCompile(`says (rail|host)|^GpuFabric`)
	for what := range first {
		may := p.may != "" && regexp.MustCompile(p.may).MatchString(what)
		if accuses.MatchString(what) && !may && !slices.Contains(p.want, what) {
			t.Errorf("%s: wrongly said: %s", p.name, what)
		}
	}
}
