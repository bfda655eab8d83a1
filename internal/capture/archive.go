// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Write writes the archive. Nothing in it shows who made it or where.
func (c *Capture) Write(w io.Writer) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	if err := errors.Join(c.write(t), t.Close(), z.Close()); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}

func (c *Capture) write(t *tar.Writer) error {
	manifest, err := json.MarshalIndent(c.Manifest, "", "  ")
	if err != nil {
		return err
	}
	add := func(name string, e entry) error {
		h := &tar.Header{Name: name, Mode: 0o644, ModTime: c.Manifest.Time, Typeflag: tar.TypeReg, Size: int64(len(e.text))}
		switch e.kind {
		case directory:
			h.Name, h.Mode, h.Typeflag, h.Size = name+"/", 0o755, tar.TypeDir, 0
			return t.WriteHeader(h)
		case link:
			h.Mode, h.Typeflag, h.Size, h.Linkname = 0o777, tar.TypeSymlink, 0, e.text
			return t.WriteHeader(h)
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.WriteString(t, e.text)
		return err
	}
	if err := add(manifestName, entry{kind: regular, text: string(manifest) + "\n"}); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.entries)) {
		if err := add(name, c.entries[name]); err != nil {
			return err
		}
	}
	return nil
}
