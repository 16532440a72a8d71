// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeletapi serves the part of kubelet's HTTPS API that a node without kubelet can
// serve: the pods of the node, and the logs of their containers.
//
//	kubectl logs ─► API server ─► GET /containerLogs/<namespace>/<pod>/<container>
//	                                │ who is it? client certificate, or TokenReview
//	                                │ may they?  SubjectAccessReview of nodes/proxy, nodes/pods, nodes/healthz
//	                                └─► the log file
//
// Requests and who may send them are those of packages node/api and node/nodeutil.
//
// # Contract
//
// Nobody is answered who is not known and allowed, as with kubelet's webhook modes; nobody is
// anonymous. exec, attach, port forwarding and run are refused with a sentence that
// says why.
package kubeletapi
