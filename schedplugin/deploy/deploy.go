// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deploy holds what it takes to run dray-scheduler in a cluster.
//
//	chart/base        the objects, as plain YAML: the one place where they are written down.
//	                  It is a Kustomize base, of a scheduler that is the default
//	chart/monitoring  alerts and a dashboard, optional
//	chart/exclusive   a policy: devices that no other scheduler may allocate, part of second
//	second            Kustomize: for pods that name it in schedulerName, beside kube-scheduler
//	default           Kustomize: for all other pods, in place of kube-scheduler
//	all               Kustomize: a second scheduler with all that is optional, a sample
//	chart             a Helm chart, which reads these objects and changes what its values say
//	render            a module of its own that renders all of it, for who has neither tool
//	Dockerfile        the image
//
// docs/operations.md says how to use it.
package deploy
