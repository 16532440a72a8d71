// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view tests the page of dray view in a real Chromium, as people meet it: by roles and names, with the keyboard, in
// both themes, with hostile names, on a cluster that changes, and with 5,000 nodes.
//
// The program under test is the one in bin. DRAY_SCREENSHOTS names a folder for pictures of the main views.
package view
