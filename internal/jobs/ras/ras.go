// SPDX-License-Identifier: Apache-2.0

// Package ras queries the RAS subsystem of NCCL (2.24 and later) about a job: ranks that are missing, dead or
// failed, and how many collectives each rank has launched. It speaks the protocol of
// src/ras/client_support.cc of NCCL: lines of text, and a report as text, or as JSON from 2.28.7 on.
//
// Asking makes every process of the job send its data to the one that is asked, and has crashed jobs: package
// progress decides which process may be asked, and this package asks the one that it is given.
//
// The other side is a process of a user. A report of more than 16 MiB, of other characters than NCCL writes,
// of another protocol, or that is not complete after 12 s is refused. Nothing of it is kept but numbers,
// hashes and IP addresses.
//
// Concurrency: Ask uses one connection from one goroutine; calls are independent of each other.
//
// Errors say what was read and what was expected. fabric.ErrRASEnded is in the chain if the other side ended
// the connection.
package ras

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Bounds of a conversation.
const (
	limit     = 12 * time.Second // RAS waits for 5 s, and 5 s more, for the data of other processes
	maxAnswer = 16 << 20         // bytes; a rank takes some 650 bytes of JSON for each communicator
	maxText   = 1 << 20          // bytes of a report as text, which takes up to 30 times as much in memory
	maxLine   = 1 << 10          // bytes of a short answer
	maxQuoted = 60               // bytes of what was read in an error
	maxSize   = 1 << 20          // ranks of a communicator
	maxComms  = 1 << 16          // communicators
)

// protocol is NCCL_RAS_CLIENT_PROTOCOL, the same in 2.24 to 2.30.
const protocol = "2"

// Ask asks the process at the other end of a connection, whose NCCL is of this version. It does not close the
// connection.
func Ask(ctx context.Context, conn net.Conn, version fabric.NCCLVersion) (fabric.RASAnswer, error) {
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return fabric.RASAnswer{}, fmt.Errorf("time limit of the connection to RAS: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	c := &client{conn: conn, left: io.LimitedReader{R: conn, N: maxAnswer + 1}}
	c.in = bufio.NewReader(&c.left)
	answer, err := c.ask(version)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fabric.RASAnswer{}, fmt.Errorf("RAS of NCCL %s: %w", version, err)
	}
	return answer, nil
}

// client is one conversation.
type client struct {
	conn net.Conn
	left io.LimitedReader
	in   *bufio.Reader
}

func (c *client) ask(version fabric.NCCLVersion) (fabric.RASAnswer, error) {
	structured := version.AtLeast("2.28.7")
	// Never TIMEOUT 0: with it, NCCL keeps the request of a report for ever.
	steps := [][2]string{{"CLIENT PROTOCOL " + protocol, "SERVER PROTOCOL " + protocol}, {"TIMEOUT 5", "OK"}}
	report := "VERBOSE STATUS"
	if structured {
		steps = append(steps, [2]string{"SET FORMAT json", "OK"})
		report = "STATUS"
	}
	for _, s := range steps {
		if err := c.say(s[0]); err != nil {
			return fabric.RASAnswer{}, err
		}
		if err := c.expect(s[1]); err != nil {
			return fabric.RASAnswer{}, fmt.Errorf("answer to %s: %w", s[0], err)
		}
	}
	if err := c.say(report); err != nil {
		return fabric.RASAnswer{}, err
	}
	b, err := c.rest()
	if err != nil {
		return fabric.RASAnswer{}, fmt.Errorf("answer to %s: %w", report, err)
	}
	if structured {
		return parseJSON(b)
	}
	return parseText(b)
}

func (c *client) say(line string) error {
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		return fmt.Errorf("%s: %w", line, reasonOf(err))
	}
	return nil
}

// expect reads a line.
func (c *client) expect(want string) error {
	var line []byte
	for len(line) < maxLine {
		b, err := c.in.ReadByte()
		if err != nil {
			return fmt.Errorf("%w: read %s, expected %q", reasonOf(err), quoted(line), want)
		}
		if b == '\n' {
			line = bytes.TrimSuffix(line, []byte("\r"))
			if string(line) != want {
				return fmt.Errorf("read %s, expected %q", quoted(line), want)
			}
			return nil
		}
		line = append(line, b)
	}
	return fmt.Errorf("read a line of more than %d bytes, %s, expected %q", maxLine, quoted(line), want)
}

// rest reads the report, at whose end NCCL closes the connection.
func (c *client) rest() ([]byte, error) {
	var b []byte
	chunk := make([]byte, 64<<10)
	for {
		n, err := c.in.Read(chunk)
		if i := bytes.IndexFunc(chunk[:n], unprintable); i >= 0 {
			return nil, fmt.Errorf("read the character %#x after %d bytes, expected a report in ASCII", chunk[i], len(b)+i)
		}
		if b = append(b, chunk[:n]...); c.left.N <= 0 {
			return nil, fmt.Errorf("read more than %d MiB, expected a report that ends before", maxAnswer>>20)
		}
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, fmt.Errorf("%w: read %d bytes that begin with %s, expected a report that ends", reasonOf(err), len(b),
				quoted(b))
		}
	}
}

func unprintable(r rune) bool {
	return (r < ' ' || r > '~') && r != '\n' && r != '\r' && r != '\t'
}

// reasonOf names the error of a connection in words of its own: addresses and ports say nothing.
func reasonOf(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no complete answer within %s", limit)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return fabric.ErrRASEnded
	}
	return err
}

// quoted is the beginning of what was read, with everything that could control a terminal escaped.
func quoted(b []byte) string {
	if len(b) == 0 {
		return "nothing"
	}
	if len(b) > maxQuoted {
		return strconv.QuoteToASCII(string(b[:maxQuoted])) + "..."
	}
	return strconv.QuoteToASCII(string(b))
}

// release is the version at the beginning of a text, empty without one.
func release(s string) string {
	n := strings.IndexFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if n < 0 {
		n = len(s)
	}
	if _, err := fabric.ParseNCCLVersion(s[:n]); err != nil {
		return ""
	}
	return s[:n]
}
