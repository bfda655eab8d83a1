// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/lazyregexp"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/verdict"
)

// maxDocuments and maxDepth bound a manifest.
const (
	maxDocuments = 1000
	maxDepth     = 200
)

func (in *Input) node(n *yaml.Node, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("line %d: expected at most %d levels", n.Line, maxDepth)
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return in.script(n)
	case yaml.MappingNode:
		return in.mapping(n, depth)
	case yaml.AliasNode:
		return nil
	}
	in.countNodes(wordsOf(n.Content))
	for i, c := range n.Content {
		if in.argument(n.Content, i) {
			continue
		}
		if name, value, ok := strings.Cut(c.Value, "="); ok && c.Kind == yaml.ScalarNode && isAssignment(c.Value) &&
			concerns(name) {
			in.variable(c, name, value)
			continue
		}
		if err := in.node(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// wordsOf returns the texts of a list.
func wordsOf(list []*yaml.Node) (words []word) {
	for _, c := range list {
		if c.Kind == yaml.ScalarNode {
			words = append(words, word{text: c.Value, line: c.Line})
		}
	}
	return words
}

// argument reads one of the arguments of a command if it is an option that has a setting.
func (in *Input) argument(list []*yaml.Node, i int) (done bool) {
	c := list[i]
	if c.Kind != yaml.ScalarNode || !strings.Contains(c.Value, "NCCL_") {
		return false
	}
	before := ""
	if i > 0 {
		before = list[i-1].Value
	}
	switch {
	case (before == "-genv" || before == "-env") && i+1 < len(list) && concerns(c.Value):
		in.variable(c, c.Value, list[i+1].Value)
	case strings.HasPrefix(before, "--export"), strings.HasPrefix(c.Value, "-") && !strings.ContainsAny(c.Value, " \n"):
		k, from := in.newShellReader("", 0, 0), len(in.settings)
		text, chosen, dynamic := filled(c.Value)
		k.options(before, []word{{text: text, line: c.Line, chosen: chosen, dynamic: dynamic}})
		for i := from; i < len(in.settings); i++ {
			in.settings[i].scripted = false
		}
	default:
		return false
	}
	return true
}

func (in *Input) mapping(n *yaml.Node, depth int) error {
	if name, value := field(n, "name"), field(n, "value"); name != nil {
		if concerns(name.Value) {
			in.container(name, value)
			return nil
		}
		if value != nil && name.Value == "FI_PROVIDER" {
			in.provider(value.Line, value.Value)
		}
		if value != nil && slices.Contains(countVariables, name.Value) {
			in.noteNodes(value.Line, name.Value+"="+value.Value, value.Value)
		}
	}
	in.unquoted(n)
	in.countReplicas(n)
	if metadata := field(n, "metadata"); metadata != nil && mayAttach(field(metadata, "annotations")) {
		defer func(before bool) { in.annotated = before }(in.annotated)
		in.annotated = true
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Value == "patch" && strings.Contains(value.Value, "NCCL_") && isDocument(value.Value), // of a kustomization
			key.Value == "runtimeEnvYAML" && value.Kind == yaml.ScalarNode: // of a RayCluster or RayJob: a document in a text
			if err := in.embedded(value, depth); err != nil {
				return err
			}
			continue
		case concerns(key.Value) && value.Kind == yaml.ScalarNode:
			in.variable(value, key.Value, value.Value)
			continue
		// a template: {{ .Values.x }}
		case concerns(key.Value) && value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle != 0:
			in.append(setting{
				Setting: settings.Setting{Line: value.Line, Name: key.Value}, set: true, dynamic: true,
				scope: in.scopes,
			})
			continue
		case key.Value == "env" || key.Value == "environment" || key.Value == "data":
			in.scopes++
		}
		if value.Kind == yaml.ScalarNode && in.file(key.Value, value) {
			continue
		}
		if inside := containersOf(n, key.Value, value, in.annotated); inside != nil {
			if err := in.inContainers(value, inside, depth+1); err != nil {
				return err
			}
			continue
		}
		if err := in.node(value, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// containersOf returns what the containers below a key get; nil: there are none.
func containersOf(n *yaml.Node, key string, value *yaml.Node, annotated bool) func(*yaml.Node) container {
	switch {
	case key == "containers" && value.Kind == yaml.SequenceNode:
		pod := podOf(n, annotated)
		return func(one *yaml.Node) container { return podContainer(pod, one) }
	case key == "services" && value.Kind == yaml.MappingNode:
		return service
	}
	return nil
}

// inContainers reads containers, each with the settings in it.
func (in *Input) inContainers(list *yaml.Node, get func(*yaml.Node) container, depth int) error {
	for _, one := range list.Content {
		if one.Kind != yaml.MappingNode {
			continue
		}
		leave := in.enter(get(one))
		err := in.node(one, depth+1)
		if leave(); err != nil {
			return err
		}
	}
	return nil
}

// attaches matches annotations by which pods get networks and devices.
var attaches = lazyregexp.New(`network|rdma|cni|infiniband|nic`)

func mayAttach(annotations *yaml.Node) bool {
	if annotations == nil {
		return false
	}
	for i := 0; i < len(annotations.Content); i += 2 {
		if attaches().MatchString(annotations.Content[i].Value) {
			return true
		}
	}
	return false
}

// embedded reads a document that stands in a text.
func (in *Input) embedded(n *yaml.Node, depth int) error {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(n.Value), &document); err != nil {
		return fmt.Errorf("line %d: expected YAML in the text that begins here", n.Line)
	}
	from := len(in.settings)
	if err := in.node(&document, depth+1); err != nil {
		return err
	}
	in.place(n, from)
	return nil
}

// isDocument reports whether a text is a mapping or a list of YAML.
func isDocument(text string) bool {
	var n yaml.Node
	return yaml.Unmarshal([]byte(text), &n) == nil && len(n.Content) == 1 && n.Content[0].Kind != yaml.ScalarNode
}

// place moves settings that were read from a text to its lines in the document.
func (in *Input) place(n *yaml.Node, from int) {
	for i := from; i < len(in.settings); i++ {
		in.settings[i].Line += firstLine(n) - 1
	}
	in.oneLine(n, from)
}

// oneLine gives settings that were read from a quoted text its first line: its line ends are not those of the document.
func (in *Input) oneLine(n *yaml.Node, from int) {
	if firstLine(n) != n.Line {
		return
	}
	for i := from; i < len(in.settings); i++ {
		in.settings[i].Line = n.Line
	}
}

// unquoted reports values of a ConfigMap or Secret of Kubernetes that are no strings: its API refuses the whole object.
func (in *Input) unquoted(n *yaml.Node) {
	kind := field(n, "kind")
	if kind == nil || kind.Value != "ConfigMap" && kind.Value != "Secret" {
		return
	}
	if name := below(n, "metadata", "name"); name != nil {
		if in.maps == nil {
			in.maps = map[int]string{}
		}
		in.maps[in.document] = name.Value
	}
	for _, name := range []string{"data", "stringData"} {
		data := field(n, name)
		if data == nil || data.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(data.Content); i += 2 {
			key, value := data.Content[i], data.Content[i+1]
			if isString(value) {
				continue
			}
			if concerns(key.Value) {
				in.refused[value] = true
				continue
			}
			in.append(setting{
				Setting: settings.Setting{Line: value.Line}, scope: in.scopes,
				findings: []Finding{refusedByKubernetes("data", "quote the value")},
			})
		}
	}
}

func refusedByKubernetes(where, better string) Finding {
	return Finding{Refused, verdict.Warning, "Kubernetes refuses the object: a value of " + where +
		" is a string, and this one is not quoted", better}
}

// isString reports whether Kubernetes reads a value as a string. Its YAML is of version 1.1, to which on and
// yes are booleans.
func isString(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		return n.Alias == nil || isString(n.Alias)
	}
	switch n.ShortTag() {
	case "!!int", "!!bool", "!!float":
		return false
	case "!!str":
		return n.Style != 0 || !slices.Contains([]string{"yes", "no", "on", "off"}, strings.ToLower(n.Value))
	}
	return n.Kind == yaml.ScalarNode // null is an empty one
}

// file reads a text that is an nccl.conf or an environment file by its key, as in a ConfigMap that is mounted.
func (in *Input) file(key string, n *yaml.Node) bool {
	parse := settings.ParseConf
	switch detect(key, nil) {
	case FormatConf:
	case FormatEnv:
		parse = settings.ParseEnvironment
	default:
		return false
	}
	in.lines(parse, n)
	return true
}

// lines reads a text that has a setting on each line.
func (in *Input) lines(parse func([]byte) iter.Seq[settings.Setting], n *yaml.Node) {
	in.scopes++
	from := len(in.settings)
	for s := range parse([]byte(n.Value)) {
		in.addLine(s)
	}
	in.place(n, from)
	for i := from; i < len(in.settings); i++ {
		in.settings[i].scope = in.scopes
	}
	in.scopes++
}

// firstLine is the line on which a text begins.
func firstLine(n *yaml.Node) int {
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return n.Line + 1
	}
	return n.Line
}

// container adds an entry of env of a container.
func (in *Input) container(name, value *yaml.Node) {
	if value == nil || value.Kind != yaml.ScalarNode { // valueFrom
		in.append(setting{
			Setting: settings.Setting{Line: name.Line, Name: name.Value}, set: true, dynamic: true,
			scope: in.scopes,
		})
		return
	}
	s := in.entry(value, name.Value, value.Value)
	if !isString(value) {
		s.findings = []Finding{refusedByKubernetes("env", fmt.Sprintf("value: %q", presentable(name.Value, value.Value)))}
	}
	if value.ShortTag() == "!!null" {
		s.Value = ""
	}
	in.append(s)
}

// entry is a setting whose value stands in a manifest.
func (in *Input) entry(n *yaml.Node, name, value string) setting {
	text, chosen, dynamic := filled(value)
	return setting{
		Setting: settings.Setting{Line: n.Line, Name: name, Value: text}, set: true, scope: in.scopes,
		chosen: chosen, dynamic: dynamic,
	}
}

func (in *Input) variable(n *yaml.Node, name, value string) {
	s := in.entry(n, name, value)
	if n.ShortTag() == "!!null" { // not set, or as the caller has it
		s.Value, s.dynamic = "", true
	}
	if in.refused[n] {
		s.findings = []Finding{refusedByKubernetes("data", fmt.Sprintf("%s: %q", name, presentable(name, value)))}
	}
	in.append(s)
}

// script reads a text that is a shell script with settings of NCCL.
func (in *Input) script(n *yaml.Node) error {
	if !strings.Contains(n.Value, "NCCL_") {
		in.countText(n)
		return nil
	}
	if onlyAssignments([]byte(n.Value)) { // the content of an environment file
		in.lines(settings.ParseEnvironment, n)
		return nil
	}
	from := len(in.settings)
	err := in.parseShell(n.Value, firstLine(n))
	in.oneLine(n, from)
	return err
}

// field returns the value of a key of a mapping, or nil.
func field(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if strings.EqualFold(n.Content[i].Value, key) { // CloudFormation has Name and Value
			return n.Content[i+1]
		}
	}
	return nil
}
