// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// ends is a text that is short enough to be shown, with its begin, and its end or what it is known by: long lines have
// who is on the other side, and what differs, at their end. Of two ranks that are compared it says what each does.
func ends(text string, s *signature.Signature) string {
	if both := compared(text); both != "" {
		return both
	}
	if len(text) <= log.MaxText {
		return text
	}
	const between, end = " ... ", log.MaxText / 2
	const begin = log.MaxText - end - len(between)
	if at := s.In(text); at > begin && at < len(text)-end {
		const before, short = end / 2, begin - len(between)
		return text[:short] + between + text[at-before:at+end-before] + between
	}
	return text[:begin] + between + text[len(text)-end:]
}

// compared takes "Detected mismatch between collectives on ranks. Rank 1 is running collective:
// CollectiveFingerPrint(SequenceNumber=21, OpType=BROADCAST, ...), but Rank 0 is running collective: ...".
func compared(text string) string {
	const runs = " is running collective: "
	parts := strings.Split(text, runs)
	if len(parts) != 3 || !strings.Contains(parts[0], "mismatch between collectives") {
		return ""
	}
	var who []string
	for i, part := range parts[:2] {
		rank := part[strings.LastIndexAny(part, " \t")+1:]
		number := field(parts[i+1], "SequenceNumber=")
		does := "rank " + rank + " in " + field(parts[i+1], "OpType=") + " " + number[:len(number)-len(strings.TrimLeft(number, digits))]
		if shape := field(parts[i+1], "TensorShape="); shape != "" {
			does += " of shape " + shape
		}
		who = append(who, does)
	}
	text = "Detected mismatch between collectives: " + strings.Join(who, ", ")
	if _, differ, found := strings.Cut(parts[2], "Collectives differ in "); found {
		text += "; they differ in " + differ
	}
	return text[:min(len(text), log.MaxText)]
}

// field is the value behind a name, to the next comma or bracket.
func field(text, name string) string {
	_, rest, found := strings.Cut(text, name)
	if !found {
		return ""
	}
	if list, _, closed := strings.Cut(rest, "]"); closed && strings.HasPrefix(rest, "[") {
		return list + "]"
	}
	end := strings.IndexAny(rest, ",)")
	if end < 0 {
		return rest
	}
	return rest[:end]
}
