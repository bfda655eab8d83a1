// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/lazyregexp"
)

// container is what a container gets of its host, as far as a manifest or a command line shows.
type container struct {
	document int
	from     []string // ConfigMaps whose entries are its environment
	gpus     bool     // it is known to have GPUs
	pod      bool     // of Kubernetes

	open    bool // it may get devices in a way that is not looked at
	devices bool // it has RDMA devices
	volume  bool // it has the files of RDMA devices, which it may not open
	network bool // it has interfaces beside its own eth0, or may have
	locks   bool // it may lock memory
	locked  int  // bytes that it may lock, as it is written; 0: it is not
}

// whole is a container that may use all that its host has.
func (c *container) whole() { c.open, c.devices, c.locks = true, true, true }

var (
	// gpuResource are resources of Kubernetes that are GPUs, and rdmaResource RDMA devices. Others of device plugins
	// may be either.
	gpuResource  = lazyregexp.New(`/(?:[a-z]*gpu|mig-)`)
	rdmaResource = lazyregexp.New(`rdma|infiniband|/ib|hca|roce|/efa|mlx|mellanox|hostdev|nic|sriov`)
	// rdmaFiles are those of RDMA devices, or all devices.
	rdmaFiles = lazyregexp.New(`^/dev(/infiniband.*)?/?$`)
	// injects are variables by which container runtimes give devices.
	injects = []string{"MELLANOX_VISIBLE_DEVICES", "NVIDIA_MOFED"}
)

// podOf returns what all containers of a pod get. Annotations of the pod may give it networks and devices.
func podOf(spec *yaml.Node, annotated bool) container {
	c := container{pod: true, open: annotated, network: annotated}
	if host := field(spec, "hostNetwork"); host != nil && host.Value != "false" {
		c.network = true
	}
	if class := field(spec, "runtimeClassName"); class != nil && class.Value != "nvidia" {
		c.open, c.network = true, true
	}
	if claims := field(spec, "resourceClaims"); claims != nil {
		c.open, c.network = true, true
	}
	if volumes := field(spec, "volumes"); volumes != nil {
		for _, v := range volumes.Content {
			if host := field(v, "hostPath"); host != nil {
				if path := field(host, "path"); path != nil && rdmaFiles().MatchString(path.Value) {
					c.volume = true
				}
			}
		}
	}
	return c
}

// podContainer returns what a container of a pod gets.
func podContainer(pod container, n *yaml.Node) container {
	c := pod
	for _, kind := range []string{"limits", "requests"} {
		resources := field(n, "resources")
		if resources == nil {
			break
		}
		if field(resources, "claims") != nil {
			c.open = true
		}
		list := field(resources, kind)
		if list == nil {
			continue
		}
		for i := 0; i+1 < len(list.Content); i += 2 {
			switch key := list.Content[i].Value; {
			case !strings.Contains(key, "/"):
			case gpuResource().MatchString(key):
				c.gpus = true
			case !rdmaResource().MatchString(key):
				c.open = true
			default:
				c.devices = true
				c.locks = c.locks || strings.HasSuffix(key, "/efa") // nodes for EFA let containers lock memory
			}
		}
	}
	if security := field(n, "securityContext"); security != nil {
		c.secured(security)
	}
	if from := field(n, "envFrom"); from != nil {
		for _, one := range from.Content {
			if name := below(one, "configMapRef", "name"); name != nil {
				c.from = append(c.from, name.Value)
			}
		}
	}
	if env := field(n, "env"); env != nil {
		for _, e := range env.Content {
			if name := field(e, "name"); name != nil && slices.Contains(injects, name.Value) {
				c.open = true
			}
		}
	}
	return c
}

func (c *container) secured(security *yaml.Node) {
	if privileged := field(security, "privileged"); privileged != nil && privileged.Value != "false" {
		c.whole()
	}
	capabilities := field(security, "capabilities")
	if capabilities == nil {
		return
	}
	if list := field(capabilities, "add"); list != nil {
		for _, one := range list.Content {
			c.capability(one.Value)
		}
	}
}

func (c *container) capability(name string) {
	name = strings.TrimPrefix(strings.ToUpper(name), "CAP_")
	c.locks = c.locks || name == "IPC_LOCK" || name == "ALL" || strings.Contains(name, "$")
}

// memlock notes a limit of locked memory as Docker reads it: -1, -1:-1 or a number of bytes.
func (c *container) memlock(limit string) {
	soft, _, _ := strings.Cut(limit, ":")
	n, err := strconv.Atoi(soft)
	switch {
	case err != nil, n < 0:
		c.locks = true // or not known
	default:
		c.locked = n
	}
}

