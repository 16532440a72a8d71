// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeutil assembles a node: its controllers, their informers, and the HTTPS server from
// which the API server gets logs and streams.
//
// It offers the names, signatures and meaning of virtual-kubelet's package of this name, so
// that a program changes an import path and nothing else.
//
//	NewNode(name, newProvider, options…) ─► Node.Run ─┬─ NodeController
//	                                                  ├─ PodController ─► Provider
//	                                                  └─ HTTPS ─ WithAuth ─ api.PodHandler ─► Provider
//
// # Contract
//
// Nothing is served without a TLS configuration and a handler. The caller makes the handler, and
// has it check access: WithAuth(auth, mux), with auth from WebhookAuth. AttachProviderRoutes(mux)
// adds the requests that the provider serves.
//
// The files: node.go runs a Node, config.go has its configuration, provider.go the provider's
// interface, auth.go access, tls.go certificates, client.go clients and filters of informers.
package nodeutil
