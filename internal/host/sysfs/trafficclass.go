// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"strconv"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// configRDMACM is where configfs shows the connection manager. Its folders are made by hand, one for each device
// (cma_configfs.c of drivers/infiniband/core), and never by this package.
const configRDMACM = "kernel/config/rdma_cm"

// ReadTrafficClass reads what is set for the queue pairs of every port of h: by MLNX_OFED for all of them, and by
// the connection manager for its own. No driver is asked.
func (d *Device) ReadTrafficClass(h *fabric.HCA, now time.Time) error {
	folder := &dir{fs: d.fs, path: configRDMACM}
	defer folder.close()
	device := folder.sub(d.name)
	defer device.close()
	ports := device.sub("ports")
	defer ports.close()
	for i := range h.Ports {
		q := &h.Ports[i]
		p := d.port(q.Number)
		q.TrafficClass = d.trafficClass(p, now)
		q.DefaultToS = d.defaultToS(q, ports, now)
	}
	return d.verdict()
}

// trafficClass reads tc/<port>/traffic_class. An empty file says that nothing is set.
func (d *Device) trafficClass(p *port, now time.Time) fabric.Fact[fabric.TrafficClass] {
	defer p.closeTrafficClass()
	empty := false
	fact := ask(d.reader, &p.trafficClass, now, func(b []byte) (fabric.TrafficClass, bool) {
		empty = len(line(b)) == 0
		return parseTrafficClass(b)
	})
	if empty {
		return fabric.AbsentFact[fabric.TrafficClass](fact.Source, now)
	}
	return fact
}

func (p *port) closeTrafficClass() {
	p.trafficClass.close()
	for _, d := range p.tc {
		d.close()
	}
}

// defaultToS reads default_roce_tos, which InfiniBand has no use for (cma_resolve_iboe_route of cma.c). Without the
// folder of the device nothing is known: cma_roce_tos of mlnx-tools makes it, sets the value and removes it, and the
// value stays. The file is opened anew for each read, because configfs reads it once for each time it is opened
// (configfs_read_iter of fs/configfs/file.c).
func (d *Device) defaultToS(q *fabric.Port, ports *dir, now time.Time) fabric.Fact[int] {
	if q.LinkLayer.Or("") == fabric.LinkInfiniBand {
		return fabric.AbsentFact[int](q.LinkLayer.Source, now)
	}
	at := ports.sub(strconv.Itoa(q.Number))
	defer at.close()
	return factOf(d.readExtra(at, "default_roce_tos"), now, parseInt(0, 255))
}
