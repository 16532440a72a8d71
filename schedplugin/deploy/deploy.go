// Package deploy holds what it takes to run dray-scheduler in a cluster.
//
//	chart/base   the objects, as plain YAML: the one place where they are written down.
//	             It is a Kustomize base, of a scheduler that is the default
//	second       Kustomize: for pods that name it in schedulerName, beside kube-scheduler
//	default      Kustomize: for all other pods, in place of kube-scheduler
//	chart        a Helm chart, which reads chart/base and changes what its values say
//	render       a module of its own that renders all of it, for who has neither tool
//	Dockerfile   the image
//
// docs/operations.md says how to use it.
package deploy

import _ "embed"

// SchedulerConfiguration is a KubeSchedulerConfiguration, as YAML, in which Dray takes the
// place of the plugin DynamicResources.
//
//go:embed chart/base/scheduler-config.yaml
var SchedulerConfiguration []byte
