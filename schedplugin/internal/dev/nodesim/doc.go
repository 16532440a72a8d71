// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodesim plays the kubelets of nodes that exist only as API objects: it starts
// the pods that are bound to a node, and lets go of those that are to end.
//
// Like a kubelet, it starts a pod only while its node exists, and when each of its claims is
// allocated and reserved for it. Nothing runs: a started pod has the phase Running until somebody deletes it.
package nodesim
