// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// card is a card with a device for each of its ports, which are active or down.
func card(name, board string, states ...fabric.PortState) (list []fabric.HCA) {
	for i, s := range states {
		phys := fabric.PhysDisabled
		if s == fabric.PortActive {
			phys = fabric.PhysLinkUp
		}
		list = append(list, fabric.HCA{
			Name: fmt.Sprint(name, "_", i), BoardID: fabric.Known(board, "board_id", at), ImageGUID: fabric.Known(name, "sys_image_guid", at),
			PCI: fabric.Known(fmt.Sprint("0000:17:00.", i), "device", at),
			Ports: []fabric.Port{{
				Number: 1, Role: fabric.Known(fabric.RoleCompute, "", at), State: fabric.Known(s, "state", at), PhysState: fabric.Known(phys, "phys_state", at),
				LinkLayer: fabric.Known(fabric.LinkEthernet, "link_layer", at),
			}},
		})
	}
	return list
}

// Ports that nobody cabled are those that are down with the same number on every card of the board, and on two at least.
func TestUncabledPorts(t *testing.T) {
	const up, down = fabric.PortActive, fabric.PortDown
	for _, test := range []struct {
		name  string
		cards [][]fabric.HCA
		want  int // verdicts that failed
	}{
		{"the second of both", [][]fabric.HCA{card("a", "X", up, down), card("b", "X", up, down)}, 0},
		{"one alone", [][]fabric.HCA{card("a", "X", up, down)}, 1},
		{"one of two", [][]fabric.HCA{card("a", "X", up, down), card("b", "X", up, up)}, 1},
		{"another board uses it", [][]fabric.HCA{card("a", "X", up, down), card("b", "X", up, down), card("c", "Y", up, up)}, 0},
		{"another board lacks it", [][]fabric.HCA{card("a", "X", up, down), card("c", "Y", up, down)}, 2},
		{"different ones", [][]fabric.HCA{card("a", "X", up, down), card("b", "X", down, up)}, 2},
		{"a card without any", [][]fabric.HCA{card("a", "X", up, down), card("b", "X", up, down), card("c", "X", down, down)}, 1},
	} {
		n := &fabric.Node{Policy: &fabric.Policy{}}
		for _, c := range test.cards {
			n.HCAs = append(n.HCAs, c...)
		}
		list := Run(n, []*Check{Find("port_active")})
		if failed := len(Failures(list)); failed != test.want || len(Unknowns(list)) > 0 {
			t.Errorf("%s: %d failed, want %d: %v", test.name, failed, test.want, list)
		}
	}
}
