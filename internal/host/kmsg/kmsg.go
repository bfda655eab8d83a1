// SPDX-License-Identifier: Apache-2.0

// Package kmsg reads the messages of the kernel from /dev/kmsg, and finds failures of GPUs, NVSwitches, HCAs
// and PCIe devices in them. The format is that of Documentation/ABI/testing/dev-kmsg of Linux.
//
// Opening the device takes CAP_SYSLOG where kernel.dmesg_restrict is 1, and permission for the file. Reading
// takes no message from other readers, changes nothing and never waits.
//
// Users cannot write what counts: the kernel gives what processes write to /dev/kmsg another facility, and
// what it prints of a process, such as its name in the message of a crash, is not where drivers print their
// own name and the address of a device. No text leaves the package, only IDs of signatures and times.
//
// Concurrency: a Reader may be used by any number of goroutines; Read and Close do not wait for messages.
// Errors are those of opening and reading the file.
package kmsg

import (
	"bytes"
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/openat"
	"gpufabric_exporter/internal/nccl/signature"
)

const (
	maxReads  = 4096     // in one call; a read of the device gives one record
	maxRecord = 16 << 10 // bytes; the kernel's are at most 8 KiB
)

// Reader reads one file of kernel messages, which stays open.
type Reader struct {
	file string

	mu       sync.Mutex
	fd       int // -1: not open
	closed   bool
	past     bool
	rest     []byte // of a record that is not complete: only where the file is not the device
	failures fabric.Failures
	lost     uint64
	uptime   func() (time.Duration, error)
	buffer   []byte
}

// New returns a Reader of the file, which is opened with the first Read.
func New(file string) *Reader {
	return &Reader{file: file, fd: -1, past: true, uptime: uptime}
}

// uptime is the clock of the messages, as far as CLOCK_MONOTONIC goes with it: to seconds in months.
func uptime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano()), err
}

// Close closes the file for good.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.release()
}

func (r *Reader) release() error {
	fd := r.fd
	r.fd = -1
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

// Read reads the messages since the last call. Those that were there at the first call show when a failure
// was last seen, but are not counted: an exporter that restarts would count them again.
func (r *Reader) Read(now time.Time) (fabric.KernelReading, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.open(); err != nil {
		return fabric.KernelReading{}, err
	}
	up, err := r.uptime()
	if err != nil {
		return fabric.KernelReading{}, err
	}
	boot := now.Add(-up)
	for range maxReads {
		n, err := openat.Retry(func() (int, error) { return unix.Read(r.fd, r.buffer) })
		switch {
		case errors.Is(err, unix.EPIPE): // overwritten: the next read gives the oldest message that is left
			if !r.past {
				r.lost++
			}
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			r.past = false
			return r.reading(), nil
		case err != nil:
			_ = r.release()
			return fabric.KernelReading{}, &fs.PathError{Op: "read", Path: r.file, Err: err}
		default:
			r.take(r.buffer[:n], boot, now)
		}
	}
	return r.reading(), nil // the others with the next call
}

func (r *Reader) reading() fabric.KernelReading {
	return fabric.KernelReading{Failures: slices.Clone(r.failures), Lost: r.lost}
}

func (r *Reader) open() error {
	if r.closed {
		return &fs.PathError{Op: "open", Path: r.file, Err: fs.ErrClosed}
	}
	if r.fd >= 0 {
		return nil
	}
	fd, err := openat.Retry(func() (int, error) {
		return unix.Open(r.file, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return &fs.PathError{Op: "open", Path: r.file, Err: err}
	}
	r.fd, r.rest, r.buffer = fd, nil, make([]byte, maxRecord)
	return nil
}

// take takes what one read gave: a record, or of another file any piece.
func (r *Reader) take(data []byte, boot, now time.Time) {
	r.rest = append(r.rest, data...)
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte{'\n'})
		if !whole {
			break
		}
		r.line(string(line), boot, now)
		r.rest = rest
	}
	if len(r.rest) > maxRecord {
		r.rest = nil
	}
	if len(r.rest) == 0 {
		r.rest = r.rest[:0:0]
	}
}

func (r *Reader) line(line string, boot, now time.Time) {
	at, message, ok := parse(line)
	if !ok {
		return
	}
	s := find(message)
	if s == nil {
		return
	}
	written := boot.Add(at)
	if written.After(now) {
		written = now
	}
	r.failures.Add(s.ID, written, !r.past)
}

// parse parses "6,339,5140900,-;message": priority with facility, sequence number, microseconds since boot,
// flags. False: it is no message of the kernel itself.
func parse(line string) (at time.Duration, message string, ok bool) {
	prefix, message, found := strings.Cut(line, ";")
	fields := strings.Split(prefix, ",")
	if !found || len(fields) < 4 {
		return 0, "", false // lines that begin with a blank are properties of the record before
	}
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	const levels = 8 // the facility is above them, and 0 that of the kernel
	if err != nil || priority >= levels {
		return 0, "", false
	}
	micros, err := strconv.ParseInt(fields[2], 10, 63)
	if err != nil || micros < 0 || micros > int64(maxUptime/time.Microsecond) {
		return 0, "", false
	}
	return time.Duration(micros) * time.Microsecond, message, true
}

const maxUptime = 100 * 365 * 24 * time.Hour

// written is how drivers begin messages with a signature. A process can have the kernel print any name of 15
// bytes at the beginning of a message, and any name of a file behind it; none of these fits in 15 bytes.
var written = regexp.MustCompile(`^(?:` +
	`NVRM: nvCheckOkFailed[A-Za-z]*: Check failed: Out of memory \[|` +
	`NVRM: Xid \(PCI:[0-9a-fA-F:.]+\): [0-9]+[, ]|` +
	`nvidia-nvswitch[0-9]+: SXid \(PCI:[0-9a-fA-F:.]+\): [0-9]+[, ]|` +
	`[A-Za-z0-9_-]{3,} [0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?: [^ ]+)?: )`)

// find returns the signature of a message, nil if it has none.
func find(message string) *signature.Signature {
	s, _ := signature.Match(signature.Kernel, message)
	if s == nil || !written.MatchString(message) {
		return nil
	}
	return s
}
