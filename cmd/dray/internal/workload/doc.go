// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload expands objects that make pods (Deployments, Jobs, JobSets, ...) to the pods
// that they would create.
//
//	object ──Read──► Controller: templates and how many of each ──Expand──► pods
//
// A table has the known kinds, and the paths of their pod templates. An object of another kind with
// a pod template at spec.template counts as spec.replicas pods, and is marked as Foreign.
//
//	kinds.go       the table
//	read.go        an object's templates, by the table
//	expand.go      templates to pods, without those that exist
//	daemonset.go   the nodes of a DaemonSet
//	maker.go       the object that made a pod
package workload
