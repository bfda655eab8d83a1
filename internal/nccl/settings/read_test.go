// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/ownership"
)

// tree writes a root file system and returns where it is.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, data := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// effective makes effective variables comparable.
func effective(c fabric.NCCLConfig) []string {
	var out []string
	for _, v := range c.Variables {
		s := v.Name + "=" + v.Value
		if v.IsNumber {
			s += fmt.Sprintf(" (%d)", v.Number)
		}
		out = append(out, s+" "+v.Source)
	}
	return out
}

// files makes the state of files comparable.
func files(c fabric.NCCLConfig) []string {
	var out []string
	for _, f := range c.Files {
		s := f.Path + " " + f.Exists.State.String()
		if f.Exists.State == fabric.Unknown {
			s += " " + string(f.Exists.Reason)
		}
		out = append(out, s)
	}
	return out
}

func TestPrecedence(t *testing.T) {
	tests := []struct {
		name      string
		files     map[string]string
		env, home string
		want      []string
		wantFiles []string
	}{
		{"nothing", nil, "/etc/env", "/home/train", nil, []string{"/etc/env absent", "/home/train/.nccl.conf absent", "/etc/nccl.conf absent"}},
		{"nothing asked for", map[string]string{"etc/env": "NCCL_NET=IB", ".nccl.conf": "NCCL_NET=IB"}, "", "", nil, []string{"/etc/nccl.conf absent"}},
		{
			"environment, home, system",
			map[string]string{"etc/env": "NCCL_A=env\n", "home/train/.nccl.conf": "NCCL_A=home\nNCCL_B=home\n", "etc/nccl.conf": "NCCL_A=sys\nNCCL_B=sys\nNCCL_C=sys\n"},
			"/etc/env", "/home/train",
			[]string{"NCCL_A=env /etc/env:1", "NCCL_B=home /home/train/.nccl.conf:2", "NCCL_C=sys /etc/nccl.conf:3"},
			[]string{"/etc/env ok", "/home/train/.nccl.conf ok", "/etc/nccl.conf ok"},
		},
		{
			"NCCL_CONF_FILE instead of home only",
			map[string]string{"etc/env": "export NCCL_CONF_FILE=/opt/../opt/n.conf\n", "opt/n.conf": "NCCL_A=conf\n", "home/train/.nccl.conf": "NCCL_B=home\n", "etc/nccl.conf": "NCCL_A=sys\nNCCL_C=sys\n"},
			"/etc/env", "/home/train",
			[]string{"NCCL_A=conf /opt/../opt/n.conf:1", "NCCL_C=sys /etc/nccl.conf:2", "NCCL_CONF_FILE=/opt/../opt/n.conf /etc/env:1"},
			[]string{"/etc/env ok", "/opt/../opt/n.conf ok", "/etc/nccl.conf ok"},
		},
		{
			"also where it is missing",
			map[string]string{"etc/env": "NCCL_CONF_FILE=/n.conf\n", "home/train/.nccl.conf": "NCCL_B=home\n"},
			"/etc/env", "/home/train",
			[]string{"NCCL_CONF_FILE=/n.conf /etc/env:1"},
			[]string{"/etc/env ok", "/n.conf absent", "/etc/nccl.conf absent"},
		},
		{
			"or relative",
			map[string]string{"etc/env": "NCCL_CONF_FILE=n.conf\n", "n.conf": "NCCL_A=1", "home/train/.nccl.conf": "NCCL_B=home\n"},
			"/etc/env", "/home/train",
			[]string{"NCCL_CONF_FILE=n.conf /etc/env:1"},
			[]string{"/etc/env ok", "n.conf unknown not_read", "/etc/nccl.conf absent"},
		},
		{
			"empty NCCL_CONF_FILE is none",
			map[string]string{"etc/env": "NCCL_CONF_FILE=\n", "home/train/.nccl.conf": "NCCL_B=home\n"},
			"/etc/env", "/home/train",
			[]string{"NCCL_B=home /home/train/.nccl.conf:1", "NCCL_CONF_FILE= /etc/env:1"},
			[]string{"/etc/env ok", "/home/train/.nccl.conf ok", "/etc/nccl.conf absent"},
		},
		{
			"NCCL_CONF_FILE in a file is not followed",
			map[string]string{"home/train/.nccl.conf": "NCCL_CONF_FILE=/n.conf\n", "n.conf": "NCCL_A=1\n"},
			"", "/home/train",
			[]string{"NCCL_CONF_FILE=/n.conf /home/train/.nccl.conf:1"},
			[]string{"/home/train/.nccl.conf ok", "/etc/nccl.conf absent"},
		},
		{
			"NCCL_CONF_FILE is the system's file",
			map[string]string{"etc/env": "NCCL_CONF_FILE=/etc/nccl.conf\n", "etc/nccl.conf": "NCCL_A=1\n"},
			"/etc/env", "",
			[]string{"NCCL_A=1 /etc/nccl.conf:1", "NCCL_CONF_FILE=/etc/nccl.conf /etc/env:1"},
			[]string{"/etc/env ok", "/etc/nccl.conf ok"},
		},
		{
			"the first line of a file counts",
			map[string]string{"etc/nccl.conf": "NCCL_IB_TC=104\nNCCL_IB_TC=106\n"},
			"", "",
			[]string{"NCCL_IB_TC=104 (104) /etc/nccl.conf:1"},
			[]string{"/etc/nccl.conf ok"},
		},
		{
			"the environment is the system's file",
			map[string]string{"etc/nccl.conf": "NCCL_A='1'\n"},
			"/etc/nccl.conf", "",
			[]string{"NCCL_A=1 /etc/nccl.conf:1"},
			[]string{"/etc/nccl.conf ok", "/etc/nccl.conf ok"},
		},
		{
			"the last line of an environment counts",
			map[string]string{"etc/env": "NCCL_IB_TC=104\nNCCL_IB_TC='106'\n"},
			"/etc/env", "",
			[]string{"NCCL_IB_TC=106 (106) /etc/env:2"},
			[]string{"/etc/env ok", "/etc/nccl.conf absent"},
		},
		{
			"an empty value hides others",
			map[string]string{"etc/env": "NCCL_IB_TC=\n", "etc/nccl.conf": "NCCL_IB_TC=106\n"},
			"etc/env", "",
			[]string{"NCCL_IB_TC= /etc/env:1"},
			[]string{"/etc/env ok", "/etc/nccl.conf ok"},
		},
		{
			"numbers by the variable's parser",
			map[string]string{"etc/nccl.conf": "NCCL_BUFFSIZE=8M\nNCCL_DEBUG=1\nNCCL_IB_DISABLE=true\nNCCL_P2P_DISABLE=2\nNCCL_SET_THREAD_NAME=T\nNCCL_X=1\nNCCL_IB_TC=99999999999999999999\n"},
			"", "",
			[]string{
				"NCCL_BUFFSIZE=8M (8) /etc/nccl.conf:1", "NCCL_DEBUG=1 /etc/nccl.conf:2", "NCCL_IB_DISABLE=true (0) /etc/nccl.conf:3", "NCCL_IB_TC=99999999999999999999 /etc/nccl.conf:7",
				"NCCL_P2P_DISABLE=2 (2) /etc/nccl.conf:4", "NCCL_SET_THREAD_NAME=T (1) /etc/nccl.conf:5", "NCCL_X=1 /etc/nccl.conf:6",
			},
			[]string{"/etc/nccl.conf ok"},
		},
		{"not set for NCCL", map[string]string{"etc/nccl.conf": "export NCCL_A=1\n NCCL_B=1\nNCCL_C =1\nnccl_d=1\nNCCL_E.=1\nNCCL_=1\n"}, "", "", nil, []string{"/etc/nccl.conf ok"}},
	}
	now := time.Unix(1, 0)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := New(tree(t, test.files), test.env, test.home).Read(now)
			if err != nil {
				t.Fatal(err)
			}
			if got := effective(c); !slices.Equal(got, test.want) {
				t.Errorf("variables %q\nwant %q", got, test.want)
			}
			if got := files(c); !slices.Equal(got, test.wantFiles) {
				t.Errorf("files %q\nwant %q", got, test.wantFiles)
			}
			for _, f := range c.Files {
				if f.Exists.Source != strings.TrimPrefix(f.Path, "/") || !f.Exists.At.Equal(now) {
					t.Errorf("fact %+v", f.Exists)
				}
			}
		})
	}
}

