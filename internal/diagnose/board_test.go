// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"

	"gpufabric_exporter/internal/fabric"
)

// card is a card with a device for each of its ports, which are active or down and should have a link.
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
				Number: 1, State: fabric.Known(s, "state", at), PhysState: fabric.Known(phys, "phys_state", at),
				LinkLayer: fabric.Known(fabric.LinkEthernet, "link_layer", at),
				Role:      fabric.Known(fabric.RoleCompute, "", at), RoleBy: fabric.ByConfiguration,
				Link: fabric.Expected[bool]{Value: true, By: fabric.ByRecord, Words: "it had a link"},
			}},
		})
	}
	return list
}
