// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// The command render prints the manifests of dray-scheduler, and which metrics the alerts and
// the dashboard of a folder read:
//
//	render kustomize FOLDER
//	render helm CHART [VALUES]
//	render queries FOLDER
package main

import (
	"fmt"
	"os"
)

func main() {
	text, err := render(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "render: %v\n", err)
		os.Exit(1)
	}
	fmt.Print(text)
}

// render is what the arguments ask for, as YAML documents or as JSON.
func render(arguments []string) (string, error) {
	switch {
	case len(arguments) == 2 && arguments[0] == "kustomize":
		return kustomize(arguments[1])
	case len(arguments) == 2 && arguments[0] == "helm":
		return helm(arguments[1], "")
	case len(arguments) == 3 && arguments[0] == "helm":
		return helm(arguments[1], arguments[2])
	case len(arguments) == 2 && arguments[0] == "queries":
		return queries(arguments[1])
	}
	return "", fmt.Errorf("arguments %q: want kustomize FOLDER, helm CHART [VALUES], or queries FOLDER", arguments)
}
