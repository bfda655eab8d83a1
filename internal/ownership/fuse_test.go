// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Lines as Linux 6.1 prints them, of sshfs, of a root's bindfs, of virtiofs and of what is no FUSE.
func TestServedByUs(t *testing.T) {
	own := strconv.Itoa(os.Geteuid())
	const other = "1000"
	mounts := []byte("22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n" +
		"90 22 0:45 / /home/alice rw,nosuid,nodev,relatime shared:50 - fuse.sshfs alice@elsewhere:/ rw,user_id=" + other + ",group_id=1000,allow_other\n" +
		"91 22 0:46 / /opt/nccl rw,relatime shared:51 - fuse.bindfs /srv/nccl rw,user_id=0,group_id=0,default_permissions,allow_other\n" +
		"92 22 0:47 / /mine rw,relatime - fuse /dev/fuse rw,user_id=" + own + ",group_id=0\n" +
		"93 22 0:48 / /host rw,relatime - virtiofs tag rw\n" +
		"94 22 0:49 / /odd rw,relatime - fuse.odd odd rw,user_id=,group_id=0\n" +
		"95 22 0:50 / /none rw,relatime - fuse.none none rw\n" +
		"96 0:51\n")
	for minor, want := range map[uint32]bool{45: false, 46: true, 47: true, 48: true, 49: false, 50: false, 51: false, 99: false} {
		if minor == 45 && own == other {
			continue
		}
		if got := servedByUs(mounts, unix.Mkdev(0, minor)); got != want {
			t.Errorf("0:%d: %t, expected %t", minor, got, want)
		}
	}
}
