// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"regexp"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// placeholder is a word of a remedy that stands for a name.
var placeholder = regexp.MustCompile(`<([a-z ]+)>`)

// BridgesWord is the placeholder for the bridges that a remedy loops over, without its brackets.
const BridgesWord = "bridges"

// FilledRemedy is the remedy of a verdict on this node with names in place of <interface>, <device>, <port>,
// <address> and FilledRemedy the check has given names for. Names are quoted for a POSIX shell. What is not
// known stays a placeholder, and so does a name that a command could take for an option, or that does not
// print: the reader must decide about it.
func FilledRemedy(n *fabric.Node, v *Verdict) string {
	return placeholder.ReplaceAllStringFunc(v.Remedy, func(word string) string {
		names, given := v.Names[word[1:len(word)-1]]
		if !given {
			names = namesOf(n, v.Subject, word)
		}
		var quoted []string
		for _, name := range names {
			q, ok := shellQuoted(name)
			if !ok {
				return word
			}
			quoted = append(quoted, q)
		}
		if len(quoted) == 0 {
			return word
		}
		return strings.Join(quoted, " ")
	})
}

// namesOf returns the names that replace the word, where they follow from the subject.
func namesOf(n *fabric.Node, s Subject, word string) []string {
	var device *fabric.HCA
	for i := range n.HCAs {
		if s.Device != "" && n.HCAs[i].Name == s.Device {
			device = &n.HCAs[i]
		}
	}
	name := ""
	switch {
	case word == "<device>":
		name = s.Device
	case word == "<port>" && s.Port > 0:
		name = strconv.Itoa(s.Port)
	case word == "<address>" && device != nil:
		name = device.PCI.Or("")
	case word == "<address>" && s.GPU != "":
		name = addressOf(n, s)
	case word == "<interface>" && device != nil:
		name = interfaceOf(n, device, s.Port)
	}
	if name == "" {
		return nil
	}
	return []string{name}
}

// addressOf is the PCI address of a GPU; empty: not on the bus that the exporter sees.
func addressOf(n *fabric.Node, s Subject) string {
	for _, g := range GPUs(n) {
		if g.Function != nil && g.Subject().Key() == s.Key() {
			return g.Function.Address
		}
	}
	return ""
}

// interfaceOf is the network interface of a port, or of the only port of a device. A bond is none: commands
// are for its members.
func interfaceOf(n *fabric.Node, h *fabric.HCA, port int) string {
	for i := range h.Ports {
		p := &h.Ports[i]
		if p.Number != port && (port != 0 || len(h.Ports) != 1) {
			continue
		}
		name := p.NetDev.Or("")
		if d := n.NetDev(name); d != nil && d.Bond.Or(false) {
			return ""
		}
		return name
	}
	return ""
}

// plain are names that mean the same to a shell as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,][A-Za-z0-9_./:@%+,=-]*$`)

// shellQuoted returns a name as a POSIX shell takes it, and false for one that no quotes make safe.
func shellQuoted(name string) (string, bool) {
	if plain.MatchString(name) {
		return name, true
	}
	unsafe := func(r rune) bool { return r < ' ' || r > '~' }
	if name == "" || name[0] == '-' || strings.ContainsFunc(name, unsafe) {
		return "", false
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'", true
}

// ShellWord is a name as a POSIX shell takes it, or the placeholder for one that no quotes make safe.
func ShellWord(name, placeholder string) string {
	if q, ok := shellQuoted(name); ok {
		return q
	}
	return placeholder
}