// An environment file holds passwords, and a line of one must not get anywhere, however broken the file is.
func TestSecretsStay(t *testing.T) {
	const secret = "hunter2"
	for _, data := range []string{
		"PASSWORD=hunter2\nNCCL_DEBUG=INFO\n",
		"export PASSWORD='hunter2'\n",
		"PASSWORD hunter2\n",
		"NCCL_DEBUG='INFO\nPASSWORD=hunter2\n",
		"NCCL_DEBUG=\"INFO\nPASSWORD=\"hunter2\"\n",
		"KEY=\"-----BEGIN\nhunter2\n-----END\"\n",
		"hunter2\n",
		" hunter2 = 1\n",
		"hunter2\x00\n",
		"TOKEN_NCCL_X=hunter2\n",
		"NCCLX_TOKEN=hunter2\n",
	} {
		root := tree(t, map[string]string{"env": data, "etc/nccl.conf": data})
		c, err := New(root, "/env", "").Read(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if s := fmt.Sprintf("%+v", c); strings.Contains(s, secret) {
			t.Errorf("%q: %s", data, s)
		}
		for _, v := range c.Variables {
			if !strings.HasPrefix(v.Name, prefix) {
				t.Errorf("%q: variable %+v", data, v)
			}
		}
	}
}

func TestUnreadable(t *testing.T) {
	symlink := func(target string) func(string) error {
		return func(p string) error { return os.Symlink(target, p) }
	}
	tests := []struct {
		name   string
		make   func(path string) error // in place of /etc/nccl.conf
		state  string
		broken error
	}{
		{"directory", func(p string) error { return os.Mkdir(p, 0o755) }, "unknown malformed", ownership.ErrNotRegular},
		{"FIFO", func(p string) error { return syscall.Mkfifo(p, 0o644) }, "unknown malformed", ownership.ErrNotRegular},
		{"link to a FIFO", func(p string) error {
			return errors.Join(syscall.Mkfifo(p+".fifo", 0o644), os.Symlink("nccl.conf.fifo", p))
		}, "unknown malformed", ownership.ErrNotRegular},
		{"link to itself", symlink("nccl.conf"), "unknown io_error", syscall.ELOOP},
		{"link to nothing", symlink("nothing"), "absent", nil},
		{"link below a file", symlink("../env/x"), "absent", nil},
		{"link to the root", symlink("/"), "unknown malformed", ownership.ErrNotRegular},
		{"no permission", func(p string) error { return os.WriteFile(p, []byte("NCCL_A=1"), 0) }, "unknown privilege", fs.ErrPermission},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if errors.Is(test.broken, fs.ErrPermission) && os.Getuid() == 0 {
				t.Skip("root may read everything")
			}
			root := tree(t, map[string]string{"env": "NCCL_NET=IB\n", "etc/x": ""})
			if err := test.make(filepath.Join(root, systemFile)); err != nil {
				t.Fatal(err)
			}
			read := func(env string) fabric.NCCLConfig {
				type result struct {
					c   fabric.NCCLConfig
					err error
				}
				done := make(chan result, 1)
				go func() {
					c, err := New(root, env, "").Read(time.Now())
					done <- result{c, err}
				}()
				select {
				case r := <-done:
					alone := env == ""
					if want := test.broken != nil && alone; (r.err != nil) != want || want && !errors.Is(r.err, test.broken) {
						t.Errorf("environment %q: error %v, want %v", env, r.err, test.broken)
					}
					if r.err != nil && !strings.Contains(r.err.Error(), systemFile) {
						t.Errorf("error %q does not name the file", r.err)
					}
					return r.c
				case <-time.After(time.Minute):
					t.Fatal("Read hangs")
					return fabric.NCCLConfig{}
				}
			}
			if got := files(read("")); !slices.Equal(got, []string{"/etc/nccl.conf " + test.state}) {
				t.Errorf("files %q", got)
			}
			c := read("/env") // the others are not hidden
			if got := effective(c); !slices.Equal(got, []string{"NCCL_NET=IB /env:1"}) {
				t.Errorf("variables %q", got)
			}
			if got := files(c); !slices.Equal(got, []string{"/env ok", "/etc/nccl.conf " + test.state}) {
				t.Errorf("files %q", got)
			}
		})
	}
}

