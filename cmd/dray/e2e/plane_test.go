// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
	"github.com/dray-project/dray/internal/dev/controlplane"
)

const (
	binaries = "../../../bin"
	// patience is for machines that have other things to do. A test that passes does not wait for its end.
	patience = 2 * time.Minute
	interval = 50 * time.Millisecond
)

// What all tests share. Nothing is scheduled: pods wait for ever.
var (
	plane  *controlplane.ControlPlane
	client kubernetes.Interface
)

func TestMain(m *testing.M) { os.Exit(onPlane(m.Run)) }

// onPlane runs tests on a control plane and returns what to exit with.
func onPlane(tests func() int) int {
	programs, err := controlplane.BinariesIn(binaries)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", fmt.Errorf("%w; run make controlplane first", err))
		return 1
	}
	code := 0
	err = controlplane.Use(context.Background(), controlplane.Options{Binaries: programs, Scheduler: controlplane.Dray}, func(p *controlplane.ControlPlane) error {
		// What the controllers make is to be explained, and not to be scheduled.
		if err := p.StopScheduler(); err != nil {
			return err
		}
		plane = p
		if client, err = kubernetes.NewForConfig(p.Config()); err != nil {
			return err
		}
		if code = tests(); code != 0 {
			return errors.New("tests failed")
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return code
}

// dray runs a command line as an administrator and returns its outputs, one after the other, and its exit status.
func dray(t *testing.T, arguments ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	t.Setenv("KUBECONFIG", plane.Kubeconfig())
	arguments = append([]string{"dray"}, arguments...)
	status := cli.Main(ctx, arguments, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	return out.String(), status
}

// expect runs a command line and looks for texts in what it prints.
func expect(t *testing.T, command string, status int, want ...string) string {
	t.Helper()
	out, got := dray(t, strings.Fields(command)...)
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("dray %s: %q is not part of:\n%s", command, text, out)
		}
	}
	if got != status {
		t.Errorf("dray %s: exit status %d, want %d:\n%s", command, got, status, out)
	}
	return out
}

// resources are the plurals of what tests create.
var resources = map[string]string{
	"CronJob": "cronjobs", "Deployment": "deployments", "DeviceClass": "deviceclasses", "Job": "jobs", "Namespace": "namespaces", "Node": "nodes",
	"Pod": "pods", "PriorityClass": "priorityclasses", "PersistentVolumeClaim": "persistentvolumeclaims", "ReplicaSet": "replicasets", "ResourceClaim": "resourceclaims",
	"DeviceTaintRule": "devicetaintrules", "ResourceClaimTemplate": "resourceclaimtemplates", "ResourceSlice": "resourceslices", "StatefulSet": "statefulsets",
	"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "RoleBinding": "rolebindings",
	"CustomResourceDefinition": "customresourcedefinitions", "JobSet": "jobsets", "VirtualMachine": "virtualmachines",
	"VirtualMachineInstance": "virtualmachineinstances", "Workflow": "workflows",
}

// create creates the objects of a manifest, and their statuses, and returns them.
func create(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	var created []*unstructured.Unstructured
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if len(object.Object) == 0 {
			continue
		}
		var made *unstructured.Unstructured
		await(t, "create "+object.GetKind()+" "+object.GetName(), func(ctx context.Context) (_ bool, err error) {
			made, err = in(t, object).Create(ctx, object, metav1.CreateOptions{FieldValidation: "Strict"})
			if err != nil && !apierrors.IsNotFound(err) { // a kind is not served at once after its definition
				t.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
			}
			return err == nil, err
		})
		if status, found := object.Object["status"]; found {
			made.Object["status"] = status
			var err error
			if made, err = in(t, object).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
				t.Fatalf("status of %s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
		created = append(created, made)
	}
	return created
}

func in(t *testing.T, object *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	plural, known := resources[object.GetKind()]
	if !known {
		t.Fatalf("the plural of %s is not known here", object.GetKind())
	}
	dynamicClient, err := dynamic.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	gvk := object.GroupVersionKind()
	all := dynamicClient.Resource(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: plural})
	if object.GetNamespace() != "" {
		return all.Namespace(object.GetNamespace())
	}
	return all
}

// await waits until something is so.
func await(t *testing.T, what string, so func(context.Context) (bool, error)) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for {
		done, err := so(ctx)
		if done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: it is not so, error: %v", what, err)
		case <-time.After(interval):
		}
	}
}

// awaitPods waits for pods of a label.
func awaitPods(t *testing.T, namespace, selector string, count int) {
	t.Helper()
	await(t, fmt.Sprintf("%d pods with %s", count, selector), func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		return err == nil && len(pods.Items) == count, err
	})
}

// kubeconfig writes a changed one.
func kubeconfig(t *testing.T, change func(*clientcmdapi.Config)) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(plane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
