// SPDX-License-Identifier: Apache-2.0

package ras

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// document is a report of rasDumpCommsToJSON (src/ras/client_support.cc). Pointers distinguish what is absent from 0.
type document struct {
	Version       string              `json:"nccl_version"`
	Communicators *list[communicator] `json:"communicators"`
	RAS           *struct {
		Timeouts int `json:"timeouts_count"`
	} `json:"ras"`
}

type communicator struct {
	Hash         string        `json:"hash"`
	Secondary    string        `json:"secondary_hash"`
	Size         int           `json:"size"`
	MissingCount int           `json:"missing_ranks_count"`
	Ranks        list[member]  `json:"ranks"`
	Missing      list[missing] `json:"missing_ranks"`
}

type place struct {
	Rank *int   `json:"rank"`
	Host string `json:"host"` // an IP address, or unknown
	PID  int    `json:"pid"`
	GPU  *int   `json:"cuda_dev"`
}

type member struct {
	place
	Status *struct {
		InitState  *int `json:"init_state"`
		AsyncError *int `json:"async_error"`
		Finalize   bool `json:"finalize_called"`
		Destroy    bool `json:"destroy_flag"`
		Abort      bool `json:"abort_flag"`
	} `json:"status"`
	Counts counts `json:"collective_counts"`
}

type missing struct {
	place
	Status *struct {
		Unresponsive *bool `json:"unresponsive"`
		Dead         *bool `json:"considered_dead"`
	} `json:"status"`
}

// withCommas adds the comma that 2.28.7 to 2.28.9 leave out in each missing rank, between "nvml_dev": 3 and
// "status". It looks back from each "status" by no more than NCCL writes, so that its time is in proportion
// to the length, whatever a process answers.
func withCommas(b []byte) []byte {
	const status = `"status"`
	var out []byte
	done := 0 // bytes of b that are in out
	for from := 0; ; {
		i := bytes.Index(b[from:], []byte(status))
		if i < 0 {
			break
		}
		at := from + i
		from = at + len(status)
		if end := number(b[:at]); end > 0 {
			out = append(append(out, b[done:end]...), ',')
			done = end
		}
	}
	if done == 0 {
		return b
	}
	return append(out, b[done:]...)
}

// number returns where "nvml_dev": and its number end, if blanks and nothing else follow in b; else 0.
func number(b []byte) (end int) {
	const device, mostBlanks, mostDigits = `"nvml_dev": `, 32, 10
	near := b[max(0, len(b)-mostBlanks-mostDigits-len("-")-len(device)):]
	text := bytes.TrimRight(near, " \t\r\n")
	name := bytes.TrimRight(text, "0123456789")
	digits := len(text) - len(name)
	if blanks := len(near) - len(text); blanks == 0 || digits == 0 || digits > mostDigits {
		return 0
	}
	if !bytes.HasSuffix(bytes.TrimSuffix(name, []byte("-")), []byte(device)) {
		return 0
	}
	return len(b) - (len(near) - len(text))
}

// parseJSON reads a report of 2.28.7 or later.
func parseJSON(b []byte) (fabric.RASAnswer, error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		return fabric.RASAnswer{}, fmt.Errorf("read %s, expected a report as JSON: %w", quoted(b), endedIf(len(b) == 0))
	}
	if b[len(b)-1] != '}' {
		return fabric.RASAnswer{}, fmt.Errorf("read JSON of %d bytes without an end: %w", len(b), fabric.ErrRASEnded)
	}
	var d document
	if err := json.Unmarshal(withCommas(b), &d); err != nil {
		return fabric.RASAnswer{}, fmt.Errorf("read JSON that does not parse, expected a report of NCCL: %w", parseError(err))
	}
	if d.Communicators == nil || d.RAS == nil {
		return fabric.RASAnswer{}, errors.New("read JSON without communicators or ras, expected a report of NCCL")
	}
	if n := len(*d.Communicators); n > maxComms {
		return fabric.RASAnswer{}, fmt.Errorf("read %d communicators, expected at most %d", n, maxComms)
	}
	answer := fabric.RASAnswer{Version: release(d.Version), Timeouts: max(d.RAS.Timeouts, 0)}
	for i := range *d.Communicators {
		c := &(*d.Communicators)[i]
		if c.Size == 0 && len(c.Ranks) == 0 && len(c.Missing) == 0 {
			continue // memory that NCCL did not fill, while a communicator was made (NVIDIA/nccl#2346)
		}
		one, err := c.read()
		if err != nil {
			return fabric.RASAnswer{}, fmt.Errorf("communicator %d of the report: %w", i, err)
		}
		answer.Communicators = append(answer.Communicators, one)
	}
	return answer, nil
}

