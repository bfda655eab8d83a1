// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/files"
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

// ReadManifest reads what WriteManifest wrote, or a file that was edited by hand.
func ReadManifest(name string) (fabric.Manifest, error) {
	data, err := files.Read(name, maxSize)
	if err != nil {
		return fabric.Manifest{}, err
	}
	m, err := parseManifest(data)
	if err != nil {
		return m, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func parseManifest(data []byte) (fabric.Manifest, error) {
	if len(data) > maxSize {
		return fabric.Manifest{}, fmt.Errorf("larger than %d bytes", maxSize)
	}
	var m manifestFile
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&m); err != nil {
		return fabric.Manifest{}, fmt.Errorf("expected a manifest: %w", err)
	}
	if m.Version != manifestVersion {
		return fabric.Manifest{}, fmt.Errorf("version %d, expected %d", m.Version, manifestVersion)
	}
	if err := d.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return fabric.Manifest{}, errors.New("more than one document")
	}
	return fabric.Manifest{Node: m.Node, Devices: m.Devices, GPUs: m.GPUs}, nil
}

// WriteManifest replaces the file at once, so that no reader sees half of it.
func WriteManifest(name string, m fabric.Manifest) error {
	var b bytes.Buffer
	b.WriteString("# State of this node when it was good. Compare with: gpufabric_exporter check --manifest FILE, or expected.manifest of the configuration\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(manifestFile{manifestVersion, m.Node, m.Devices, m.GPUs}), e.Close()); err != nil {
		return err
	}
	return files.Replace(name, b.Bytes())
}

// manifest reads a manifest that stands in the configuration itself.
func (p *parser) manifest(n *yaml.Node) *fabric.Manifest {
	values := func(what string, into map[string]string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			p.entries(n, what, func(key string, value *yaml.Node) {
				if p.is(value, yaml.ScalarNode, key, "a text") {
					into[key] = value.Value
				}
			})
		}
	}
	each := func(what string, into map[string]map[string]string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			p.entries(n, what, func(key string, value *yaml.Node) {
				into[key] = map[string]string{}
				values(key, into[key])(value)
			})
		}
	}
	m := &fabric.Manifest{
		Node: map[string]string{}, Devices: map[string]map[string]string{},
		GPUs: map[string]map[string]string{},
	}
	p.mapping(n, "manifest", map[string]func(*yaml.Node){
		"version": func(n *yaml.Node) {
			if v := p.whole(n, "version", math.MaxInt32); v != nil && *v != manifestVersion {
				p.errorf(n.Line, "version: %d: expected %d", *v, manifestVersion)
			}
		},
		"node": values("node", m.Node), "devices": each("devices", m.Devices), "gpus": each("gpus", m.GPUs),
	}, "version")
	return m
}
