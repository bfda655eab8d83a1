// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// several is what says that a job has several nodes.
type several struct {
	line int
	text string
}

// Where numbers of nodes stand.
var (
	// countOptions are those of Slurm, LSF, torchrun, accelerate, DeepSpeed, vLLM and SGLang.
	countOptions = []string{
		"--nodes", "--nnodes", "--num_nodes", "--num-nodes", "--num_machines", "--num-machines", "-nnodes",
	}
	slurm = []string{"srun", "sbatch", "salloc", "#SBATCH"} // for which -N is one, too
	// hostOptions are lists of hosts, of the launchers.
	hostOptions = []string{"-H", "-host", "--host", "-hosts", "--hosts"}
	launchers   = []string{"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "horovodrun"}
	// notJobs have such options for something else.
	notJobs = []string{"gcloud", "aws", "az", "eksctl", "kubectl", "kind"}
	// countVariables and countKeys are those of PyTorch, Slurm and scripts, and of manifests.
	countVariables = []string{"NNODES", "NUM_NODES", "PET_NNODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}
	countKeys      = []string{"numNodes", "num_nodes", "nnodes"}
)

// noteNodes notes what says that the job of this document has several nodes. The first counts.
func (in *Input) noteNodes(line int, text, count string) {
	digits := count[:len(count)-len(strings.TrimLeft(count, "0123456789"))]
	if n, err := strconv.Atoi(digits); err != nil || n < 2 {
		return
	}
	if in.nodes == nil {
		in.nodes = map[int]several{}
	}
	if _, noted := in.nodes[in.document]; !noted {
		in.nodes[in.document] = several{line, shown(text)}
	}
}

// countNodes looks for the number of nodes in a command.
func (in *Input) countNodes(words []word) {
	if len(words) == 0 || slices.Contains(notJobs, words[0].text) {
		return
	}
	begins := func(names []string) func() bool {
		return sync.OnceValue(func() bool {
			return slices.ContainsFunc(words, func(w word) bool { return slices.Contains(names, path.Base(w.text)) })
		})
	}
	inSlurm, launched := begins(slurm), begins(launchers)
	for i, w := range words {
		if len(w.text) < 2 || w.text[0] != '-' {
			continue
		}
		option, value, joined := strings.Cut(w.text, "=")
		if !joined && i+1 < len(words) {
			value = words[i+1].text
		}
		if rest, is := strings.CutPrefix(w.text, "-N"); is && rest != "" && inSlurm() {
			option, value = "-N", rest
		}
		text := option + " " + value
		switch {
		case option == "-l" && (words[0].text == "#PBS" || words[0].text == "qsub"): // select=2:ncpus=4
			if kind, count, _ := strings.Cut(value, "="); kind == "select" || kind == "nodes" {
				in.noteNodes(w.line, text, count)
			}
		case slices.Contains(countOptions, option), option == "-N" && inSlurm():
			in.noteNodes(w.line, text, value)
		case slices.Contains(hostOptions, option) && launched():
			hosts := map[string]bool{}
			for host := range strings.SplitSeq(value, ",") {
				name, _, _ := strings.Cut(host, ":")
				hosts[name] = true
			}
			in.noteNodes(w.line, option+" with several hosts", strconv.Itoa(len(hosts)))
		}
	}
}

// countText looks for the number of nodes in the lines of a script.
func (in *Input) countText(n *yaml.Node) {
	line := firstLine(n)
	for text := range strings.Lines(n.Value) {
		var words []word
		for field := range strings.FieldsSeq(text) {
			words = append(words, word{text: field, line: line})
		}
		if len(words) > 0 && !strings.HasPrefix(words[0].text, "#") {
			in.countNodes(words)
		}
		if firstLine(n) != n.Line {
			line++
		}
	}
}

// countReplicas looks for the number of nodes among the keys of an object.
func (in *Input) countReplicas(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		count := 0
		switch {
		case slices.Contains(countKeys, key):
			in.noteNodes(value.Line, key+" "+value.Value, value.Value)
		case key == "nodes" && value.Kind == yaml.ScalarNode && field(n, "commands") != nil: // a task of dstack
			in.noteNodes(value.Line, key+" "+value.Value, value.Value)
		case key == "leaderWorkerTemplate":
			if size := field(value, "size"); size != nil {
				in.noteNodes(size.Line, "size "+size.Value, size.Value)
			}
		case key == "parallelism" && indexed(n):
			in.noteNodes(value.Line, key+" "+value.Value, value.Value)
		case strings.HasSuffix(key, "ReplicaSpecs"): // of Kubeflow
			for k := 0; k+1 < len(value.Content); k += 2 {
				if value.Content[k].Value != "Launcher" {
					count += replicas(value.Content[k+1])
				}
			}
		case key == "workerGroupSpecs", key == "tasks": // of Ray and Volcano
			for _, group := range value.Content {
				count += replicas(group)
			}
		}
		in.noteNodes(value.Line, key+" with "+strconv.Itoa(count)+" replicas", strconv.Itoa(count))
	}
}

// indexed reports whether a job of Kubernetes has pods that know each other.
func indexed(n *yaml.Node) bool {
	mode := field(n, "completionMode")
	return mode != nil && mode.Value == "Indexed"
}

// replicas is the number of pods of a part of a job; without one: 1, and 0 where there is no such part.
func replicas(n *yaml.Node) int {
	count := field(n, "replicas")
	if count == nil {
		return min(len(n.Content), 1)
	}
	number, _ := strconv.Atoi(count.Value)
	return min(max(number, 0), 1<<20)
}