func endedIf(ended bool) error {
	if ended {
		return fabric.ErrRASEnded
	}
	return errors.New("another protocol")
}

// parseError is the error without text of the report in it.
func parseError(err error) error {
	var s *json.SyntaxError
	var u *json.UnmarshalTypeError
	switch {
	case errors.Is(err, errShort), errors.Is(err, errCounts):
		return err
	case errors.As(err, &s):
		return fmt.Errorf("syntax error after %d bytes", s.Offset)
	case errors.As(err, &u):
		return fmt.Errorf("expected another type than %s after %d bytes", strings.Fields(u.Value)[0], u.Offset)
	}
	return errors.New("not the types of a report")
}

func (c *communicator) read() (fabric.RASCommunicator, error) {
	id, ok := idOf(c.Hash, c.Secondary)
	switch {
	case !ok:
		return fabric.RASCommunicator{}, fmt.Errorf("read hash %s, expected hexadecimal numbers",
			quoted([]byte(c.Hash+" "+c.Secondary)))
	case c.Size < 1 || c.Size > maxSize:
		return fabric.RASCommunicator{}, fmt.Errorf("read size %d, expected 1 to %d", c.Size, maxSize)
	case len(c.Ranks) > c.Size || len(c.Missing) > c.Size || c.MissingCount != len(c.Missing):
		return fabric.RASCommunicator{},
			fmt.Errorf("read %d ranks, %d missing ranks and a count of %d of these, of a communicator of %d", len(c.Ranks),
				len(c.Missing), c.MissingCount, c.Size)
	}
	one := fabric.RASCommunicator{ID: id, Size: c.Size, Complete: true, MissingCount: len(c.Missing)}
	for i := range c.Ranks {
		r, err := c.Ranks[i].read(c.Size)
		if err != nil {
			return fabric.RASCommunicator{}, err
		}
		if r.Failed() {
			one.FailedCount++
		}
		one.Spread.Add(r.Operations)
		one.Ranks = append(one.Ranks, r)
	}
	for i := range c.Missing {
		m := &c.Missing[i]
		at, err := m.at(c.Size)
		if err != nil {
			return fabric.RASCommunicator{}, err
		}
		if m.Status == nil || m.Status.Unresponsive == nil || m.Status.Dead == nil {
			return fabric.RASCommunicator{}, fmt.Errorf("missing rank %d without its status", at.Rank)
		}
		one.Missing = append(one.Missing, fabric.RASMissing{
			RASPlace: at, Unresponsive: *m.Status.Unresponsive,
			Dead: *m.Status.Dead,
		})
	}
	return one, nil
}

func (m *member) read(size int) (fabric.RASRank, error) {
	at, err := m.at(size)
	if err != nil {
		return fabric.RASRank{}, err
	}
	s := m.Status
	if s == nil || s.InitState == nil || s.AsyncError == nil || !m.Counts.any {
		return fabric.RASRank{}, fmt.Errorf("rank %d without its status or its counts of collectives", at.Rank)
	}
	return fabric.RASRank{RASPlace: at, InitState: *s.InitState, AsyncError: *s.AsyncError, Ending: s.Finalize ||
		s.Destroy || s.Abort, Operations: m.Counts.sum, Counted: true}, nil
}

func (p *place) at(size int) (fabric.RASPlace, error) {
	if p.Rank == nil || *p.Rank < 0 || *p.Rank >= size {
		return fabric.RASPlace{}, fmt.Errorf("read a rank without a number from 0 to %d", size-1)
	}
	at := fabric.RASPlace{Rank: *p.Rank, PID: max(p.PID, 0), GPU: -1}
	if p.GPU != nil && *p.GPU >= 0 {
		at.GPU = *p.GPU
	}
	if len(p.Host) <= maxQuoted {
		at.Host = hostOf(p.Host)
	}
	return at, nil
}

// hostOf is an address without a zone, which is text; invalid where NCCL does not know it.
func hostOf(s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}
	}
	return a
}

// idOf puts the hashes of a communicator together: "0x1f" and "0x2:0x3" are 1f-2-3.
func idOf(hash, secondary string) (string, bool) {
	host, pid, ok := strings.Cut(secondary, ":")
	if !ok {
		return "", false
	}
	var parts []string
	for _, s := range []string{hash, host, pid} {
		n, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
		if err != nil {
			return "", false
		}
		parts = append(parts, strconv.FormatUint(n, 16))
	}
	return strings.Join(parts, "-"), true
}
