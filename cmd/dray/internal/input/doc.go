// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package input reads Kubernetes objects for the command line: from YAML or JSON
// files, folders and standard input, or from a live cluster.
//
//	path, folder, "-"  ──► document ──► item (Lists unfolded) ──► typed object, v1
//	kubeconfig         ──► pages of API lists ────────────────► typed object, v1
//
// What dray uses (Node, Pod, Namespace, PodGroup, PodDisruptionBudget and the resource.k8s.io kinds, and
// what makes pods) is decoded strictly, converted to v1, given the defaults that the
// API server would give it, and validated. Other kinds are counted and passed over;
// one that is spelt almost like a kind that is used is an error.
//
//	origin.go    where an object was read
//	objects.go   the result, and the rule that an object occurs once
//	read.go      entry point for files
//	walk.go      paths to files
//	document.go  file to documents
//	decode.go    document to typed objects
//	scheme.go    the kinds and versions there are
//	lookalike.go kinds and groups that are spelt almost right
//	locate.go    which field of a document does not decode
//	redacted.go  dumps of clusters with values overwritten
//	kustomize.go kustomizations
//	defaults.go  API defaults
//	prototype.go translation of devmgmtproto.k8s.io to v1
//	adminaccess.go  the label that admin access needs
//	live.go      a cluster behind a kubeconfig
package input
