// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Renderer is the path of the program that `make install-manifests` builds. It renders what a
// folder of Kustomize or a chart of Helm says.
type Renderer string

// Text is what the renderer prints. An error has what it complains about.
func (r Renderer) Text(ctx context.Context, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, string(r), arguments...)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	text, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("render %v: %w: %s; run make install-manifests first", arguments, err, &complaint)
	}
	return text, nil
}

// Objects are what the renderer prints.
func (r Renderer) Objects(ctx context.Context, arguments ...string) ([]*unstructured.Unstructured, error) {
	text, err := r.Text(ctx, arguments...)
	if err != nil {
		return nil, err
	}
	objects, err := Decode(text)
	if err != nil {
		return nil, fmt.Errorf("render %v: %w", arguments, err)
	}
	return objects, nil
}

// Match is the first group of the first match of an expression in a file, of which ^ and $ match
// at lines.
func Match(path, expression string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	compiled, err := regexp.Compile(`(?m)` + expression)
	if err != nil {
		return "", err
	}
	found := compiled.FindSubmatch(text)
	if len(found) < 2 {
		return "", fmt.Errorf("%s has no %s", path, expression)
	}
	return string(found[1]), nil
}
