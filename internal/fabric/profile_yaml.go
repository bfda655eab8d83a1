// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"maps"
	"slices"
)

// OneOrMore is a list. In a file it may be one value.
type OneOrMore[T any] []T

// UnmarshalYAML implements the interface of the YAML package.
func (l *OneOrMore[T]) UnmarshalYAML(unmarshal func(any) error) error {
	if unmarshal(new([]any)) == nil {
		return unmarshal((*[]T)(l))
	}
	*l = make([]T, 1)
	return unmarshal(&(*l)[0])
}

// ProfileSource is where statements of a profile come from.
type ProfileSource struct {
	Name  string `yaml:"-" json:"name"` // by which statements name it
	Title string `yaml:"title" json:"title"`
	URL   string `yaml:"url" json:"url"`   // empty in a site's own
	Date  string `yaml:"date" json:"date"` // or revision, of the document
}

// ProfileSources are sources by name.
type ProfileSources []ProfileSource

// UnmarshalYAML implements the interface of the YAML package: in a file, names are keys.
func (s *ProfileSources) UnmarshalYAML(unmarshal func(any) error) error {
	var byName map[string]ProfileSource
	err := unmarshal(&byName)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		of := byName[name]
		of.Name = name
		*s = append(*s, of)
	}
	return err
}

// PCIID is the kind of a PCI device.
type PCIID struct{ Vendor, Device uint16 }

func (id PCIID) String() string { return fmt.Sprintf("%04x:%04x", id.Vendor, id.Device) }

// MarshalText implements encoding.TextMarshaler.
func (id PCIID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *PCIID) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%04x:%04x", &id.Vendor, &id.Device)
	if err != nil || id.String() != string(text) {
		return fmt.Errorf("%.64q: expected ids of vendor and device, as in 15b3:1021", text)
	}
	return nil
}
