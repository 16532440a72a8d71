// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {plural: %[2]s, kind: %[3]s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// Pods of kinds that are no part of Kubernetes are found by the objects that users wrote, as their controllers mark them.
func TestExplainObjectsOfOthers(t *testing.T) {
	supplied(t, "others")
	owners := make(map[string]string) // references, by kind
	for kind, group := range map[string]string{
		"VirtualMachine": "kubevirt.io", "VirtualMachineInstance": "kubevirt.io", "Workflow": "argoproj.io", "JobSet": "jobset.x-k8s.io",
	} {
		create(t, fmt.Sprintf(definition, group, resources[kind], kind))
		made := create(t, fmt.Sprintf("{apiVersion: %s/v1, kind: %s, metadata: {name: mine, namespace: others}, spec: {template: {spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]}}}}", group, kind))
		owners[kind] = fmt.Sprintf("[{apiVersion: %s/v1, kind: %s, name: mine, uid: %s, controller: true}]", group, kind, made[0].GetUID())
	}
	pod := func(name, owner string) string {
		return fmt.Sprintf("\n---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: others, ownerReferences: %s}, spec: %s}", name, owners[owner], template)
	}
	labelled := func(labels string) string {
		return fmt.Sprintf("{metadata: {labels: {%s}}, spec: %s, restartPolicy: Never}}", labels, strings.TrimSuffix(template, "}"))
	}
	create(t, `
apiVersion: batch/v1
kind: Job
metadata: {name: mine-workers-0, namespace: others, ownerReferences: `+owners["JobSet"]+`}
spec: {template: `+labelled("jobset.sigs.k8s.io/jobset-name: mine")+`}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: mine-predictor, namespace: others}
spec: {selector: {matchLabels: {app: predictor}}, template: `+strings.Replace(labelled("app: predictor, serving.kserve.io/inferenceservice: mine"), ", restartPolicy: Never", "", 1)+`}
`+pod("virt-launcher-mine", "VirtualMachineInstance")+pod("mine-step", "Workflow"))
	awaitPods(t, "others", "jobset.sigs.k8s.io/jobset-name=mine", 1)
	awaitPods(t, "others", "app=predictor", 1)
	for subject, prefix := range map[string]string{
		"jobset/mine": "mine-workers-0-", "job/mine-workers-0": "mine-workers-0-", "vm/mine": "virt-launcher-mine", "virtualmachine.kubevirt.io/mine": "virt-launcher-mine",
		"vmi/mine": "virt-launcher-mine", "inferenceservice/mine": "mine-predictor-", "deployment/mine-predictor": "mine-predictor-", "workflow/mine": "mine-step",
	} {
		expect(t, "explain "+subject+" -n others --alone", cli.ExitOK, "Pod others/"+prefix, "can be placed on")
	}
	expect(t, "explain cronworkflow/mine -n others", cli.ExitError, "error: cronworkflow others/mine has no pods")
	for start, want := range map[string]string{
		"jobs": "jobset/mine\tJobSet in others\n:4\n", "v": "virtualmachine/mine\tVirtualMachine in others\nvirtualmachineinstance/mine\tVirtualMachineInstance in others\n:4\n",
		"inf": "inferenceservice/mine\tInferenceService in others\n:4\n", "wo": "workflow/mine\tWorkflow in others\n:4\n",
	} {
		expect(t, "__complete explain -n others "+start, cli.ExitOK, want)
	}
}

// A live cluster is simulated like files: the namespace of the context, all namespaces, or a label.
func TestSimulateSelects(t *testing.T) {
	supplied(t, "here")
	supplied(t, "there")
	pod := func(namespace, name, more string) string {
		return fmt.Sprintf("\n---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, labels: {app: %s}}, spec: %s}", name, namespace, name, strings.Replace(template, "{", "{"+more, 1))
	}
	create(t, pod("here", "a", "")+pod("here", "b", "")+pod("there", "c", "volumes: [{name: v, persistentVolumeClaim: {claimName: missing}}], "))
	for command, want := range map[string]string{
		"fits -n here":                      "here/a 2\n",
		"fits -n here -l app=b":             "here/b 1\n",
		"fits -A -l app=c":                  "there/c 1\n",
		"what-if -A -l app=c --add there=1": "there/c 1\n",
	} {
		expect(t, "simulate "+command+" --no-headers -o custom-columns=P:.pod,N:.pending", cli.ExitOK, strings.ReplaceAll(want, " ", "  "))
	}
	all := expect(t, "simulate fits -A --no-headers -o custom-columns=P:.pod,N:.pending", cli.ExitOK)
	for _, want := range []string{"here/a", "there/c"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing in\n%s", want, all)
		}
	}
	expect(t, "simulate plan -n here --like here", cli.ExitOK, "here  1      2       0         0")
	// The PVC is missing, and no GPU.
	expect(t, "explain c -n there", cli.ExitOK, "Pod there/c can be placed on", "Not looked at: volumes.")
	expect(t, "simulate fits -n there", cli.ExitOK, "Not looked at of pods like there/c: volumes.")
}
