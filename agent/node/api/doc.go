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
// Handlers answer whoever asks: authentication and authorization are put in front, by
// nodeutil.WithAuth or in another way. What a program does not offer, a nil function, is
// answered with 501.
//
// An error of the class NotFound of package errdefs is answered with 404, one of the class
// InvalidInput with 400, any other one with 500, and the text goes to the client.
//
// Streams of commands, attachments and ports are served by k8s.io/cri-streaming, as kubelet's
// are: SPDY, and WebSockets. The context of a function ends when its client is gone.
//
// Handlers of a namespace, a pod and a container read these from the wildcards of an
// http.ServeMux, and with other routers from the end of the path.
package api
