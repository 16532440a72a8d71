// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

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

// TestVersion holds together the places that name the version of Kubernetes.
func TestVersion(t *testing.T) {
	want := find(t, "../go.mod", `^\s+k8s\.io/kubernetes (v\S+)$`)
	for path, expression := range map[string]string{
		"Dockerfile":                 `gitVersion=([v\d.]+)\+dray`,
		"chart/Chart.yaml":           `^appVersion: (\S+)$`,
		"chart/base/deployment.yaml": `image: dray-scheduler:(\S+)$`,
		"../../Makefile":             `gitVersion=(\S+)`,
	} {
		if got := find(t, path, expression); got != want {
			t.Errorf("%s: version %s, want %s as in go.mod", path, got, want)
		}
	}
	if want, got := find(t, "../go.mod", `^go (\d+\.\d+)`), find(t, "Dockerfile", `golang:([\d.]+)`); got != want {
		t.Errorf("Dockerfile: Go %s, want %s as in go.mod", got, want)
	}
}

// TestImageFitsDeployment finds what the one expects of the other.
func TestImageFitsDeployment(t *testing.T) {
	pod := as[appsv1.Deployment](t, rendered(t, "kustomize second"), "Deployment").Spec.Template.Spec
	user := find(t, "Dockerfile", `^USER (\S+)$`)
	if want := fmt.Sprintf("%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup); user != want {
		t.Errorf("the image runs as %s, the pod as %s", user, want)
	}
	container := pod.Containers[0]
	port := find(t, "Dockerfile", `^EXPOSE (\S+)$`)
	if want := fmt.Sprint(container.Ports[0].ContainerPort); port != want {
		t.Errorf("the image has port %s, the container %s", port, want)
	}
	if arguments := strings.Join(container.Args, " "); !strings.Contains(arguments, "--secure-port="+port) {
		t.Errorf("the scheduler is told another port than %s: %s", port, arguments)
	}
	if len(container.Command) > 0 {
		t.Errorf("the entry point of the image is replaced by %v", container.Command)
	}
}
