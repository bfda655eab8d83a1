// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// binary is a program that was built, and what is linked into it.
type binary struct {
	name, arch, sha256 string
	modules            []module // by path; the first is Go's standard library
}

// module is a Go module that is linked into a binary.
type module struct {
	path, version string
	sum           string // as go.sum has it; empty for the standard library
	licence       string // SPDX expression
	texts         []text
}

// text is a file with a licence or a notice.
type text struct{ name, content string }

// standard is the path under which Go's standard library is listed.
const standard = "std"

// read reads a binary and, from the module cache, the licences of its modules.
func read(path string) (binary, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return binary{}, fmt.Errorf("%s: %w: expected a Go program", path, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	b := binary{name: filepath.Base(path), arch: settings["GOARCH"]}
	if b.sha256, err = digest(path); err != nil {
		return binary{}, err
	}
	folders, err := licenceFolders(b.arch)
	if err != nil {
		return binary{}, err
	}
	b.modules = []module{{path: standard, version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return binary{}, fmt.Errorf("%s: module %s is replaced by %s: a release has modules by checksum only", path,
				d.Path, d.Replace.Path)
		}
		b.modules = append(b.modules, module{path: d.Path, version: d.Version, sum: d.Sum})
	}
	var failed []error
	for i := range b.modules {
		failed = append(failed, b.modules[i].readLicences(folders))
	}
	return b, errors.Join(failed...)
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// compiler is what the C compiler of a program wrote about itself. It is empty for other files.
func compiler(path string) (string, error) {
	f, err := elf.Open(path)
	if _, other := errors.AsType[*elf.FormatError](err); other || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	section := f.Section(".comment")
	if section == nil {
		return "", nil
	}
	data, err := section.Data()
	if err != nil {
		return "", fmt.Errorf("%s: section .comment: %w", path, err)
	}
	var all []string
	for c := range bytes.SplitSeq(data, []byte{0}) {
		if len(c) > 0 && !slices.Contains(all, string(c)) {
			all = append(all, string(c))
		}
	}
	slices.Sort(all) // the linker's order is that of its inputs
	return strings.Join(all, "; "), nil
}

// licenceFolders returns, by module, the folders from those of its packages that are linked up to that of the
// module: parts of a module may have licences of their own.
func licenceFolders(arch string) (map[string][]string, error) {
	list := exec.Command("go", "list", "-deps", "-json=Dir,Standard,Module", ".")
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=1")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -deps .: %w", err)
	}
	folders := map[string][]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir      string
			Standard bool
			Module   *struct{ Path, Dir string }
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list -deps .: %w", err)
		}
		if p.Standard || p.Module == nil {
			continue
		}
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			if !slices.Contains(folders[p.Module.Path], dir) {
				folders[p.Module.Path] = append(folders[p.Module.Path], dir)
			}
			if dir == p.Module.Dir || len(dir) <= len(p.Module.Dir) {
				break
			}
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	folders[standard] = []string{strings.TrimSpace(string(root))}
	return folders, nil
}

var (
	licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|patents)([.-].*)?$`)
	noticeName  = regexp.MustCompile(`(?i)^notice([.-].*)?$`)
)

// covered is the share of a licence file that must be the text of known licences, in percent.
const covered = 75

func (m *module) readLicences(folders map[string][]string) error {
	all := folders[m.path]
	if len(all) == 0 {
		return fmt.Errorf("%s@%s is in the binary, and go list does not know it: build the binary from this tree", m.path,
			m.version)
	}
	root := slices.MinFunc(all, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	ids := map[string]bool{}
	for _, dir := range slices.Sorted(slices.Values(all)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			licence, notice := licenceName.MatchString(e.Name()), noticeName.MatchString(e.Name())
			if e.IsDir() || !licence && !notice || strings.HasSuffix(name, ".go") {
				continue
			}
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			m.texts = append(m.texts, text{m.path + strings.TrimPrefix(name, root), string(content)})
			if patents := strings.HasPrefix(strings.ToLower(e.Name()), "patents"); notice || patents {
				continue
			}
			if err := identify(ids, name, content); err != nil {
				return err
			}
		}
	}
	if len(ids) == 0 {
		return fmt.Errorf("%s@%s has no licence in %s: it must not be released", m.path, m.version, root)
	}
	for id := range ids {
		m.licence += " AND " + id
	}
	parts := strings.Split(strings.TrimPrefix(m.licence, " AND "), " AND ")
	slices.Sort(parts)
	m.licence = strings.Join(parts, " AND ")
	return nil
}

// accepted are licences that require no more than their text and notices beside the binary.
var accepted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// identify adds the licences of a file to ids.
func identify(ids map[string]bool, name string, content []byte) error {
	found := licensecheck.Scan(content)
	if found.Percent < covered {
		return fmt.Errorf("%s: %.0f %% of it is a known licence, expected at least %d %%: read it, and decide whether it can be released", name, found.Percent, covered)
	}
	for _, match := range found.Match {
		if !slices.Contains(accepted, match.ID) {
			return fmt.Errorf("%s: licence %s, expected one of %s: read it, and decide whether it can be released", name,
				match.ID, strings.Join(accepted, ", "))
		}
		ids[match.ID] = true
	}
	return nil
}
