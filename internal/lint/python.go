// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"regexp"

	"gpufabric_exporter/internal/host/ncclconf"
)

// pythonSetting finds os.environ["NAME"] = "value", environ.setdefault("NAME", "value"), putenv("NAME", "value") and an entry
// "NAME": "value" of a dictionary, or an argument NCCL_NAME="value". The value is a text in quotes, or any other expression.
var pythonSetting = regexp.MustCompile(`(?:environ\s*\[\s*["'](\w+)["']\s*\]\s*=|(?:setdefault|putenv)\s*\(\s*["'](\w+)["']\s*,|["'](\w+)["']\s*:|[(,]\s*(NCCL_\w+)\s*=)\s*[rb]?(?:"([^"\\\n]*)"|'([^'\\\n]*)'|([^\s]))`)

// parsePython reads the settings of a Python program, line by line.
func (in *Input) parsePython(data []byte) {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
			continue
		}
		for _, m := range pythonSetting.FindAllSubmatch(line, -1) {
			if string(m[7]) == "=" { // a comparison
				continue
			}
			name := string(bytes.Join(m[1:5], nil))
			in.add(setting{
				Setting: ncclconf.Setting{Line: number, Name: name, Value: string(m[5]) + string(m[6])}, set: true, dynamic: m[7] != nil,
			})
		}
	}
}
