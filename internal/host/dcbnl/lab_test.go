// SPDX-License-Identifier: Apache-2.0

//go:build lab

package dcbnl

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/netlink"
)

// The recordings are made by root in the guest of test/lab, on the devices of fakehca:
//
//	mkdir /tmp/job && go test -c -tags lab -o /tmp/job/dcbnl.test ./internal/host/dcbnl
//	./test/lab/run.sh /tmp/job ./dcbnl.test -test.v -test.run 'TestRecord$' -record .
var recordTo = flag.String("record", "", "write the answers of the kernel into this folder")

func TestRecord(t *testing.T) {
	if *recordTo == "" {
		t.Skip("no -record")
	}
	for _, line := range []string{
		"pfc set dev hca0 delay 32767 prio-pfc all:off 3:on 4:on",
		"ets set dev hca0 willing on prio-tc 0:0 1:0 2:2 3:3 4:4 5:5 6:6 7:7 tc-tsa all:ets 6:strict 7:strict tc-bw all:0 0:50 3:40 4:10",
		"app replace dev hca0 dscp-prio 48:6 46:6 ethtype-prio 0x8915:3 dgram-port-prio 4791:3 default-prio 1",
		"buffer set dev hca0 prio-buffer all:0 3:1 4:2 buffer-size all:0 0:100000 1:262144 2:65536",
		"dcbx set dev hca0 host ieee static",
		"dcbx set dev hca1 host cee",
	} {
		dcb(t, line)
	}
	for file, value := range map[string]string{"tx_prio3_pause": "6", "rx_prio3_pause": "18446744073709551615"} {
		if err := os.WriteFile("/sys/kernel/debug/fakehca/0/"+file, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	setCEEApp(t, "hca1", ceeEtherType, 0x8915, 1<<3)
	setCEEApp(t, "hca1", ceePort, 4791, 1<<3|1<<4)
	record(t, "ieee_get_hca0", "IEEE_GET, a driver with IEEE", encode(cmdIEEEGet, "hca0"))
	record(t, "ieee_get_hca1", "IEEE_GET, a driver that uses CEE", encode(cmdIEEEGet, "hca1"))
	record(t, "cee_get_hca1", "CEE_GET, a driver that uses CEE", encode(cmdCEEGet, "hca1"))
	record(t, "ieee_get_lo", "IEEE_GET, an interface without DCB", encode(cmdIEEEGet, "lo"))
	record(t, "ieee_get_gone", "IEEE_GET, no such interface", encode(cmdIEEEGet, "hca99"))
}

// dcb runs the tool of that name. It numbers its messages by the second, and may fail when that changes in between:
// once more helps.
func dcb(t *testing.T, line string) {
	t.Helper()
	run := func() ([]byte, error) { return exec.Command("dcb", strings.Fields(line)...).CombinedOutput() }
	if _, err := run(); err != nil {
		if out, err := run(); err != nil {
			t.Fatalf("dcb %s: %v\n%s", line, err, out)
		}
	}
}

// setCEEApp makes an entry with DCB_CMD_SAPP, which the dcb tool does not know.
func setCEEApp(t *testing.T, netdev string, idType uint8, id uint16, priorities uint8) {
	t.Helper()
	m := encode(cmdCEEGet, netdev)
	m.Header.Type, m.Data[1] = unix.RTM_SETDCB, 19
	m.Data = put(m.Data, attrApp, put(put(put(nil, appIDType, idType), appID, id), appPriority, priorities))
	if answer := exchange(t, m); answer[4] != unix.RTM_SETDCB || answer[len(answer)-4] != 0 {
		t.Fatalf("DCB_CMD_SAPP: %x", answer)
	}
}

// exchange sends a request and returns the datagram that answers it.
func exchange(t *testing.T, request netlink.Message) []byte {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	request.Header.Length = uint32(unix.NLMSG_HDRLEN + len(request.Data))
	request.Header.Sequence = 1
	b, err := request.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, bufferSize)
	n, _, err := unix.Recvfrom(fd, p, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p[:n]
}

// record writes the answer of the kernel as hexadecimal digits.
func record(t *testing.T, name, about string, request netlink.Message) {
	t.Helper()
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# Linux %s, %s; request data %x\n", strings.TrimSpace(string(release)), about, request.Data)
	for line := range slices.Chunk([]byte(hex.EncodeToString(exchange(t, request))), 64) {
		fmt.Fprintf(&out, "%s\n", line)
	}
	if err := os.WriteFile(filepath.Join(*recordTo, name+".hex"), []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
