// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package input reads Kubernetes objects for the command line: from YAML or JSON
// files, folders and standard input, or from a live cluster.
//
//	path, folder, "-"  ──► document ──► item (Lists unfolded) ──► typed object, v1
//	kubeconfig         ──► pages of API lists ────────────────► typed object, v1
//
// The kinds that dray uses are Node, Pod, Namespace, PodGroup, PodDisruptionBudget, those of
// resource.k8s.io, and objects that make pods. They are decoded strictly, converted to v1,
// defaulted as by the API server, and validated. Other kinds are counted and ignored. A kind whose
// name is almost that of a used kind is an error.
//
//	origin.go    the position of an object in the input
//	objects.go   the result, and the rule that an object occurs once
//	copies.go    a manifest and what the cluster has of it
//	read.go      entry point for files
//	walk.go      paths to files
//	document.go  file to documents
//	decode.go    document to typed objects
//	scheme.go    known kinds and versions
//	lookalike.go misspelt kinds and groups
//	locate.go    the field of a decoding error
//	redacted.go  dumps of clusters with redacted values
//	kustomize.go kustomizations
//	defaults.go  API defaults
//	prototype.go translation of devmgmtproto.k8s.io to v1
//	admission.go what the API server adds to new pods
//	adminaccess.go  the label that admin access needs
//	live.go      a cluster behind a kubeconfig
package input
