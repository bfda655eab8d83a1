// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

const (
	maxCounters    = 256 // of a directory; bnxt_re has 92
	maxCounterName = 64  // bytes; those of Linux stay below 40
	listEvery      = time.Minute
	// The kernel makes the counters of a device when it registers it (ib_setup_port_attrs of
	// drivers/infiniband/core/sysfs.c): what was listed twice alike is all of them.
	listWholeEvery = time.Hour
)

// counter is one counter: a file that holds a number.
type counter struct {
	question
	published string // the name it is published under
	fact      fabric.Fact[uint64]
}

// counterDir is a directory of counters.
type counterDir struct {
	dir    *dir
	prefix string         // of the published names
	asks   fabric.Command // what one read of a file asks of the driver
	listed time.Time      // zero: never
	whole  bool           // it was listed twice alike, and nothing in it was missing since
	names  []string       // that were listed
	err    error          // of listing
	files  []counter
}

func newCounterDir(parent *dir, name, prefix string, asks fabric.Command) counterDir {
	return counterDir{dir: parent.sub(name), prefix: prefix, asks: asks}
}

func (c *counterDir) close() {
	for i := range c.files {
		c.files[i].close()
	}
	c.files, c.names, c.listed, c.whole = nil, nil, time.Time{}, false
	c.dir.close()
}

// due reports whether the directory was not listed for a while.
func (c *counterDir) due(now time.Time) bool {
	return c.listed.IsZero() || !c.settled(now) && now.Sub(c.listed) >= listEvery
}

// settled reports whether the list can be relied on.
func (c *counterDir) settled(now time.Time) bool {
	return c.whole && now.Sub(c.listed) < listWholeEvery
}

// list finds out which counters there are now, and keeps what is known of them. Names are chosen by drivers,
// those of ionic by its firmware: what no kernel would show is left out.
func (d *Device) list(c *counterDir, now time.Time) {
	c.dir.close() // a directory is listed once while it is open
	names, err := c.dir.names()
	d.lost = d.lost || err != nil // let verdict look
	again := slices.Equal(c.names, names)
	c.whole = again && err == nil && c.err == nil && !c.listed.IsZero()
	c.listed, c.err = now, err
	if again {
		return
	}
	known := c.files
	c.names = names
	c.files = make([]counter, 0, min(len(names), maxCounters))
	for _, name := range names {
		if !validCounterName(name) || len(c.files) == maxCounters {
			continue
		}
		k := slices.IndexFunc(known, func(f counter) bool { return f.name == name })
		if k >= 0 {
			c.files = append(c.files, known[k])
			known = slices.Delete(known, k, k+1)
			continue
		}
		f := counter{question: newQuestion(c.dir, name, c.asks), published: c.prefix + name}
		f.fact = fabric.UnknownFact[uint64](fabric.ReasonNotRead, f.source, now)
		c.files = append(c.files, f)
	}
	for i := range known {
		known[i].close()
	}
}

// readCounter reads a counter of c. One that is missing has the directory listed anew.
func (d *Device) readCounter(c *counterDir, f *counter, now time.Time) {
	f.fact = ask(d.reader, &f.question, now, parseCounter)
	if r := f.fact.Reason; r == fabric.ReasonGone || r == fabric.ReasonMissing {
		c.whole = false
	}
}

// publish makes a fact of what was read of some directories that belong together. Without any of them the
// driver has no such counters; one that cannot be listed may hide some.
func publish(source string, now time.Time, dirs ...*counterDir) fabric.Fact[[]fabric.Counter] {
	size, exists := 0, false
	for _, c := range dirs {
		switch {
		case c.err == nil:
			size, exists = size+len(c.files), true
		case !errors.Is(c.err, fs.ErrNotExist):
			return fabric.UnknownFact[[]fabric.Counter](fabric.ReasonOf(c.err), c.dir.path, c.listed)
		}
	}
	if !exists {
		return fabric.AbsentFact[[]fabric.Counter](source, dirs[0].listed)
	}
	all := make([]fabric.Counter, 0, size)
	for _, c := range dirs {
		for i := range c.files {
			all = append(all, fabric.Counter{Name: c.files[i].published, Value: c.files[i].fact})
		}
	}
	return fabric.Known(all, source, now)
}

// ReadPMA reads counters/ of every port of h, and counters_ext/ where that is. Counters that show traffic are read each
// time. When all is true, everything in the directories is read, which are listed until they are settled;
// else the other counters stay as they were last read. On mlx5 each file costs one firmware command
// (process_pma_cmd of drivers/infiniband/hw/mlx5/mad.c).
func (d *Device) ReadPMA(h *fabric.HCA, all bool, now time.Time) error {
	for i := range h.Ports {
		q := &h.Ports[i]
		p := d.port(q.Number)
		settled := p.pma.settled(now) && (p.ext.listed.IsZero() || p.ext.settled(now))
		if p.pma.listed.IsZero() || all && !settled {
			d.listPMA(p, now)
		}
		for _, c := range []*counterDir{&p.pma, &p.ext} {
			for k := range c.files {
				if f := &c.files[k]; all || showsTraffic(f.name) {
					d.readCounter(c, f, now)
				}
			}
		}
		q.Counters.PMA = publish(p.pma.dir.path, now, &p.pma, &p.ext)
	}
	return d.verdict()
}

// wider ends the names in counters_ext/ of what counters/ has as well, in 32 bits that stick.
const wider = "_64"

// listPMA lists counters/. Where that has no more than 32 bits it lists counters_ext/ too, and leaves out
// what is there.
func (d *Device) listPMA(p *port, now time.Time) {
	d.list(&p.pma, now)
	if p.pma.err != nil || p.pma.has("unicast_xmit_packets") {
		p.ext.close()
		p.ext.err = fs.ErrNotExist
		return
	}
	d.list(&p.ext, now)
	p.pma.files = slices.DeleteFunc(p.pma.files, func(f counter) bool {
		twice := p.ext.has(f.name + wider)
		if twice {
			f.close()
		}
		return twice
	})
}

func (c *counterDir) has(name string) bool {
	return slices.ContainsFunc(c.files, func(f counter) bool { return f.name == name })
}

func showsTraffic(name string) bool {
	switch strings.TrimSuffix(name, wider) {
	case "port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "port_xmit_wait":
		return true
	}
	return false
}

// ReadCM reads what the connection manager counts of every port of h, if it runs: it makes these directories when
// it takes a device (cm_add_one of drivers/infiniband/core/cm.c). No driver is asked.
func (d *Device) ReadCM(h *fabric.HCA, now time.Time) error {
	for i := range h.Ports {
		q := &h.Ports[i]
		p := d.port(q.Number)
		for _, c := range p.cm {
			if c.due(now) {
				d.list(c, now)
			}
			for k := range c.files {
				f := &c.files[k]
				f.fact = askOnce(d.reader, &f.question, now, parseCounter)
			}
		}
		q.Counters.CM = publish(p.dir.path, now, p.cm...)
	}
	return d.verdict()
}

// newCMDirs returns the directories of cm_counter_groups of drivers/infiniband/core/cm.c.
func newCMDirs(port *dir) []*counterDir {
	var dirs []*counterDir
	for _, name := range []string{"cm_rx_msgs", "cm_tx_msgs", "cm_tx_retries", "cm_rx_duplicates"} {
		c := newCounterDir(port, name, name+"/", "")
		dirs = append(dirs, &c)
	}
	return dirs
}
