// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gpufabric_exporter/internal/fabric"
)

// Largest accepted numbers of processes.
const (
	maxProcesses = 1 << 18
	maxStatus    = 16 << 10 // bytes; some lines grow with the number of processors
	maxArgs      = 4 << 10  // bytes
	maxNesting   = 32       // MAX_PID_NS_LEVEL of the kernel
)

// initialPIDs is the PID namespace that the kernel starts with: PROC_PID_INIT_INO of linux/proc_ns.h,
// PID_NS_INIT_INO of uapi/linux/nsfs.h. All others get numbers from 0xf0000000.
const initialPIDs = "pid:[4026531836]"

// Initial returns nil if this process and this procfs are in the initial PID namespace and procfs hides no process:
// then PIDs mean the same to this process, to procfs and to drivers, and no process is missing.
func (f *FS) Initial() error {
	// Not through the root, which opens every folder on the way: to a process that is not dumpable, its own
	// self/ns is closed.
	switch ns, err := os.Readlink(filepath.Join(f.root.Name(), "self/ns/pid")); {
	case err != nil:
		return fmt.Errorf("PID namespace: %w", err)
	case ns != initialPIDs:
		return fmt.Errorf("this process is in the PID namespace %q, expected that of the node, %s", ns, initialPIDs)
	}
	switch self, err := f.root.Readlink("self"); {
	case err != nil:
		return fmt.Errorf("procfs: %w", err)
	case self != strconv.Itoa(os.Getpid()):
		return fmt.Errorf("procfs calls this process %q, expected %d: it shows another PID namespace", self, os.Getpid())
	}
	// The option hidepid hides the processes of others from all who may not trace them. Who sees init, sees all.
	p, err := f.Process(1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("procfs hides processes (hidepid): there is no process 1")
	case err != nil:
		return fmt.Errorf("procfs: %w", err)
	case !slices.Equal(p.NSPIDs, []int{1}):
		return fmt.Errorf("%w: process 1 is %v, expected 1", errMalformed, p.NSPIDs)
	}
	return nil
}

// Find returns the processes that have one of the commands that are wanted, with their arguments. A process that ends
// meanwhile is no error; one whose command cannot be read is.
func (f *FS) Find(ctx context.Context, wanted func(command string) bool) ([]fabric.Process, error) {
	pids, err := f.processes()
	if err != nil {
		return nil, fmt.Errorf("procfs: %w", err)
	}
	var found []fabric.Process
	for _, pid := range pids {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p, err := f.find(pid, wanted)
		switch {
		case gone(err):
		case err != nil:
			return nil, err
		case p != nil:
			found = append(found, *p)
		}
	}
	return found, nil
}

// find returns a process with its arguments if its command is wanted, else nil.
func (f *FS) find(pid int, wanted func(command string) bool) (*fabric.Process, error) {
	command, err := f.command(pid)
	if err != nil || !wanted(command) {
		return nil, err
	}
	p, err := f.Process(pid)
	if err != nil {
		return nil, err
	}
	p.Command = command
	p.Args, err = f.args(pid)
	return &p, err
}

// Process returns a process without its arguments.
func (f *FS) Process(pid int) (fabric.Process, error) {
	name := fmt.Sprintf("%d/status", pid)
	b, err := f.readStart(name, maxStatus)
	if err != nil {
		return fabric.Process{}, err
	}
	p, ok := parseStatus(b)
	if !ok || p.PID != pid {
		return fabric.Process{}, fmt.Errorf("%s: %w", name, errMalformed)
	}
	return p, nil
}

func (f *FS) command(pid int) (string, error) {
	name := fmt.Sprintf("%d/comm", pid)
	b, err := f.readStart(name, maxStatus)
	if err != nil {
		return "", err
	}
	command, ok := bytes.CutSuffix(b, []byte("\n"))
	if !ok || len(command) > 64 { // 15, and 63 of threads of the kernel
		return "", fmt.Errorf("%s: %w", name, errMalformed)
	}
	return string(command), nil
}

func (f *FS) args(pid int) ([]string, error) {
	b, err := f.readStart(fmt.Sprintf("%d/cmdline", pid), maxArgs)
	if err != nil || len(b) == 0 { // of a zombie
		return nil, err
	}
	// Programs that set their title separate words by spaces, and may fill the rest with zeros.
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == 0 || r == ' ' }), nil
}

// gone reports whether a process ended while it was looked at.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

func parsePID(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 22) // PID_MAX_LIMIT
	return int(n), err == nil && n > 0 && s[0] != '0'
}

// parseStatus reads Name, Pid, PPid, Uid and NSpid of status (proc_pid_status of fs/proc/array.c). In names the kernel
// escapes newlines and backslashes.
func parseStatus(b []byte) (p fabric.Process, ok bool) {
	seen := 0
	for line := range bytes.Lines(b) {
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		key, value, is := strings.Cut(string(text), ":\t")
		if !is || !whole {
			continue
		}
		fine := true
		switch key {
		case "Name":
			p.Command, fine = value, seen == 0
		case "Pid":
			p.PID, fine = parsePID(value)
		case "PPid":
			if value != "0" {
				p.Parent, fine = parsePID(value)
			}
		case "Uid": // real, effective, saved, of the file system
			user, _, _ := strings.Cut(value, "\t")
			n, err := strconv.ParseUint(user, 10, 32)
			p.User, fine = uint32(n), err == nil
		case "NSpid":
			fields := strings.Split(value, "\t")
			fine = len(fields) <= maxNesting+1
			for _, field := range fields[:min(len(fields), maxNesting+1)] {
				pid, isPID := parsePID(field)
				p.NSPIDs = append(p.NSPIDs, pid)
				fine = fine && isPID
			}
			fine = fine && p.NSPIDs[0] == p.PID
		default:
			continue
		}
		if seen++; !fine {
			return fabric.Process{}, false
		}
	}
	if seen != 5 || p.PID == 0 || p.NSPIDs == nil {
		return fabric.Process{}, false
	}
	return p, true
}
