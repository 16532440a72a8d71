// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api serves the part of kubelet's API that the API server asks a node for: the logs
// of containers, commands in them, their ports, and what they use.
//
// It offers the names, signatures and meaning of virtual-kubelet's package of this name, so
// that a program changes an import path and nothing else.
//
//	kubectl logs, exec, attach, port-forward, top
//	   └─► API server ─► PodHandler ─┬─ /containerLogs/<namespace>/<pod>/<container>
//	                                 ├─ /exec/…, /attach/…, /portForward/<namespace>/<pod>
//	                                 ├─ /stats/summary, /metrics/resource
//	                                 └─ /pods, /runningpods/
//
// # Contract
//
// Handlers do not check who sends a request. Wrap them with nodeutil.WithAuth or similar. If a
// function is nil, the response is 501.
//
// An error of the class NotFound of package errdefs becomes a response with status 404, one of the
// class InvalidInput 400, and any other one 500. The client gets the error's text.
//
// Streams of commands, attachments and ports are served by k8s.io/cri-streaming, as kubelet's
// are: SPDY, and WebSockets. The context of a function ends when its client is gone.
//
// Handlers read namespace, pod and container from the wildcards of an http.ServeMux. With other
// routers, they read them from the end of the path.
package api
