// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/common/expfmt"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/exposition"
)

// writeTextfile writes verdicts for node_exporter's textfile collector.
func writeTextfile(path string, list []diagnose.Verdict, at time.Time) error {
	var b bytes.Buffer
	err := exposition.Encode(&b, expfmt.FmtText, collector.CheckFamilies(list, at), nil)
	if err == nil {
		err = replaceFile(path, b.Bytes())
	}
	if err != nil {
		return unwritable("textfile", path, err)
	}
	return nil
}

// replaceFile gives the file new content at once: who reads it meanwhile has the old or the new one, whole. What cannot
// be written leaves the old one, and nothing beside it.
func replaceFile(path string, content []byte) error {
	// The name must not end like that of the file: node_exporter reads all *.prom.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = errors.Join(f.Chmod(0o644), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
