// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// supply is a node with one GPU, and a template of claims for it in a namespace of its own.
const supply = `
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE}
---
apiVersion: v1
kind: Node
metadata: {name: NAMESPACE}
status: {allocatable: {cpu: "64", memory: 64Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: NAMESPACE}
spec: {selectors: [{cel: {expression: device.driver == "NAMESPACE.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: NAMESPACE}
spec:
  driver: NAMESPACE.example.com
  nodeName: NAMESPACE
  pool: {name: NAMESPACE, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: NAMESPACE}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: NAMESPACE}}]}}}
`

// template is the spec of pods with such a claim.
const template = `{tolerations: [{operator: Exists}], resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], containers: [{name: c, image: registry.example.com/x, resources: {claims: [{name: gpu}]}}]}`

func supplied(t *testing.T, namespace string) {
	t.Helper()
	create(t, strings.ReplaceAll(supply, "NAMESPACE", namespace))
	await(t, "the service account that pods run as", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, err
	})
}

// Pods that controllers of Kubernetes make are found by the objects that users wrote, with no more rights than to read
// the pods.
func TestExplainObjectsOfKubernetes(t *testing.T) {
	const namespace = "makers"
	supplied(t, namespace)
	labelled := func(app string) string {
		return fmt.Sprintf("{metadata: {labels: {app: %s}}, spec: %s}", app, template)
	}
	first := strings.Replace(labelled("web"), "spec: {", "spec: {priorityClassName: makers, ", 1)
	job := fmt.Sprintf("{metadata: {labels: {app: nightly}}, spec: %s, restartPolicy: Never}}", strings.TrimSuffix(template, "}"))
	create(t, `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: makers}
value: 1000
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: makers}
spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: `+first+`}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: makers}
spec: {replicas: 1, serviceName: db, selector: {matchLabels: {app: db}}, template: `+labelled("db")+`}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: none, namespace: makers}
spec: {replicas: 0, selector: {matchLabels: {app: none}}, template: `+labelled("none")+`}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: makers}
spec: {schedule: "* * * * *", jobTemplate: {spec: {template: `+job+`}}}
`)
	runSoon(t, namespace, "nightly")
	awaitPods(t, namespace, "app=web", 2)
	awaitPods(t, namespace, "app=db", 1)
	awaitPods(t, namespace, "app=nightly", 1)

	const placed, total = "Pod makers/", "Placed, or can be placed: 1 of 2 pods and claims."
	expect(t, "explain deployment/web -n makers", cli.ExitNotPlaced, placed+"web-", " is not placed: it fits none of", total)
	expect(t, "explain deployment.apps/web -n makers", cli.ExitNotPlaced, total)
	expect(t, "explain deploy/web", cli.ExitNotPlaced, total) // there is one of that name in all namespaces
	expect(t, "explain statefulset/db -n makers --alone", cli.ExitOK, placed+"db-0 can be placed on")
	expect(t, "explain cronjob/nightly -n makers --alone", cli.ExitOK, placed+"nightly-")
	expect(t, "explain deployment/none -n makers", cli.ExitError, "error: deployment makers/none has no pods", "kubectl describe")
	expect(t, "explain deployment/wbe -n makers", cli.ExitError, "did you mean web?")

	names := expect(t, "__complete explain -n makers de", cli.ExitOK, "deployment/web\tDeployment in makers\n")
	if strings.Contains(names, "none") {
		t.Errorf("a Deployment without pods is not read, and was completed:\n%s", names)
	}
	expect(t, "__complete explain -n makers c", cli.ExitOK, "cronjob/nightly\tCronJob in makers\n")
	expect(t, "__complete explain -n m", cli.ExitOK, "makers\n:4\n")
}

// runSoon has a CronJob believe that it ran last some minutes ago.
func runSoon(t *testing.T, namespace, name string) {
	t.Helper()
	await(t, "status of the CronJob", func(ctx context.Context) (bool, error) {
		_, err := client.BatchV1().CronJobs(namespace).Patch(ctx, name, types.MergePatchType,
			fmt.Appendf(nil, `{"status": {"lastScheduleTime": %q}}`, time.Now().Add(-150*time.Second).UTC().Format(time.RFC3339)), metav1.PatchOptions{}, "status")
		return err == nil, err
	})
	await(t, "a run of the CronJob", func(ctx context.Context) (bool, error) {
		jobs, err := client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(jobs.Items) > 0, err
	})
	_, err := client.BatchV1().CronJobs(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec": {"suspend": true}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// One run is enough, also if the next minute has begun.
	jobs, err := client.BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, extra := range jobs.Items[1:] {
		if err := client.BatchV1().Jobs(namespace).Delete(t.Context(), extra.Name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
}
