// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command house prints the rooms of the repository: packages with their files, lines and what they
// import of each other, without tests.
package main

import (
	"fmt"
	"os"

	"github.com/dray-project/dray/internal/dev/houserules"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	repository, err := houserules.Load(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	repository.PrintRooms(os.Stdout)
}
