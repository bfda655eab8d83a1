// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// PortSubject is a port; its name is that of the device where the device has no other.
func PortSubject(h *fabric.HCA, p *fabric.Port) Subject {
	s := Subject{Device: h.Name, Port: p.Number}
	if len(h.Ports) > 1 {
		s.Name = h.Name + " port " + strconv.Itoa(p.Number)
	}
	return s
}
