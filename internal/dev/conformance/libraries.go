// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// modules are Dray's that each part may need, by their folder in the checkout.
var modules = map[string]string{
	"github.com/dray-project/dray":       "",
	"github.com/dray-project/dray/agent": "agent",
}

// modules are Dray's that the part may need.
func (p Part) modules() map[string]string {
	needed := maps.Clone(modules)
	if p.module != "" {
		needed["github.com/dray-project/dray/"+p.module] = p.module
	}
	return needed
}

// requireDray returns what is changed of go.mod.
func requireDray(ctx context.Context, part Part, dray, folder string, swap bool) ([]string, error) {
	if part.Program.older {
		if !swap {
			return nil, nil
		}
		agent := folder + "-agent"
		return []string{"-require=" + agentModule + "@v0.0.0", "-replace=" + agentModule + "=" + agent}, LayOutOlder(ctx, dray, agent)
	}
	edits, err := dropVersions(ctx, folder)
	if err != nil {
		return nil, err
	}
	needed := part.modules()
	for module, below := range needed {
		required, err := requirements(ctx, filepath.Join(dray, below))
		if err != nil {
			return nil, err
		}
		for _, r := range required {
			if _, ours := needed[r.Path]; !ours {
				edits = append(edits, "-require="+r.Path+"@"+r.Version)
			}
		}
		if swap {
			edits = append(edits, "-require="+module+"@v0.0.0", "-replace="+module+"="+filepath.Join(dray, below))
		}
	}
	return edits, nil
}

// dropVersions returns the edits of go.mod by which libraries of Kubernetes have the versions that are required. Some
// programs replace each by an older version of itself.
func dropVersions(ctx context.Context, folder string) ([]string, error) {
	file, err := readGoMod(ctx, folder)
	if err != nil {
		return nil, err
	}
	var edits []string
	for _, r := range file.Replace {
		if r.Old == (requirement{Path: r.New.Path}) && strings.HasPrefix(r.Old.Path, "k8s.io/") {
			edits = append(edits, "-dropreplace="+r.Old.Path)
		}
	}
	return edits, nil
}

// requirements are those of the module in a folder that are libraries of Kubernetes. Of one module that two of Dray's
// require, the go command takes the later version.
func requirements(ctx context.Context, folder string) ([]requirement, error) {
	file, err := readGoMod(ctx, folder)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(file.Require, func(r requirement) bool { return !strings.HasPrefix(r.Path, "k8s.io/") || r.Path == "k8s.io/utils" }), nil
}

type requirement struct{ Path, Version string }

// goMod is what is read of a go.mod.
type goMod struct {
	Require []requirement
	Replace []struct{ Old, New requirement }
}

func readGoMod(ctx context.Context, folder string) (file goMod, err error) {
	text, err := command(ctx, folder, "go", "mod", "edit", "-json")
	if err != nil {
		return goMod{}, err
	}
	return file, json.Unmarshal([]byte(text), &file)
}
