// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// netlink lays out what the kernel answers to RDMA_NLDEV_CMD_GET (fill_dev_info of drivers/infiniband/core/nldev.c), of nodes with a device
// for subnet management: sysfs does not show that it is one.
func (f files) netlink(n *Node) {
	if !slices.ContainsFunc(n.HCAs, func(h HCA) bool { return h.SMI }) {
		return
	}
	var messages []string
	for i := range n.HCAs {
		messages = append(messages, fmt.Sprintf("%q", hex.EncodeToString(n.HCAs[i].message(i))))
	}
	f.text(netlinkDir+"/rdma.json", `[{"command": "get", "messages": [`+strings.Join(messages, ", ")+`]}]`)
}

// message is what the kernel says of a device with that index.
func (h *HCA) message(index int) (b []byte) {
	add := func(kind uint16, value []byte) {
		b = binary.LittleEndian.AppendUint16(b, uint16(4+len(value))) //nolint:gosec // a name has 64 bytes
		b = binary.LittleEndian.AppendUint16(b, kind)
		b = append(b, value...)
		for len(b)%4 > 0 {
			b = append(b, 0)
		}
	}
	word := func(v int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) } //nolint:gosec // it counts
	guid := func(g GUID) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(g)) }
	add(1, word(index))
	add(2, append([]byte(h.Name), 0))
	add(3, word(len(h.Ports)))
	add(6, guid(h.GUID))
	add(7, guid(h.ImageGUID))
	add(14, []byte{1})
	if h.SMI {
		add(99, []byte{1})
	}
	return b
}
