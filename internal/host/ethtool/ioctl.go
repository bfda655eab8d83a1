// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// command is an ETHTOOL_... of linux/ethtool.h. Only commands that read are here, so that nothing else can be sent; a
// test enforces it.
type command uint32

const (
	cmdDriverInfo command = 0x3  // ETHTOOL_GDRVINFO
	cmdNames      command = 0x1b // ETHTOOL_GSTRINGS
	cmdValues     command = 0x1d // ETHTOOL_GSTATS
	cmdCounts     command = 0x37 // ETHTOOL_GSSET_INFO
)

var commandNames = map[command]string{
	cmdDriverInfo: "ETHTOOL_GDRVINFO",
	cmdNames:      "ETHTOOL_GSTRINGS",
	cmdValues:     "ETHTOOL_GSTATS",
	cmdCounts:     "ETHTOOL_GSSET_INFO",
}

// String returns the name in linux/ethtool.h.
func (c command) String() string {
	return cmp.Or(commandNames[c], fmt.Sprintf("ethtool command %#x", uint32(c)))
}

// kernel answers a Client: the real one, or one of a test.
type kernel interface {
	// index returns the number of an interface. No other one gets it, whatever their names are (SIOCGIFINDEX).
	index(netdev string) (uint32, error)
	// ethtool writes the answer to the request in b into b (SIOCETHTOOL).
	ethtool(netdev string, b []byte) error
	close()
}

// ioctl asks the driver of an interface. b holds the structure of the command, which begins with its number.
func (c *Client) ioctl(cmd command, netdev string, b []byte) error {
	binary.NativeEndian.PutUint32(b, uint32(cmd))
	if cmd == cmdValues {
		c.asked[countValues].Add(1)
	} else {
		c.asked[countNames].Add(1) // the kernel answers each of the others with get_sset_count
	}
	if err := c.kernel.ethtool(netdev, b); err != nil {
		return fmt.Errorf("ethtool: %s: %v: %w", netdev, cmd, err)
	}
	return nil
}

// socket is the kernel's. Any socket will do.
type socket int

func openSocket() (socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return socket(fd), os.NewSyscallError("socket", err)
}

func (s socket) close() { _ = unix.Close(int(s)) }

func (s socket) index(netdev string) (uint32, error) {
	r, err := unix.NewIfreq(netdev)
	if err != nil {
		return 0, unix.ENODEV // longer than any name
	}
	if err := unix.IoctlIfreq(int(s), unix.SIOCGIFINDEX, r); err != nil {
		return 0, err
	}
	return r.Uint32(), nil
}

// ifreq is struct ifreq, no smaller than the kernel's.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

func (s socket) ethtool(netdev string, b []byte) error {
	r := ifreq{data: unsafe.Pointer(unsafe.SliceData(b))}
	if len(netdev) >= len(r.name) {
		return unix.ENODEV
	}
	copy(r.name[:], netdev)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&r)))
	runtime.KeepAlive(b)
	if errno != 0 {
		return errno
	}
	return nil
}

// reserve returns memory of that size for the kernel to write an answer into, outside the heap and with a page behind
// it that cannot be written to. How much the kernel writes depends on the driver at that moment. Older kernels do
// not check the size in the request: a list that grew since it was counted would be written over whatever lies
// behind a buffer that just fits. Here it either fits too or fails with EFAULT. Pages that are never written to cost
// nothing.
func reserve(size int) ([]byte, error) {
	page := os.Getpagesize()
	size = (size + page - 1) / page * page
	b, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if err := unix.Mprotect(b[size:], unix.PROT_NONE); err != nil {
		release(b)
		return nil, os.NewSyscallError("mprotect", err)
	}
	return b[:size], nil
}

// release gives back what reserve returned.
func release(b []byte) { _ = unix.Munmap(b[:cap(b)]) }