// The file that describes the bus of a virtual machine to NCCL may be behind the links of /var/run.
func TestVirtualTopology(t *testing.T) {
	linked := tree(t, map[string]string{"run/nvidia-topologyd/virtualTopology.xml": "<system/>"})
	if err := os.MkdirAll(filepath.Join(linked, "var"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/run", filepath.Join(linked, "var/run")); err != nil {
		t.Fatal(err)
	}
	const name = "var/run/nvidia-topologyd/virtualTopology.xml"
	for root, want := range map[string]fabric.Fact[bool]{
		linked:                               fabric.Known(true, name, time.Unix(1, 0)),
		tree(t, map[string]string{name: ""}): fabric.Known(true, name, time.Unix(1, 0)),
		tree(t, nil):                         fabric.AbsentFact[bool](name, time.Unix(1, 0)),
		"/nosuch":                            fabric.UnknownFact[bool](fabric.ReasonIO, name, time.Unix(1, 0)),
	} {
		if c, _ := New(root, "", "").Read(time.Unix(1, 0)); c.VirtualTopology != want {
			t.Errorf("%s: %+v, want %+v", root, c.VirtualTopology, want)
		}
	}
}

func TestExistence(t *testing.T) {
	tests := []struct {
		err  error
		want fabric.Fact[bool]
	}{
		{nil, fabric.Known(true, "x", time.Time{})},
		{&fs.PathError{Err: syscall.ENOENT}, fabric.AbsentFact[bool]("x", time.Time{})},
		{&fs.PathError{Err: syscall.ENOTDIR}, fabric.AbsentFact[bool]("x", time.Time{})},
		{fmt.Errorf("%w: %w", errNoRoot, syscall.ENOENT), fabric.UnknownFact[bool](fabric.ReasonIO, "x", time.Time{})},
		{&fs.PathError{Err: syscall.EACCES}, fabric.UnknownFact[bool](fabric.ReasonPrivilege, "x", time.Time{})},
		{&fs.PathError{Err: syscall.EPERM}, fabric.UnknownFact[bool](fabric.ReasonPrivilege, "x", time.Time{})},
		{&fs.PathError{Err: ownership.ErrNotRegular}, fabric.UnknownFact[bool](fabric.ReasonMalformed, "x", time.Time{})},
		{syscall.EIO, fabric.UnknownFact[bool](fabric.ReasonIO, "x", time.Time{})},
	}
	for _, test := range tests {
		if got := existence(test.err, "x", time.Time{}); got != test.want {
			t.Errorf("existence(%v) = %+v, want %+v", test.err, got, test.want)
		}
	}
}

func TestNoRoot(t *testing.T) {
	c, err := New(filepath.Join(t.TempDir(), "missing"), "/env", "/home/train").Read(time.Now())
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("error %v", err)
	}
	if got := files(c); !slices.Equal(got, []string{"/env unknown io_error", "/home/train/.nccl.conf unknown io_error", "/etc/nccl.conf unknown io_error"}) {
		t.Errorf("files %q", got)
	}
}

