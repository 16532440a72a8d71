// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/internal/dev/controlplane"
)

const (
	virtualKubelet        = "github.com/virtual-kubelet/virtual-kubelet"
	virtualKubeletRelease = "v1.14.1"
)

// nodeImports are what a program of virtual nodes changes.
var nodeImports = map[string]string{
	virtualKubelet + "/node":          "github.com/dray-project/dray/agent/node",
	virtualKubelet + "/node/api":      "github.com/dray-project/dray/agent/node/api",
	virtualKubelet + "/node/nodeutil": "github.com/dray-project/dray/agent/node/nodeutil",
}

// nodes are virtual-kubelet's program: a release, which the module proxy has, and a commit of
// its main branch.
var nodes = []Part{
	nodePart("node/virtual-kubelet", Program{
		Version:   virtualKubeletRelease,
		Forwarded: nodeTests("TestSetServerNodeRejectsUnusableNode", "TestGetServerNodeRejectsUnnamedCachedNode"),
	}),
	nodePart("node/main", Program{Commit: "7b1385bcb2c1ecffd3938f2a935470b347450a45", Forwarded: nodeTests()}),
}

func nodePart(name string, program Program) Part {
	program.Repository = "https://" + virtualKubelet
	program.Packages = []string{"./node/...", "./cmd/..."}
	program.Imports = nodeImports
	program.onPlane = endToEnd
	return Part{
		Name:        name,
		About:       "virtual-kubelet's tests of its packages node, its program with the mock provider, and its end-to-end tests on a control plane, with node, node/api and node/nodeutil of the agent",
		Counterpart: virtualKubelet,
		otherWords:  anotherError,
		Program:     &program,
	}
}

// anotherError holds if a test got an error where it expects one, and its text is another one.
// The test ends with that.
func anotherError(output string) bool {
	return strings.Contains(output, `assertion failed: expected error "`)
}

// nodeTests are virtual-kubelet's own tests of its packages. Of private functions there are some tests in any version, and
// more in some.
func nodeTests(ofPrivate ...string) []forwarded {
	nodes := map[string]string{
		"TestNodeCustomUpdateStatusErrorHandler": "reads a private field of the NodeController",
		"TestUpdateNodeStatus":                   "of a private function",
		"TestPingAfterStatusUpdate":              "wants a ping each 25 ms, which a busy machine does not give",
		"TestNodePingSingleInflight":             "runs a private part of the NodeController",
		// The watch of client-go's fake begins with it since v0.36. The test may then use what only Run sets, before Run does.
		"TestBeforeAnnotationsPreserved": "waits for its watch to show the node that it made itself, and not for the NodeController",
	}
	for _, test := range ofPrivate {
		nodes[test] = "of a private function"
	}
	return []forwarded{
		{
			folder: "node", adapter: "node",
			LeftOut: map[string]map[string]string{
				"pod_test.go":              {"": "calls private functions of the PodController, and looks into its private fields"},
				"podcontroller_test.go":    {"": "calls private functions of the PodController, and looks into its private fields"},
				"lease_controller_test.go": {"": "of a private type"},
				"lifecycle_test.go": {
					"testTerminalStatePodScenario": "waits for the PodController's private queue; it is skipped",
				},
				"node_test.go": nodes,
			},
		},
		{folder: "node/nodeutil", adapter: "nodeutil"},
	}
}

// Names that virtual-kubelet's end-to-end tests have in them.
const (
	mockNode = "vkubelet-mock-0"
	mockPort = "10250"
)

// endToEnd runs virtual-kubelet with its mock provider as a node of an API server, and its
// end-to-end tests on that.
func endToEnd(ctx context.Context, c copied) (events []packageEvent, err error) {
	address, err := ownAddress()
	if err != nil {
		return nil, err
	}
	program, err := c.build(ctx, "./cmd/virtual-kubelet")
	if err != nil {
		return nil, err
	}
	binaries, err := controlplane.BinariesIn(c.bin())
	if err != nil {
		return nil, fmt.Errorf("make controlplane builds what is needed: %w", err)
	}
	files := filepath.Join(c.folder, "hack", "skaffold", "virtual-kubelet", mockNode)
	err = controlplane.Use(ctx, controlplane.Options{Binaries: binaries, APIServerOnly: true}, func(plane *controlplane.ControlPlane) (err error) {
		if err := prepareDefaultNamespace(ctx, plane, address); err != nil {
			return err
		}
		kubelet, err := plane.Launch("virtual-kubelet", "/usr/bin/env",
			"KUBELET_PORT="+mockPort, "VKUBELET_POD_IP="+address,
			"APISERVER_CERT_LOCATION="+files+"-crt.pem", "APISERVER_KEY_LOCATION="+files+"-key.pem",
			program, "--nodename="+mockNode, "--provider=mock", "--provider-config="+files+"-cfg.json",
			"--startup-timeout=1m", "--kubeconfig="+plane.Kubeconfig())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, kubelet.Stop()) }()
		events, err = goJSON(ctx, c.folder, []string{"test", "-mod=mod", "-vet=off", "-count=1", "-json", "-tags=e2e", "-timeout=15m", "./internal/test/e2e",
			"-args", "-kubeconfig=" + plane.Kubeconfig(), "-node-name=" + mockNode}, nil)
		return errors.Join(err, kubelet.Err())
	})
	return events, err
}

// prepareDefaultNamespace creates what the tests count on: an account for pods, and the pod in which
// virtual-kubelet is meant to run, through which its metrics are read.
func prepareDefaultNamespace(ctx context.Context, plane *controlplane.ControlPlane, address string) error {
	client, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: mockNode},
		Spec:       corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "virtual-kubelet", Image: "virtual-kubelet"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// ownAddress is an address of this machine by which the API server reaches pods: it
// does not go to loopback addresses.
func ownAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.String(), nil
		}
	}
	return "", errors.New("this machine needs an IPv4 address beside the loopback's: the API server does not forward to that")
}
