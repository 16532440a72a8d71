// Package input reads Kubernetes objects for the command line: from YAML or JSON
// files, folders and standard input, or from a live cluster.
//
//	path, folder, "-"  ──► document ──► item (Lists unfolded) ──► typed object, v1
//	kubeconfig         ──► pages of API lists ────────────────► typed object, v1
//
// What dray uses (Node, Pod and the resource.k8s.io kinds) is decoded strictly,
// converted to v1, given the defaults that the API server would give it, and
// validated. Other kinds are counted and passed over.
//
//	origin.go    where an object was read
//	objects.go   the result, and the rule that an object occurs once
//	read.go      entry point for files
//	walk.go      paths to files
//	document.go  file to documents
//	decode.go    document to typed objects
//	scheme.go    the kinds and versions there are
//	locate.go    which field of a document does not decode
//	defaults.go  API defaults
//	live.go      a cluster behind a kubeconfig
package input
