// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// What follows is of SPDX 2.3, https://spdx.github.io/spdx-spec/v2.3/.

type spdxDocument struct {
	Version       string             `json:"spdxVersion"`
	DataLicence   string             `json:"dataLicense"`
	ID            string             `json:"SPDXID"`
	Name          string             `json:"name"`
	Namespace     string             `json:"documentNamespace"`
	Creation      spdxCreation       `json:"creationInfo"`
	Packages      []spdxPackage      `json:"packages"`
	Relationships []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID               string          `json:"SPDXID"`
	Name             string          `json:"name"`
	Version          string          `json:"versionInfo"`
	FileName         string          `json:"packageFileName,omitempty"`
	Purpose          string          `json:"primaryPackagePurpose"`
	Download         string          `json:"downloadLocation"`
	FilesAnalyzed    bool            `json:"filesAnalyzed"`
	Checksums        []spdxChecksum  `json:"checksums,omitempty"`
	SourceInfo       string          `json:"sourceInfo,omitempty"`
	LicenceConcluded string          `json:"licenseConcluded"`
	LicenceDeclared  string          `json:"licenseDeclared"`
	Copyright        string          `json:"copyrightText"`
	References       []spdxReference `json:"externalRefs"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxReference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const noAssertion = "NOASSERTION"

// writeSPDX writes the bill of materials of a binary. Libraries that are loaded where it runs (glibc, NVML,
// NCCL) are not part of it.
func writeSPDX(w io.Writer, b binary, version string, built time.Time) error {
	const document, program = "SPDXRef-DOCUMENT", "SPDXRef-Program"
	name := fmt.Sprintf("gpufabric_exporter-%s.linux-%s", version, b.arch)
	d := spdxDocument{
		Version: "SPDX-2.3", DataLicence: "CC0-1.0", ID: document, Name: name,
		Namespace: fmt.Sprintf("%s/spdx/%s-%s", repository, name, b.sha256),
		Creation: spdxCreation{
			built.Format(time.RFC3339),
			[]string{"Organization: The gpufabric_exporter authors", "Tool: gpufabric_exporter-release-" + version},
		},
		Packages: []spdxPackage{{
			ID: program, Name: "gpufabric_exporter", Version: version, FileName: b.name, Purpose: "APPLICATION",
			Download:  repository + "/releases/tag/v" + version,
			Checksums: []spdxChecksum{{"SHA256", b.sha256}}, LicenceConcluded: "Apache-2.0", LicenceDeclared: "Apache-2.0",
			Copyright:  noAssertion,
			References: []spdxReference{{"PACKAGE-MANAGER", "purl", "pkg:github/gpufabric/gpufabric_exporter@v" + version}},
		}},
		Relationships: []spdxRelationship{{document, "DESCRIBES", program}},
	}
	for _, m := range b.modules {
		p := spdxPackage{
			ID: "SPDXRef-" + notInIDs.ReplaceAllString(m.path+"-"+m.version, "-"), Name: m.path, Version: m.version,
			Purpose: "LIBRARY", Download: m.download(),
			LicenceConcluded: m.licence, LicenceDeclared: m.licence, Copyright: noAssertion,
			References: []spdxReference{{"PACKAGE-MANAGER", "purl", m.purl()}},
		}
		if m.sum != "" {
			p.SourceInfo = "checksum in go.sum: " + m.sum
		}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, spdxRelationship{program, "DEPENDS_ON", p.ID})
	}
	return writeJSON(w, d)
}

// notInIDs is what identifiers of SPDX may not have.
var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// purl is the module's package URL, https://github.com/package-url/purl-spec.
func (m module) purl() string { return "pkg:golang/" + strings.ToLower(m.path) + "@" + m.version }

// download is where the source of the module is: module proxies escape upper-case letters.
func (m module) download() string {
	if m.path == standard {
		return "https://go.dev/dl/go" + m.version + ".src.tar.gz"
	}
	var escaped strings.Builder
	for _, r := range m.path {
		if unicode.IsUpper(r) {
			escaped.WriteByte('!')
		}
		escaped.WriteRune(unicode.ToLower(r))
	}
	return "https://proxy.golang.org/" + escaped.String() + "/@v/" + m.version + ".zip"
}
