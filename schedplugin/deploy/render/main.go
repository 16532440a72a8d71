// The command render prints the manifests of dray-scheduler:
//
//	render kustomize FOLDER
//	render helm CHART [VALUES]
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

// render is what the arguments ask for, as YAML documents.
func render(arguments []string) (string, error) {
	switch {
	case len(arguments) == 2 && arguments[0] == "kustomize":
		return kustomize(arguments[1])
	case len(arguments) == 2 && arguments[0] == "helm":
		return helm(arguments[1], "")
	case len(arguments) == 3 && arguments[0] == "helm":
		return helm(arguments[1], arguments[2])
	}
	return "", fmt.Errorf("arguments %q: want kustomize FOLDER, or helm CHART [VALUES]", arguments)
}
