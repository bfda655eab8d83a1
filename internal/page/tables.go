// SPDX-License-Identifier: Apache-2.0

package page

import "gpufabric_exporter/internal/status"

// gpuRow is a GPU in the table of all.
type gpuRow struct {
	*status.GPU
	Status cell
}

func gpuRows(d *status.Document) []gpuRow {
	var rows []gpuRow
	for i := range d.GPUs {
		rows = append(rows, gpuRow{&d.GPUs[i], statusCell(&d.GPUs[i].Part)})
	}
	return rows
}

// deviceRow is a port in the table of all devices, or a device without ports.
type deviceRow struct {
	*status.Device
	*status.Port      // nil: none
	Status       cell // of the device if it has no other port
}

func deviceRows(d *status.Document) []deviceRow {
	var rows []deviceRow
	for i := range d.Devices {
		x := &d.Devices[i]
		if len(x.Ports) < 2 {
			row := deviceRow{Device: x, Status: statusCell(&x.Part)}
			if len(x.Ports) == 1 {
				row.Port = &x.Ports[0]
			}
			rows = append(rows, row)
			continue
		}
		for k := range x.Ports {
			rows = append(rows, deviceRow{x, &x.Ports[k], statusCell(&x.Ports[k].Part)})
		}
	}
	return rows
}
