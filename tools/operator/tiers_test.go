// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// daemonSet is the one in a manifest of a tier.
func daemonSet(t *testing.T, path string) *apps.DaemonSet {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var set apps.DaemonSet
		if yaml.Unmarshal(part, &set) == nil && set.Kind == "DaemonSet" {
			return &set
		}
	}
	t.Fatalf("%s has no DaemonSet", path)
	return nil
}

// TestEveryTierKeepsTheRecord has the pods of each tier see and, as the owner of the folder, write the record
// of their node, which is what a loss over a restart is noticed by. Kubernetes makes a folder that is missing
// for root: pods of another user need one that was made for them, which no field of a pod can ask for.
func TestEveryTierKeepsTheRecord(t *testing.T) {
	const folder = "/var/lib/gpufabric_exporter"
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	if err != nil || len(files) != 6 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		pod := daemonSet(t, path).Spec.Template.Spec
		mounts := pod.Containers[0].VolumeMounts
		m := slices.IndexFunc(mounts, func(m core.VolumeMount) bool { return m.MountPath == folder })
		if m < 0 || mounts[m].ReadOnly || mounts[m].SubPath != "" {
			t.Errorf("%s: %s is not mounted to be written: %+v", path, folder, mounts)
			continue
		}
		v := slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == mounts[m].Name })
		if v < 0 || pod.Volumes[v].HostPath == nil || pod.Volumes[v].HostPath.Path != folder || *pod.Volumes[v].HostPath.Type != core.HostPathDirectoryOrCreate {
			t.Errorf("%s: %s is not that of the node: %+v", path, folder, pod.Volumes)
		}
		if pod.SecurityContext.FSGroup != nil {
			t.Errorf("%s: fsGroup does not change folders of the node", path)
		}
	}
}
