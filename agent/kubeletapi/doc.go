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
// Package node/api defines the requests, and package node/nodeutil who may send them.
//
// # Contract
//
// Each request is authenticated and authorized by the API server, as in kubelet's webhook modes.
// Anonymous requests are refused. exec, attach, port forwarding and run are refused with an error
// that says why.
package kubeletapi
