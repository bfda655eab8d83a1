// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"gpufabric_exporter/internal/host/ncclconf"
)

var (
	ncclName        = regexp.MustCompile(`(?i)^[\s\x{feff}]*(?:export\s+)?NCCL_[A-Z0-9_]{1,64}\s*$`)
	bareName        = regexp.MustCompile(`(?i)^[\s\x{feff}]*(?:export\s+)?`)
	namesInterfaces = regexp.MustCompile(`(?i)IFNAME|HCA`)

	words    = regexp.MustCompile(`[\pL\pN_-]+|[^\x00-\x7f]+`)
	harmless = regexp.MustCompile(`(?i)^(?:.|-?\d{1,10}[kmg]?|0x[0-9a-f]{0,8}` +
		`|HCA-\d+|MT\d+|ConnectX-?\d+[a-z]{0,2}|BlueField-?\d*|Mellanox|NVIDIA|Technologies|Broadcom|Intel|Elastic|Fabric|Adapter)$`)
	listed = regexp.MustCompile(`[^,;:=^\s"']+`)
)

// conf rewrites a file that NCCL reads. Only settings of NCCL keep their names, and of their values only what is
// known to name nobody; of all other lines nothing stays but that they are there.
func (a *anonymiser) conf(s string) string {
	return a.lines(s, func(line string) string {
		line, returned := strings.CutSuffix(line, "\r")
		end := ""
		if returned {
			end = "\r"
		}
		name, value, ok := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "#"):
			return "#" + end
		case strings.TrimSpace(line) == "":
			return line + end
		case !ok:
			return removed + end
		case !ncclName.MatchString(name):
			return strings.ToUpper(removed) + "=" + end
		}
		return a.setting(name, value) + end
	})
}

// setting rewrites a variable of NCCL. One that NCCL does not have may be called and be set to anything: that there is
// one stays.
func (a *anonymiser) setting(name, value string) string {
	bare := strings.TrimSpace(bareName.ReplaceAllString(name, ""))
	if _, ok := ncclconf.Describe(strings.ToUpper(bare)); !ok {
		// Names that differ in their case differ: NCCL knows the variable only as it is written.
		prefix := bare[:len("NCCL_")]
		name = strings.Replace(name, bare, prefix+strings.ToUpper(a.word(hex.EncodeToString([]byte(bare)))), 1)
		if value != "" {
			value = a.word(value)
		}
		return name + "=" + value
	}
	if !namesInterfaces.MatchString(name) {
		return name + "=" + a.words(value)
	}
	return name + "=" + listed.ReplaceAllStringFunc(value, func(w string) string {
		switch is, ok := a.ofDevice(w); {
		case ok:
			return is
		case harmless.MatchString(w), ofNCCL(w):
			return w
		case a.isSecret(w):
			return a.words(w)
		}
		return a.cipher(w)
	})
}

// words replaces every identifier in a text, and every word that is not known to be harmless: it may be the name of
// a host, of a user or of a project.
func (a *anonymiser) words(s string) string {
	var b strings.Builder
	at := 0
	for _, m := range identifier.FindAllStringIndex(s, -1) {
		b.WriteString(a.plainWords(s[at:m[0]]))
		b.WriteString(a.identifier(s[m[0]:m[1]], false))
		at = m[1]
	}
	b.WriteString(a.plainWords(s[at:]))
	return b.String()
}

// plainWords keeps numbers and words that NCCL or a vendor has. Names of devices stay those of devices.
func (a *anonymiser) plainWords(s string) string {
	return words.ReplaceAllStringFunc(s, func(w string) string {
		is, device := a.ofDevice(w)
		switch {
		case device:
			return is
		case !a.isSecret(w) && (harmless.MatchString(w) || ofNCCL(w)):
			return w
		}
		return a.word(w)
	})
}

// ofNCCL tells whether a word is in the table of NCCL's variables.
func ofNCCL(w string) bool {
	return slices.ContainsFunc(ncclconf.Variables(), func(v ncclconf.Variable) bool { return hasWord(v.Valid, w) || hasWord(v.Default, w) })
}

// hasWord looks for a word in a text of the table of NCCL's variables.
func hasWord(text, w string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" |,;:^()/=", r) }),
		func(s string) bool { return strings.EqualFold(s, w) })
}

var home = regexp.MustCompile(`(?:^|/)(?:home|users?|people)/([^/\s,;:"']+)`)

// homes returns whose folders NCCL's files are in or name.
func homes(entries map[string]entry) (users []string) {
	for name, e := range entries {
		if strings.HasPrefix(name, rootPart+"/") {
			for _, m := range home.FindAllStringSubmatch(name+"\n"+e.text, -1) {
				users = append(users, m[1])
			}
		}
	}
	return users
}
