// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install is for tests of what installs a program in a cluster: of its manifests on a
// real API server, and of its permissions.
//
//	Renderer ─► objects ─► Applier ─► API server
//	                                      ▲
//	program with the objects' account ──► Recorder ─► Needed ─┐
//	                              rules of its roles ─► Granted ┴► Compare
//
// Errors are returned as they come; nothing is logged. An Applier is for one goroutine, a
// Recorder for any number.
package install
