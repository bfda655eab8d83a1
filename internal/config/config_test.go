// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/profiles"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/probes"
)

var update = flag.Bool("update", false, "write what is seen to testdata instead of comparing it")

// TestConfigFiles compares the errors of every file in testdata with its .errors file; a file without
// one has none.
func TestConfigFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if _, err := Parse(filepath.Base(file), data); err != nil {
				got = err.Error() + "\n"
			}
			golden := strings.TrimSuffix(file, ".yml") + ".errors"
			if *update && got != "" {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	c, err := (File{Path: "testdata/good.yml"}).Read()
	if err != nil {
		t.Fatal(err)
	}
	p := c.Policy
	for device, want := range map[string]fabric.Role{"mlx5_3": fabric.RoleCompute, "mlx5_9": fabric.RoleStorage, "mlx5_30": "", "xmlx5_9": "", "mlx5_8x": ""} {
		if r, _ := p.RoleOf(device); r != want {
			t.Errorf("role of %s: %q, want %q", device, r, want)
		}
	}
	for device, want := range map[string]bool{"mlx5_10": true, "mlx4_0": true, "mlx5_1": false, "mlx5_100": false} {
		if p.IsRestricted(device) != want {
			t.Errorf("restricted %s: %v", device, !want)
		}
	}
	if p.ComputePorts == nil || *p.ComputePorts != 8 {
		t.Errorf("compute ports: %v", p.ComputePorts)
	}
	if want := map[fabric.Role]float64{fabric.RoleCompute: 50e9, fabric.RoleStorage: 25e9}; !reflect.DeepEqual(p.PortRates, want) {
		t.Errorf("rates: %v, want %v", p.PortRates, want)
	}
	if r := p.RoCE; r.DSCP == nil || *r.DSCP != 26 || r.Priority == nil || *r.Priority != 3 || r.Lossless == nil || !*r.Lossless || r.ECN == nil || *r.ECN {
		t.Errorf("RoCE: %+v", r)
	}
	if want := (observer.NCCLFiles{Environment: "/etc/nccl.env", Home: "/root", Inspector: "/run/nccl_inspector", Kernel: "/dev/kmsg"}); !reflect.DeepEqual(c.NCCL, want) {
		t.Errorf("nccl: %+v", c.NCCL)
	}
}

// The traffic class says the DSCP, whatever its ECN bits; what is not said is not expected.
func TestConfigTrafficClass(t *testing.T) {
	c, err := Parse("f", []byte("expected: {roce: {traffic_class: 104}}"))
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Policy.RoCE; r.DSCP == nil || *r.DSCP != 26 || r.Priority != nil || r.Lossless != nil || r.ECN != nil {
		t.Errorf("%+v", r)
	}
}

func TestConfigMinimumVersion(t *testing.T) {
	for text, want := range map[string]string{"2.21.5": "2.21.5", "2.20": "2.20", `"2.27"`: "2.27"} {
		c, err := Parse("f", []byte("expected: {nccl_minimum_version: "+text+"}"))
		if err != nil || c.Policy.NCCL == nil || c.Policy.NCCL.String() != want {
			t.Errorf("%s: %v, %v", text, c.Policy, err)
		}
	}
	for _, text := range []string{"2", "v2.21", "latest", "[2.21]"} {
		if _, err := Parse("f", []byte("expected: {nccl_minimum_version: "+text+"}")); err == nil || !strings.Contains(err.Error(), "nccl_minimum_version") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "{}", "null", "roles:\nexpected: {compute_ports: }\n"} {
		c, err := Parse("f", []byte(text))
		if err != nil || !reflect.DeepEqual(c, Config{Policy: &fabric.Policy{Profiles: profiles.Builtin()}, ByHand: probes.DefaultConfig(), Links: DefaultLinks(), File: "f"}) {
			t.Errorf("%q: %+v, %v", text, c.Policy, err)
		}
	}
}

func TestConfigLimits(t *testing.T) {
	bomb := "a: &a [x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nroles: [*c,*c,*c,*c,*c,*c,*c,*c]\n"
	tests := map[string]struct {
		text []byte
		want string
	}{
		"size":    {bytes.Repeat([]byte("#"), maxSize+1), "f: is larger than 1048576 bytes"},
		"depth":   {bytes.Repeat([]byte("["), 100_000), "f: not YAML: exceeded max depth"},
		"aliases": {[]byte(bomb), "f:4: an entry of roles: *c is a YAML alias"},
		"pattern": {[]byte("restricted: ['" + strings.Repeat("(", 2000) + "']"), "f:1: restricted: "},
		"tab":     {[]byte("expected:\n\tgpus: 8\n"), "f:2: not YAML: found character that cannot start any token: indent with spaces"},
		"binary":  {[]byte("roles: \x00\xff"), "f: not YAML"},
	}
	for name, test := range tests {
		if _, err := Parse("f", test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// TestScenarioConfigs parses the configurations of the simulated sites.
func TestScenarioConfigs(t *testing.T) {
	for _, s := range simulator.Scenarios() {
		if _, err := Parse(s.Name, []byte(s.Config())); err != nil {
			t.Error(err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err != nil {
			for _, e := range Errors(err) {
				if !strings.HasPrefix(e.Error(), "f:") {
					t.Errorf("error without a place: %v", e)
				}
			}
			return
		}
		if c.Policy == nil {
			t.Fatal("neither policy nor error")
		}
		for _, r := range c.Policy.Roles { // as the observer does
			if r.Device == nil || r.Role == "" {
				t.Errorf("half a rule: %+v", r)
			}
		}
		c.Policy.RoleOf("mlx5_0")
		c.Policy.IsRestricted("mlx5_0")
	})
}
