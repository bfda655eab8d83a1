// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"strings"
	"testing"
)

// ticket is the text and the JSON of a log, for a ticket.
func ticket(t *testing.T, log string) string {
	t.Helper()
	_, text, _ := run(t, t.Context(), strings.NewReader(log), "-", "--redact")
	_, document, _ := run(t, t.Context(), strings.NewReader(log), "-", "--redact", "--output=json")
	if !json.Valid([]byte(document)) {
		t.Errorf("no JSON: %s", document)
	}
	return text + document
}

// What goes into a ticket names no host, no user, no address and no place of the site, wherever the log does so, and
// keeps what explains the failure; the same value has the same name.
func TestTicket(t *testing.T) {
	const warn = "gpu-7:1:2 [0] x.cc:9 NCCL WARN "
	const began = "gpu-7:1:2 [0] NCCL INFO Bootstrap : Using eth7:10.99.1.1<0>\n"
	const completion = "NET/IB : Got completion from peer 10.7.0.X<77> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fd00::7 remoteGidsfd00::X\n"
	device := func(host string) string {
		return "# Using devices\n#  Rank  0 Group  0 Pid 7 on " + host + " device  0 [0x1b] NVIDIA H100\n" +
			"           8             2     float     sum      -1    45.46    0.00    0.00      0    124.9    0.00    0.00      0\n" +
			"# Avg bus bandwidth    : 0\n"
	}
	for name, tt := range map[string]struct {
		log           string
		secrets, kept []string
	}{
		"tests apart": {device("zzz-a") + device("zzz-b"), []string{"zzz"}, []string{"on host1, host2"}},
		"launchers": {
			began + "RuntimeError: The client socket has failed to connect to [zzzhead.acme.com]:29500 (errno: 110 - Connection timed out).\n" +
				"srun: error: zzznode-2: task 11: Out Of Memory\nssh: Could not resolve hostname zzzmaster: Name or service not known\n" +
				"mpirun noticed that process rank 3 with PID 77 on node zzznode-5 exited on signal 9 (Killed).\n" +
				"  host      : zzzother\n" + warn + "no answer of zzzother and zzznode-77 at 7\n",
			[]string{"zzz", "acme"},
			[]string{"]:29500", "task 11: Out Of Memory", " at 7", "errno: 110"},
		},
		"names": {
			warn + "peer zzz2.acme.internal<77> GPU-7 mac 02:42:ac:11:00:02 guid 0x0002c90300a1b2c3 alice@login.acme.com uid=1000(alice) eth-alice login.acme.de\n",
			[]string{"zzz", "acme", "gpu-7", "GPU-7", "02:42", "a1b2c3", "alice"},
			[]string{"user1"},
		},
		"addresses": {
			warn + "local GID ::ffff:10.11.12.13, remote GID fe80::aabb:ccff:fedd:eeff eth7:fe80::7:77%eth7<9> to 10.11.12.13<9> at 12:30:45 x.cc:7\n",
			[]string{"10.11", "fe80", "aabb", "::7"},
			[]string{"<9>", "12:30:45", "x.cc:7", "eth7:address"},
		},
		"paths": {
			warn + "open /root/alice-p/x.xml /data/home2/alice/x /u/alice/x ~alice/x ~/alice/x C:\\Users\\alice\\x file:///home/alice HOME=/gpfs/alice\n" +
				"gpu-7:1:2 [0] x.cc:7 NCCL WARN open /opt/alice/site-packages/torch/y.py P2P/CUMEM /sys/class/infiniband torch.nn.Module\n",
			[]string{"alice", "gpfs", "home2"},
			[]string{"/x.xml", "site-packages/torch/y.py", "P2P/CUMEM", "/sys/class/infiniband", "torch.nn.Module"},
		},
		"a cut": {warn + strings.Repeat("y ", 2000) + "/home/alice/" + strings.Repeat("alice/", 500) + "\n", []string{"alice", "ice/"}, nil},
		"place": {
			"Traceback (most recent call last):\n  File \"/raid/alice/train.py\", line 3, in <module>\nValueError: cannot open /raid/alice/x on login-7.acme.com\n",
			[]string{"alice", "acme"},
			[]string{"train.py:3"},
		},
		"GIDs": {
			warn + strings.ReplaceAll(completion, "X", "8") + warn + strings.ReplaceAll(completion, "X", "9"),
			[]string{"10.7.0", "fd00", "gpu-7"},
			[]string{"host1", "status=12", "address1", "address2"},
		},
		"began": {began + "NCCL version 2.25.1+cuda12.7\ngpu-7:1:2 [0] NCCL INFO Using network IB\n", []string{"10.99", "gpu-7"}, []string{"eth7 (address1)"}},
		"fixed sentences": {
			"a:1:2 [0] NCCL INFO Bootstrap : Using eth7:10.99.1.1<0>\nNCCL_SOCKET_IFNAME:1:2 [0] NCCL INFO Bootstrap : Using eth7:10.99.1.2<0>\n" +
				"a:1:2 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found\na:1:2 [0] NCCL INFO init.cc:116 -> 3\n" +
				"libfabric:77:7::efa:domain:zzz():7<warn> Failed to register CUDA buffer with the EFA device zzz\n",
			nil,
			[]string{"Set NCCL_SOCKET_IFNAME to a prefix", "libfabric:77:7::efa:domain"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			shown := ticket(t, tt.log)
			for _, secret := range tt.secrets {
				if strings.Contains(shown, secret) {
					t.Errorf("%q is in %s", secret, shown)
				}
			}
			for _, kept := range tt.kept {
				if !strings.Contains(shown, kept) {
					t.Errorf("%q is not in %s", kept, shown)
				}
			}
		})
	}
}
