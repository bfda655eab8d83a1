// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"os"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// subordinate writes a subuid(5) and returns the root that it is below.
func subordinate(t *testing.T, text string) (root string) {
	t.Helper()
	root = t.TempDir()
	plant(t, root+"/etc/subuid")
	if err := os.WriteFile(root+"/etc/subuid", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestUsers(t *testing.T) {
	root := subordinate(t, "alice:100000:65536\n1001:165536:65536\n# none\nx:y:z\nbob:100:-1\nroot:0:9\nlxd:1000000:131072\nzoe:4294967290:65536\neve:150000:30000\nadam:100005:3\n")
	u := UsersOf(root)
	u.Look()
	for uid, want := range map[uint32]uint32{
		0: 0, 1000: 1000, 99_999: 99_999, 100_000: 100_000, 100_001: 100_000, 165_535: 100_000, 165_536: 165_536, 179_999: 165_536, 180_000: 180_000, 231_071: 180_000, 231_072: 231_072,
		1_000_001: 1_000_000, 1_065_537: 1_065_536, 4_294_967_295: 4_294_967_290,
	} {
		if got := u.Of(uid); got != want {
			t.Errorf("for %d answers %d, want %d", uid, got, want)
		}
	}
	if err := os.WriteFile(root+"/etc/subuid", []byte("alice:200000:10\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if u.Look(); u.Of(100_001) != 100_001 || u.Of(200_009) != 200_000 {
		t.Error("a changed file is not read")
	}
	os.Remove(root + "/etc/subuid")
	if u.Look(); u.Of(200_009) != 200_009 {
		t.Error("a file that is gone counts")
	}
	var none *Users
	if none.Look(); none.Of(7) != 7 {
		t.Error("no file")
	}
}

// A user with subordinate numbers has the bounds of one owner in a folder that all write to, and not those of 65,536.
func TestSubordinateOwners(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: files of other users cannot be made")
	}
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i, name := range []string{"a", "b", "c", "d", "e", "f", "z1", "z2"} {
		uid := 100_000 + i
		if name[0] == 'z' {
			uid = 1000
		}
		plant(t, folder+"/"+name+".log")
		if err := os.Chown(folder+"/"+name+".log", uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	f := New(everything(folder, ".log"), UsersOf(subordinate(t, "eve:100000:65536\n")))
	found := look(t, f)
	chosen := found.Choose(all(&found), now, 4)
	mine := 0
	for _, file := range chosen {
		if file.UID == 1000 {
			mine++
		}
	}
	if eve := (fabric.FileOwner{UID: 100_000}); mine != 2 || found.Lost[eve] != 4 {
		t.Errorf("%d files of a user beside one with many numbers, lost %v", mine, found.Lost)
	}
}
