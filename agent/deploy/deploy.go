// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deploy has the manifests and the chart that run dray-agent on the nodes of a cluster.
//
//	chart/base   the objects, as plain YAML: the one place where they are written down.
//	             It is a Kustomize base
//	default      Kustomize: with the name of the driver in one place, a sample
//	chart/processes, processes
//	             the account of agents that run pods as processes, outside of the cluster
//	chart        a Helm chart, which reads these objects and changes what its values say
//	Dockerfile   the image
//
// schedplugin/deploy/render renders all of it, for who has neither tool. docs/agent.md says
// how to use it.
package deploy