// A Reader may be shared.
func TestConcurrentReads(t *testing.T) {
	r := New(tree(t, map[string]string{"env": "NCCL_NET=IB\n", "etc/nccl.conf": "NCCL_FOO=1\nNCCL_IB_TC=3\n"}), "/env", "/home/train")
	want, err := r.Read(time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, err := r.Read(time.Unix(1, 0)); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
	wg.Wait()
}

// A file says who else could have written it, also where only NCCL_CONF_FILE led to it.
func TestUntrusted(t *testing.T) {
	for _, c := range []struct {
		open string // writable for all
		want []string
	}{
		{"etc", []string{"/etc/nccl.conf"}},
		{"env", []string{"/env"}},
		{"home/u", []string{"/home/u/nccl.conf"}},
		{"", nil},
	} {
		root := tree(t, map[string]string{"env": "NCCL_CONF_FILE=/home/u/nccl.conf\n", "home/u/nccl.conf": "NCCL_NET_PLUGIN=/home/u/x.so\n", "etc/nccl.conf": "NCCL_IB_TC=106\n"})
		if c.open != "" {
			if err := os.Chmod(filepath.Join(root, c.open), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		config, err := New(root, "/env", "").Read(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range config.Files {
			if f.Untrusted != "" {
				got = append(got, f.Path)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, expected %q", c.open, got, c.want)
		}
		if f := config.Untrusted(); (f != nil) != (c.want != nil) || f != nil && f.Path != c.want[0] {
			t.Errorf("%s: %+v", c.open, f)
		}
	}
}
