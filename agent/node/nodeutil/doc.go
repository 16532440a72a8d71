// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeutil assembles a node: its controllers, their informers, and the HTTPS server
// that the API server asks for logs and streams.
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
// Nothing is served without a TLS config and a handler. The handler is the caller's, with
// authentication and authorization in it: WithAuth(auth, mux), with auth from WebhookAuth, and
// AttachProviderRoutes(mux) for what the provider answers.
//
// The files: node.go is a Node that runs, config.go what NewNode is given, provider.go what a
// provider implements, auth.go who is answered, tls.go certificates, client.go
// what clients and informers are made of.
package nodeutil
