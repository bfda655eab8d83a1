// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"regexp"
	"slices"
	"strings"

	"gpufabric_exporter/internal/host/ncclconf"
)

var (
	ncclName        = regexp.MustCompile(`(?i)^[\s\x{feff}]*(?:export\s+)?NCCL_[A-Z0-9_]{1,64}\s*$`)
	namesInterfaces = regexp.MustCompile(`(?i)IFNAME|HCA`)

	words    = regexp.MustCompile(`[\pL\pN_-]+|[^\x00-\x7f]+`)
	harmless = regexp.MustCompile(`(?i)^(?:.|-?\d{1,10}[kmg]?|0x[0-9a-f]{0,8}` +
		`|HCA-\d+|MT\d+|ConnectX-?\d+[a-z]{0,2}|BlueField-?\d*|Mellanox|NVIDIA|Technologies|Broadcom|Intel|Elastic|Fabric|Adapter)$`)
	interfaces = regexp.MustCompile(`(?i)^(?:eth|en[ospx]?|ib[ps]?|bond|lo|docker|virbr|veth|br|team|vlan|hsn|mlx[45]?|bnxt_re|irdma|efa|rdmap?|roce[ps]?)` +
		`-?[0-9sfpnd_.]*$`)
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
		return a.text(name) + "=" + a.words(value, namesInterfaces.MatchString(name)) + end
	})
}

// words replaces every identifier in a text, and every word that is not known to be harmless: it may be the name of
// a host, of a user or of a project. maybeInterface says that it may also be that of an interface or a device, which
// stays.
func (a *anonymiser) words(s string, maybeInterface bool) string {
	var b strings.Builder
	at := 0
	for _, m := range identifiers.FindAllStringIndex(s, -1) {
		b.WriteString(a.plainWords(s[at:m[0]], maybeInterface))
		b.WriteString(a.identifier(s[m[0]:m[1]]))
		at = m[1]
	}
	b.WriteString(a.plainWords(s[at:], maybeInterface))
	return b.String()
}

func (a *anonymiser) plainWords(s string, maybeInterface bool) string {
	return words.ReplaceAllStringFunc(s, func(w string) string {
		if a.isHarmless(w, maybeInterface) {
			return a.name(w)
		}
		return a.word(w)
	})
}

// isHarmless tells whether a word can stay: numbers, names of devices and interfaces of this node or how such names
// begin, and words that NCCL or a vendor has.
func (a *anonymiser) isHarmless(w string, maybeInterface bool) bool {
	for _, host := range a.hosts {
		short, _, _ := strings.Cut(host, ".")
		if strings.EqualFold(w, host) || strings.EqualFold(w, short) {
			return false
		}
	}
	if harmless.MatchString(w) || maybeInterface && interfaces.MatchString(w) {
		return true
	}
	if len(w) > 1 && slices.ContainsFunc(a.names, func(n string) bool { return strings.HasPrefix(n, w) }) {
		return true
	}
	return slices.ContainsFunc(ncclconf.Variables(), func(v ncclconf.Variable) bool { return hasWord(v.Valid, w) || hasWord(v.Default, w) })
}

// hasWord looks for a word in a text of the table of NCCL's variables.
func hasWord(text, w string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" |,;:^()/=", r) }),
		func(s string) bool { return strings.EqualFold(s, w) })
}
