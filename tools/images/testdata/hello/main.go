// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command hello is what images are made of in tests.
package main

import "os"

var version = "none"

func main() {
	_, _ = os.Stdout.WriteString("hello " + version + "\n")
}
