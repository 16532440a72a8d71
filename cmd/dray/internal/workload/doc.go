// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload turns objects that make pods (Deployments, Jobs, JobSets, ...) into the
// pods that they would make.
//
//	object ──Read──► Controller: templates and how many of each ──Expand──► pods
//
// The kinds that are known, and where they keep their pod templates, are a table. An object
// of any other kind that has a pod template at spec.template is taken for spec.replicas
// pods, and the caller is told so.
//
//	kinds.go       the table
//	read.go        an object's templates, by the table
//	expand.go      templates to pods, less those that exist already
//	daemonset.go   the nodes of a DaemonSet
//	maker.go       the object that a pod is made for
package workload
