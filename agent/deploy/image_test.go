// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/dray-project/dray/internal/dev/install"
)

// find is the first group of an expression in a file.
func find(t *testing.T, path, expression string) string {
	t.Helper()
	found, err := install.Match(path, expression)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestVersion holds together the places that name a version.
func TestVersion(t *testing.T) {
	if want, got := find(t, "../go.mod", `^go (\d+\.\d+)`), find(t, "Dockerfile", `golang:([\d.]+)`); got != want {
		t.Errorf("Dockerfile: Go %s, want %s as in go.mod", got, want)
	}
	if want, got := find(t, "chart/Chart.yaml", `^appVersion: (\S+)$`), find(t, "chart/base/daemonset.yaml", `image: dray-agent:(\S+)$`); got != want {
		t.Errorf("DaemonSet: version %s, want %s as in the chart", got, want)
	}
}

// TestImageFitsDaemonSet finds what the one expects of the other, and of the role.
func TestImageFitsDaemonSet(t *testing.T) {
	objects := rendered(t, "kustomize", "default")
	pod := as[appsv1.DaemonSet](t, objects, "DaemonSet").Spec.Template.Spec
	user := find(t, "Dockerfile", `^USER (\S+)$`)
	if want := fmt.Sprintf("%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup); user != want {
		t.Errorf("the image runs as %s, the pod as %s", user, want)
	}
	container := pod.Containers[0]
	port := find(t, "Dockerfile", `^EXPOSE (\S+)$`)
	if want := fmt.Sprint(container.Ports[0].ContainerPort); port != want || !slices.Contains(container.Args, "--listen=:"+port) {
		t.Errorf("the image has port %s, the container %s, and its arguments are %v", port, want, container.Args)
	}
	if len(container.Command) > 0 {
		t.Errorf("the entry point of the image is replaced by %v", container.Command)
	}
	for _, rule := range as[rbacv1.ClusterRole](t, objects, "ClusterRole").Rules {
		for _, name := range rule.ResourceNames {
			if !slices.Contains(container.Args, "--driver="+name) {
				t.Errorf("the role is for driver %s, and the arguments are %v", name, container.Args)
			}
		}
	}
	const host = "/host"
	ownSys := true
	for _, mount := range container.VolumeMounts {
		path, below := strings.CutPrefix(mount.MountPath, host)
		ownSys = ownSys && (!below || path != "/sys" || !mount.ReadOnly)
		if !slices.ContainsFunc(pod.Volumes, func(volume corev1.Volume) bool {
			return volume.Name == mount.Name && volume.HostPath != nil && volume.HostPath.Path == path
		}) {
			t.Errorf("%s is not mounted where it is on the node: kubelet is told its paths", mount.MountPath)
		}
	}
	if ownSys || !slices.Contains(container.Args, "--sysfs="+host) {
		t.Errorf("the agent reads the container's own sysfs, without the node's network interfaces: arguments %v", container.Args)
	}
}
