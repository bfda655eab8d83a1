// SPDX-License-Identifier: Apache-2.0

package ethtool

import "strings"

// DriverInfo says who drives an interface. Any of it may be empty, or what the driver says instead ("N/A").
type DriverInfo struct {
	Driver   string
	Version  string // that of the kernel, unless the driver has its own
	Firmware string
	Bus      string // the PCI address: "0000:1a:00.0"
}

// The layout of struct ethtool_drvinfo.
const (
	driverInfoSize  = 196
	driverInfoField = 32
)

// Driver asks for the driver of an interface (ETHTOOL_GDRVINFO). Some virtual ones, such as lo, have none: the error is
// errors.ErrUnsupported.
func (c *Client) Driver(netdev string) (DriverInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kernel == nil {
		return DriverInfo{}, errClosed
	}
	b := make([]byte, driverInfoSize)
	if err := c.ioctl(cmdDriverInfo, netdev, b); err != nil {
		return DriverInfo{}, err
	}
	field := func(i int) string {
		return strings.ToValidUTF8(text(b[4+i*driverInfoField:][:driverInfoField]), "\ufffd")
	}
	return DriverInfo{Driver: field(0), Version: field(1), Firmware: field(2), Bus: field(3)}, nil
}
