// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/nccl/settings"
)

var (
	words    = lazyregexp.New(`[\pL\pN_-]+|[^\x00-\x7f]+`)
	harmless = lazyregexp.New(`(?i)^(?:.|-?\d{1,10}[kmg]?|0x[0-9a-f]{0,8}` +
		`|HCA-\d+|MT\d+|ConnectX-?\d+[a-z]{0,2}|BlueField-?\d*|Mellanox|NVIDIA|Technologies|Broadcom|Intel|Elastic|Fabric|Adapter)$`)
)

// listed replaces a name in a list of names of devices.
func (a *anonymiser) listed(w string) string {
	switch is, ok := a.ofDevice(w); {
	case ok:
		return is
	case harmless().MatchString(w), ofNCCL(w):
		return w
	case a.isSecret(w):
		return a.words(w)
	}
	return a.cipher(w)
}

// words replaces every identifier in a text, and every word that is not known to be harmless: it may be the name of
// a host, of a user or of a project.
func (a *anonymiser) words(s string) string {
	var b strings.Builder
	at := 0
	for _, m := range identifier().FindAllStringIndex(s, -1) {
		b.WriteString(a.plainWords(s[at:m[0]]))
		b.WriteString(a.identifier(s[m[0]:m[1]], false))
		at = m[1]
	}
	b.WriteString(a.plainWords(s[at:]))
	return b.String()
}

// plainWords keeps numbers and words that NCCL or a vendor has. Names of devices stay those of devices.
func (a *anonymiser) plainWords(s string) string {
	return words().ReplaceAllStringFunc(s, func(w string) string {
		is, device := a.ofDevice(w)
		switch {
		case device:
			return is
		case !a.isSecret(w) && (harmless().MatchString(w) || ofNCCL(w)):
			return w
		}
		return a.word(w)
	})
}

// ofNCCL reports whether a word is in the table of NCCL's variables.
func ofNCCL(w string) bool {
	return slices.ContainsFunc(settings.Variables(), func(v settings.Variable) bool {
		return hasWord(v.Valid, w) ||
			hasWord(v.Default, w)
	})
}

// hasWord looks for a word in a text of the table of NCCL's variables.
func hasWord(text, w string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text,
		func(r rune) bool { return strings.ContainsRune(" |,;:^()/=", r) }),
		func(s string) bool { return strings.EqualFold(s, w) })
}

var home = lazyregexp.New(`(?:^|/)(?:home|users?|people)/([^/\s,;:"']+)`)

// homes returns whose folders NCCL's files are in or name.
func homes(entries map[string]entry) (users []string) {
	for name, e := range entries {
		if strings.HasPrefix(name, rootPart+"/") {
			for _, m := range home().FindAllStringSubmatch(name+"\n"+e.text, -1) {
				users = append(users, m[1])
			}
		}
	}
	return users
}
