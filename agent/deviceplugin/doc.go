// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deviceplugin serves devices to kubelet through the device plugin API v1beta1. A driver
// implements Scanner; the package does the rest: sockets, registration, ListAndWatch, Allocate, CDI
// files, and registration again after kubelet restarts.
//
// It has the names and signatures of the package of the same name in Intel's
// device plugins for Kubernetes. Changing the import path is the whole
// migration.
//
//	            Notify(DeviceTree)
//	Scanner ──────────────────────► difference to the tree before
//	                                   │ type by type
//	                 added ┌───────────┼───────────┐ removed
//	                       ▼           ▼ updated   ▼
//	                  new server   latest state   server ends,
//	                       │       is replaced    socket is removed
//	                       ▼           │
//	  <namespace>-<type>.sock          ▼
//	     registration ─► kubelet ◄─ ListAndWatch, Allocate, …
//	                                   │
//	                     CDI files ◄───┘ agent/cdi
//
// # What kubelet is told
//
// A stream of ListAndWatch carries all devices first, and all devices again after each change. If
// kubelet is slow or not running, it skips intermediate states and gets the latest one. Updates
// neither block nor queue up.
//
// # When kubelet restarts
//
// When kubelet starts, it removes all sockets and knows no plugin. A server notices because its
// connection to kubelet ends, which it keeps open after registration, or because its socket is
// gone. It makes a new socket if necessary, and registers again.
//
// # Flags
//
// Importing this package registers klog's flags in flag.CommandLine, as
// importing Intel's does. A program that imports it must not call
// klog.InitFlags(nil).
//
// # Files by concept
//
// run.go applies trees, server.go keeps a type registered, registration.go
// and socket.go are the two connections with kubelet, service.go answers its
// calls, specs.go has the CDI files, device.go and api.go what drivers see.
package deviceplugin