// service returns what a service of Compose gets.
func service(n *yaml.Node) container {
	var c container
	set := func(key string, use func(value string)) {
		list := field(n, key)
		if list == nil {
			return
		}
		if list.Kind == yaml.ScalarNode {
			use(list.Value)
		}
		for _, one := range list.Content {
			if source := field(one, "source"); source != nil {
				one = source
			}
			use(one.Value)
		}
	}
	set("privileged", func(v string) {
		if v != "false" {
			c.whole()
		}
	})
	set("network_mode", func(v string) { c.network = c.network || v != "bridge" && v != "none" })
	set("devices", c.device)
	set("volumes", c.mount)
	set("cap_add", c.capability)
	for _, key := range []string{"extends", "device_cgroup_rules"} {
		c.open = c.open || field(n, key) != nil
	}
	if devices := below(n, "deploy", "resources", "reservations", "devices"); devices != nil {
		for _, one := range devices.Content {
			driver, ids := field(one, "driver"), field(one, "device_ids")
			switch {
			case driver == nil || driver.Value != "cdi":
			case ids == nil:
				c.open = true
			default:
				for _, id := range wordsOf(ids.Content) {
					c.device(id.text)
				}
			}
		}
	}
	for _, key := range []string{"extends", "networks"} { // which may be that of the host
		c.network = c.network || field(n, key) != nil
	}
	if limits := field(n, "ulimits"); limits != nil {
		if limit := field(limits, "memlock"); limit != nil {
			if soft := field(limit, "soft"); soft != nil {
				limit = soft
			}
			c.memlock(limit.Value)
		}
	}
	return c
}

// below returns what stands below keys in each other, or nil.
func below(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		if n = field(n, key); n == nil {
			break
		}
	}
	return n
}

// device notes a device of a container: a path, or one that a list of the runtime has (CDI).
func (c *container) device(value string) {
	path, _, _ := strings.Cut(value, ":")
	switch {
	case rdmaFiles().MatchString(path):
		c.devices = true
	case !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "nvidia.com/gpu"):
		c.open = true
	}
}

func (c *container) mount(value string) {
	path, _, _ := strings.Cut(value, ":")
	c.volume = c.volume || rdmaFiles().MatchString(path)
}

// engines run a container from a command line. Options of others, such as Apptainer, take nothing away.
var engines = []string{"docker", "podman", "nerdctl", "nvidia-docker"}

// ranContainer returns what docker run and the like give a container; nil: the command runs none.
func ranContainer(words []word) *container {
	at := slices.IndexFunc(words, func(w word) bool { return slices.Contains(engines, w.text) })
	if at < 0 || at+1 >= len(words) || words[at+1].text != "run" && words[at+1].text != "create" {
		return nil
	}
	c := &container{network: words[at].text == "podman"} // which may give it the name of the host's
	options := words[at+2:]
	for i, w := range options {
		name, value, joined := strings.Cut(w.text, "=")
		if !joined && i+1 < len(options) {
			value = options[i+1].text
		}
		switch {
		case w.dynamic && strings.HasPrefix(w.text, "$") && !takesValue(options, i) && !ofImage().MatchString(w.text):
			c.open, c.network = true, true // options in a variable
		case name == "--privileged" && (!joined || value != "false"):
			c.whole()
		case name == "--network", name == "--net":
			c.network = c.network || value != "bridge" && value != "none"
		case name == "--device":
			c.device(value)
		case name == "--device-cgroup-rule", name == "--env-file", name == "--runtime" && value != "nvidia":
			c.open = true
		case name == "--volume", name == "-v":
			c.mount(value)
		case name == "--mount":
			_, source, _ := strings.Cut(value, "source=")
			c.volume = c.volume || strings.HasPrefix(source, "/dev/infiniband")
		case name == "--cap-add":
			c.capability(value)
		case name == "--ulimit" && strings.HasPrefix(value, "memlock="):
			c.memlock(strings.TrimPrefix(value, "memlock="))
		}
		c.open = c.open || slices.ContainsFunc(injects, func(v string) bool { return strings.Contains(w.text, v) })
	}
	return c
}

// takesValue reports whether a word is the value of the option before it, or behind the image.
func takesValue(words []word, i int) bool {
	return i > 0 && strings.HasPrefix(words[i-1].text, "-") && !strings.Contains(words[i-1].text, "=") &&
		!slices.Contains(alone, words[i-1].text)
}

// ofImage matches a variable that has an image.
var ofImage = lazyregexp.New(`(?i)ima?ge?|container|tag`)

// alone are options of engines without a value.
var alone = []string{
	"-d", "-i", "-t", "-it", "-ti", "-itd", "-dit", "-td", "--rm", "--detach", "--interactive", "--tty", "--init",
	"--privileged",
}
