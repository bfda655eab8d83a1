// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/diagnose"
)

// manifestVersion is the layout of the file.
const manifestVersion = 1

// manifestFile is a manifest as YAML.
type manifestFile struct {
	Version int                          `yaml:"version"`
	Node    map[string]string            `yaml:"node"`
	Devices map[string]map[string]string `yaml:"devices"`
	GPUs    map[string]map[string]string `yaml:"gpus"`
}

// readManifest reads what writeManifest wrote, or somebody changed by hand.
func readManifest(name string) (diagnose.Manifest, error) {
	f, err := os.Open(name)
	if err != nil {
		return diagnose.Manifest{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return diagnose.Manifest{}, err
	}
	m, err := parseManifest(data)
	if err != nil {
		return m, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func parseManifest(data []byte) (diagnose.Manifest, error) {
	if len(data) > maxConfig {
		return diagnose.Manifest{}, fmt.Errorf("larger than %d bytes", maxConfig)
	}
	var m manifestFile
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&m); err != nil {
		return diagnose.Manifest{}, fmt.Errorf("expected a manifest: %w", err)
	}
	if m.Version != manifestVersion {
		return diagnose.Manifest{}, fmt.Errorf("version %d, expected %d", m.Version, manifestVersion)
	}
	if err := d.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return diagnose.Manifest{}, errors.New("more than one document")
	}
	return diagnose.Manifest{Node: m.Node, Devices: m.Devices, GPUs: m.GPUs}, nil
}

// writeManifest replaces the file at once, so that nobody reads half of it.
func writeManifest(name string, m diagnose.Manifest) error {
	var b bytes.Buffer
	b.WriteString("# What this node was when it was found good. Compare with: gpufabric_exporter check --manifest FILE\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(manifestFile{manifestVersion, m.Node, m.Devices, m.GPUs}), e.Close()); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".manifest-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
