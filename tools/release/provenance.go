// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// What follows is of in-toto's Statement v1 and SLSA's provenance v1: https://in-toto.io/Statement/v1,
// https://slsa.dev/provenance/v1.

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type provenance struct {
	Definition struct {
		Type       string            `json:"buildType"`
		Parameters map[string]string `json:"externalParameters"`
		Internal   struct {
			Compilers map[string]string `json:"compilers"`
		} `json:"internalParameters"`
		Dependencies []resource `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	Details struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

const sysroot = "packaging/sysroot.sh"

// pinned is a line of sysroot with the checksum of a package.
var pinned = regexp.MustCompile(`(?m)^'?([0-9a-f]{64}) (\S+\.deb)'?$`)

// writeProvenance states what the files were built from. The statement is not signed: it says what is needed
// to build the same bits again. Who built those that are published is in the attestation of the workflow.
func writeProvenance(w io.Writer, b binary, version, commit string, files []string) error {
	compilers := map[string]string{} // by the program that they built
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, f := range files {
		sum, err := digest(f)
		if err != nil {
			return err
		}
		name := filepath.Base(f)
		s.Subject = append(s.Subject, resource{Name: name, Digest: map[string]string{"sha256": sum}})
		by, err := compiler(f)
		if err != nil {
			return err
		}
		if by != "" {
			compilers[name] = by
		}
	}
	p := &s.Predicate
	p.Details.Builder.ID = repository + "/blob/main/docs/CONTRIBUTING.md#build-a-release"
	p.Definition.Type = repository + "/blob/main/docs/CONTRIBUTING.md#provenance"
	p.Definition.Parameters = map[string]string{"version": version}
	p.Definition.Internal.Compilers = compilers
	p.Definition.Dependencies = []resource{{URI: "git+" + repository, Digest: map[string]string{"gitCommit": commit}}}
	for _, m := range b.modules {
		r := resource{URI: m.purl()}
		if m.sum != "" {
			sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.sum, "h1:"))
			if err != nil {
				return fmt.Errorf("%s: checksum %q: %w: expected h1: and base64", m.path, m.sum, err)
			}
			r.Digest = map[string]string{"dirHash1": hex.EncodeToString(sum)}
		}
		p.Definition.Dependencies = append(p.Definition.Dependencies, r)
	}
	script, err := os.ReadFile(sysroot)
	if err != nil {
		return err
	}
	packages := pinned.FindAllStringSubmatch(string(script), -1)
	if len(packages) == 0 {
		return fmt.Errorf("%s: no line with a checksum and a package", sysroot)
	}
	for _, m := range packages {
		p.Definition.Dependencies = append(p.Definition.Dependencies,
			resource{URI: "http://archive.ubuntu.com/ubuntu/" + m[2], Digest: map[string]string{"sha256": m[1]}})
	}
	return writeJSON(w, s)
}
