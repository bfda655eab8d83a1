// SPDX-License-Identifier: Apache-2.0

package document

import "regexp"

// commandStart is where a sentence begins to be a command; commandEnd is where it goes on as a sentence.
var (
	commandStart = regexp.MustCompile(`(?:^|[ (])((?:for \w+ in|echo|tr '|dmesg|grep|gpufabric_exporter|mlnx_qos|niccli|dcb|ip -br|ip link|ip addr|ethtool|lspci|setpci|rdma link|modprobe|rmmod|systemctl|journalctl|` +
		`nvidia-smi|dcgmi|mlxfwmanager|mlxconfig|mlxlink|perfquery|ibportstate|sminfo|py-spy)\b)`)
	commandEnd = regexp.MustCompile(`[^ ](?:[,;:.] |[.]$|[)]| (?:or|and|shows|ends|for each|below|says?|to|from|\(\w))`)
	loop       = regexp.MustCompile(`^for \w+ in .*?; done`)
)

// Prose is a line with its commands as code, from which they can be copied as they are.
func Prose(s string) Text {
	var t Text
	for {
		at := commandStart.FindStringSubmatchIndex(s)
		if at == nil {
			break
		}
		rest := s[at[2]:]
		n := len(rest)
		if l := loop.FindString(rest); l != "" {
			n = len(l)
		} else if end := commandEnd.FindStringIndex(rest); end != nil {
			n = end[0] + 1
		}
		t = append(t, Span{Text: s[:at[2]]}, Code(rest[:n]))
		s = rest[n:]
	}
	return append(t, Span{Text: s})
}
