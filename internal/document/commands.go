// SPDX-License-Identifier: Apache-2.0

package document

import (
	"strings"

	"gpufabric_exporter/internal/lazyregexp"
)

// commandStart is where a sentence begins to be a command; commandEnd is where it goes on as a sentence.
var (
	commandStart = lazyregexp.New(`(?:^|[ (])((?:for \w+ in|echo|tr '|dmesg|grep|gpufabric_exporter|mlnx_qos|niccli|dcb|ip -br|ip link|ip addr|ethtool|lspci|setpci|rdma link|modprobe|rmmod|systemctl|journalctl|` +
		`nvidia-smi|dcgmi|mlxfwmanager|mlxconfig|mlxlink|perfquery|ibportstate|sminfo|py-spy)\b)`)
	commandEnd = lazyregexp.New(`[^ ](?:[,;:.] |[.]$|[)]| (?:or|and|shows|ends|does|for each|below|says?|to|from|\(\w))`)
	loop       = lazyregexp.New(`^for \w+ in .*?; done`)
	quoted     = lazyregexp.New(`(?:^|[ =(])('[^']*'(?:\\''[^']*')*|"[^"]*")`) // a word in quotes, as a shell takes it
)

// Prose is a line with its commands as code, from which they can be copied as they are.
func Prose(s string) Text {
	var t Text
	bare := unquoted(s)
	for {
		at := commandStart().FindStringSubmatchIndex(bare)
		if at == nil {
			break
		}
		rest := bare[at[2]:]
		n := len(rest)
		if l := loop().FindString(rest); l != "" {
			n = len(l)
		} else if end := commandEnd().FindStringIndex(rest); end != nil {
			n = end[0] + 1
		}
		n += at[2]
		t = append(t, Span{Text: s[:at[2]]}, Code(s[at[2]:n]))
		s, bare = s[n:], bare[n:]
	}
	return append(t, Span{Text: s})
}

// unquoted is a text of the same length in which quotes hold nothing that begins or ends a command.
func unquoted(s string) string {
	var b strings.Builder
	done := 0
	for _, at := range quoted().FindAllStringSubmatchIndex(s, -1) {
		from, to := at[2]+1, at[3]-1
		b.WriteString(s[done:from] + strings.Repeat("_", to-from))
		done = to
	}
	return b.String() + s[done:]
}
