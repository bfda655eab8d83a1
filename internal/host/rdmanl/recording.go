// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"bytes"
	"slices"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/replay"
)

// File is the name of a file with exchanges among those of other packages.
const File = "rdma.json"

// Exchange is a question and what the kernel answered, in its bytes. Exchanges can be kept and replayed: see Record,
// Load and Replay.
type Exchange struct {
	Command  string         `json:"command"`         // as Requests names it
	Request  replay.Bytes   `json:"request"`         // its attributes
	Messages []replay.Bytes `json:"messages"`        // those of each message of the answer
	Errno    syscall.Errno  `json:"errno,omitempty"` // the error number that was the answer
}

// Record has f called with every exchange from now on that the kernel brought to its end.
func (c *Client) Record(f func(Exchange)) { c.record = f }

// recorded makes an Exchange of what ask got.
func recorded(request netlink.Message, replies []netlink.Message, errno syscall.Errno) Exchange {
	e := Exchange{Command: commandOf(request).kind(), Request: bytes.Clone(request.Data), Messages: []replay.Bytes{}, Errno: errno}
	for _, m := range replies {
		e.Messages = append(e.Messages, bytes.Clone(m.Data))
	}
	return e
}

// Load reads exchanges from a JSON file.
func Load(name string) ([]Exchange, error) { return replay.Load[Exchange](name) }

// Replay returns a Client of a kernel that answers as it was recorded. What was not asked then is EINVAL, as for a
// device that is not there.
func Replay(exchanges []Exchange) *Client {
	return &Client{conn: replay.Conn(func(request netlink.Message) ([]replay.Bytes, syscall.Errno) {
		i := slices.IndexFunc(exchanges, func(e Exchange) bool {
			return e.Command == commandOf(request).kind() && bytes.Equal(e.Request, request.Data)
		})
		if i < 0 {
			return nil, unix.EINVAL
		}
		return exchanges[i].Messages, exchanges[i].Errno
	})}
}
