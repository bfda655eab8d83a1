// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Caller carries requests to a Server in another process, one at a time, and starts that process when there
// is none. When the context ends before the answer is there, it returns; the next request waits for that
// answer, or for the end of the process. Close ends the process within a second, whatever it does.
type Caller interface {
	Call(ctx context.Context, request []byte) ([]byte, error)
	Close() error
}

// How long an answer may take. The first one of a process may come with the initialisation of all GPUs, which takes
// seconds for each where no persistence daemon keeps them initialised.
const (
	callTimeout  = 10 * time.Second
	firstTimeout = time.Minute
)

// Client reads GPUs through a Caller. It implements observer.GPUs.
type Client struct {
	caller Caller
	epoch  uint64 // of the last reading that was given out; 0: the next one has to bring all
	buf    []byte
}

// NewClient returns a Client that owns c.
func NewClient(c Caller) *Client { return &Client{caller: c} }

// Close closes the Caller.
func (c *Client) Close() error { return c.caller.Close() }

// Read reads what changes; the rest it takes from last, unless slow is set or last is not a reading of this client. No
// driver is an answer, and so is no library: Loaded is unknown then. The error of a driver that answers no
// request comes with Loaded known true.
func (c *Client) Read(last fabric.GPUDriver, isSlow bool, now time.Time) (fabric.GPUDriver, error) {
	return c.read(context.Background(), last, isSlow, now)
}

func (c *Client) read(ctx context.Context, last fabric.GPUDriver, isSlow bool, now time.Time) (fabric.GPUDriver,
	error,
) {
	q := request{tier: fast, epoch: c.epoch}
	switch loaded, ok := last.Loaded.Get(); {
	case !ok || !loaded || last.Released != "" || c.epoch == 0:
		q = request{tier: all}
	case isSlow:
		q.tier = slow
	}
	timeout := callTimeout
	if q.epoch == 0 {
		timeout = firstTimeout
	}
	c.epoch = 0 // until this one has worked out
	p := reply{driver: last}
	if err := c.ask(ctx, q, timeout, now, &p); err != nil {
		return fabric.GPUDriver{}, err
	}
	return c.conclude(&p, q, now)
}

// ask sends a request and decodes the answer into p, which has what is kept from the last one.
func (c *Client) ask(ctx context.Context, q request, timeout time.Duration, now time.Time, p *reply) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c.buf = encode(c.buf, q.walk)
	raw, err := c.caller.Call(ctx, c.buf)
	if err != nil {
		return fmt.Errorf("ask the process with NVIDIA's library: %w", err)
	}
	if len(raw) > maxReply {
		return fabric.Because(fabric.ReasonMalformed, fmt.Sprintf("nvml: an answer of %d bytes, expected %d at most",
			len(raw), maxReply))
	}
	return decode(raw, now, p.walk)
}

// Processes lists the processes of all GPUs and nothing else: of a GPU there are Index, UUID, Lost and
// Processes. It asks three functions for each GPU. Readings go on as if it had not been.
func (c *Client) Processes(ctx context.Context, now time.Time) ([]fabric.GPU, error) {
	var p reply
	if err := c.ask(ctx, request{tier: running}, firstTimeout, now, &p); err != nil {
		return nil, err
	}
	switch {
	case p.status == noLibrary || p.status == noDriver:
		return nil, fabric.Because(fabric.ReasonGone, "nvml: there is no driver any more")
	case p.status != answered:
		_, err := c.conclude(&p, request{}, now)
		return nil, err
	case p.tier != running:
		return nil, fabric.Because(fabric.ReasonMalformed,
			fmt.Sprintf("nvml: an answer of tier %d, expected %d", p.tier, running))
	}
	unique(p.driver.GPUs)
	return p.driver.GPUs, nil
}

// conclude makes the reading of a reply to q.
func (c *Client) conclude(p *reply, q request, now time.Time) (fabric.GPUDriver, error) {
	switch p.status {
	case noLibrary:
		return fabric.GPUDriver{Loaded: fabric.UnknownFact[bool](fabric.ReasonMissing, fabric.NVMLLibrary, now)}, nil
	case noDriver:
		return fabric.GPUDriver{Loaded: fabric.Known(false, "nvmlInit", now)}, nil
	case mismatch:
		return fabric.GPUDriver{Loaded: fabric.Known(true, "nvmlInit", now)}, fabric.Because(fabric.ReasonUnsupported,
			"NVIDIA's library and kernel module are of different versions (NVML_ERROR_LIB_RM_VERSION_MISMATCH): load the module again, or reboot")
	case failed:
		return fabric.GPUDriver{}, fabric.Because(p.reason, "nvml: "+p.text)
	}
	if p.tier < q.tier || p.tier > all || p.tier != all && p.epoch != q.epoch {
		return fabric.GPUDriver{}, fabric.Because(fabric.ReasonMalformed,
			fmt.Sprintf("nvml: an answer of tier %d and epoch %x, expected tier %d and epoch %x",
				p.tier, p.epoch, q.tier, q.epoch))
	}
	d := &p.driver
	d.Released = ""
	d.Loaded = fabric.Known(true, "nvmlInit", now)
	if p.tier == all {
		unique(d.GPUs)
	}
	c.epoch = p.epoch
	return *d, nil
}

// unique takes UUIDs and addresses from GPUs when another one has had the same: both are keys.
func unique(gpus []fabric.GPU) {
	for i := range gpus {
		g := &gpus[i]
		if slices.ContainsFunc(gpus[:i], func(o fabric.GPU) bool { return o.UUID == g.UUID }) {
			g.UUID = ""
		}
		if slices.ContainsFunc(gpus[:i], func(o fabric.GPU) bool { return o.Address == g.Address }) {
			g.Address = ""
		}
	}
}
