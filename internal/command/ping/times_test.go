// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
)

// TestTimes prints network, responder and initiator where both NICs have clocks, and says whose has none.
func TestTimes(t *testing.T) {
	const clocks = "clock all 1000000"
	n := connectAs(t, "", clocks)
	code, out := n.ping(n.peer, "--count=2")
	if code != command.OK {
		t.Errorf("exit code %d", code)
	}
	t.Log(out)
	commandtest.Contains(t, out, "Times of network and hosts are by the clocks of both NICs.", " µs (network ", ", responder ", ", initiator ",
		"of it, by the clocks of the NICs: network min ", "; responder min ", "; initiator min ")
	n.plant(clocks, "fast 127.0.1.2 1000", "late 127.0.1.2 0.001")
	if code, out = n.ping(n.peer, "--count=2"); code != command.OK {
		t.Errorf("exit code %d", code)
	}
	commandtest.Contains(t, out, "(what the responder tells of it cannot be)", "2 sent, 2 answered")
	commandtest.Lacks(t, out, "of it, by the clocks")
	n.stop()

	n = connectAs(t, "", "clock 127.0.0.2 1000000")
	code, out = n.ping(n.peer, "--count=1")
	if code != command.OK {
		t.Errorf("exit code %d", code)
	}
	commandtest.Contains(t, out, "Times are by the clock of this host: the peer's mlx5_0 has none for completions.")
	commandtest.Lacks(t, out, "network min")
}

// TestDeadFlow is one of eight equal paths that is dead, and a fabric that loses messages of all of them.
func TestDeadFlow(t *testing.T) {
	n := connect(t)
	n.timeout = "250ms"
	n.plant("flow 127.0.1.2 5")
	code, out := n.ping(n.peer, "--count=16")
	if code != exitLost {
		t.Errorf("exit code %d", code)
	}
	commandtest.Contains(t, out, "16 sent, 14 answered", "2 of 16 flows get no answer (flow labels 5 13), and the others do", "3 of 3 messages")
	n.plant("lose 127.0.1.2 0.3")
	if code, out = n.ping(n.peer, "--count=30"); code != exitLost {
		t.Errorf("exit code %d", code)
	}
	commandtest.Contains(t, out, "the fabric or the peer loses messages")
}

// TestInfiniBand pings ports of InfiniBand, and says which partitions keep them apart.
func TestInfiniBand(t *testing.T) {
	const routed = "grh all" // by GID, because both nodes have the same LIDs
	n := connectAs(t, "4 5 1", routed)
	code, out := n.ping(n.peer, "--count=1")
	if code != command.OK {
		t.Errorf("exit code %d", code)
	}
	commandtest.Contains(t, out, "mlx5_0: LID 3, P_Key 0xffff, service level 0, MTU 4096", "1 sent, 1 answered")
	for pkey, want := range map[string]string{
		"32769": "the partitions differ: P_Key 0x8001 here, 0xffff of the peer",
		"32767": "loopback: a limited member of a partition does not reach itself",
	} {
		n.plant(routed, "pkey all "+pkey)
		code, out := n.ping(n.peer, "--count=1")
		if (code == command.OK) != (pkey == "32767") {
			t.Errorf("exit code %d: %s", code, out)
		}
		commandtest.Contains(t, out, want)
	}
	n.stop()
	n = connectAs(t, "4 5 1", routed, "pkey all 32767")
	if code, out := n.ping(n.peer, "--count=1"); code != exitLost {
		t.Errorf("exit code %d: %s", code, out)
	}
}
