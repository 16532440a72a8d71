// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// room is a folder with everything below it that has no room of its own.
type room struct {
	folder  string
	imports []string // folders of ours that its code may import besides its own
}

// library is what people link.
var library = []string{"allocator", "allocator/explain", "allocator/extension", "pools", "cel", "internal/amount", "internal/quantity"}

// index is what pools shows and the allocator works on. Users do not see it.
var index = []string{"internal/index/shape", "internal/index/pool", "internal/index/cluster"}

// remembering is what keys of what is remembered are written with.
var remembering = []string{"internal/reads", "internal/keys", "internal/memo"}

// workloads is what turns pods into claims and places, for those who place pods.
var workloads = []string{"podclaims", "nodefit"}

// proof is what only tests, measurements and development run.
var proof = []string{"internal/dev/oracle", "internal/dev/clustergen", "internal/dev/differential", "internal/dev/peer", "internal/dev/mutate", "benchmarks"}

// arena is where tests and demonstrations of the nested modules get a real cluster from.
var arena = []string{
	"internal/dev/controlplane", "internal/dev/fakeapi", "internal/dev/faults", "internal/dev/install", "internal/dev/invariant", "internal/dev/kubeletscript", "internal/dev/kubelet",
}

// plugin is what the scheduler's plugin is put together from.
var plugin = []string{
	"schedplugin/config", "schedplugin/internal/shared", "schedplugin/internal/metrics", "schedplugin/internal/claimstate", "schedplugin/internal/model",
	"schedplugin/internal/foreign", "schedplugin/internal/nodeallocatable", "schedplugin/internal/refusal", "schedplugin/internal/scoring",
	"schedplugin/internal/binding", "schedplugin/internal/wake", "schedplugin/internal/preempt", "schedplugin/internal/podgroup",
}

// edges are where Dray meets the world: a cluster, a clock, chance, an
// environment, a log. Everything further in gets these handed in.
var edges = slices.Concat([]string{"cmd", "schedplugin", "agent", "internal/dev/conformance"}, arena)

// developing is what proof may import.
var developing = slices.Concat(proof, library, []string{"allocator/structured", "alloctest"})

// rooms is the direction of imports. Code outside all rooms is an offence, so
// that a new folder has to find its place here first.
var rooms = []room{
	{folder: "internal/amount"},
	{folder: "internal/manual"},
	{folder: "internal/quantity", imports: []string{"internal/amount"}},
	{folder: "internal/dev/houserules"},
	{folder: "internal/index/persist"},
	{folder: "internal/index/shape", imports: []string{"internal/amount", "internal/quantity"}},
	{folder: "internal/index/pool", imports: []string{"internal/index/shape", "internal/index/persist", "internal/amount", "internal/quantity"}},
	{folder: "internal/index/cluster", imports: []string{
		"internal/index/pool", "internal/index/shape", "internal/index/persist", "internal/amount", "internal/quantity",
	}},
	{folder: "internal/index/lineage", imports: []string{"internal/index/cluster", "internal/index/pool"}},
	{folder: "internal/reads"},
	{folder: "internal/keys", imports: []string{"internal/reads", "internal/memo", "internal/index/shape", "internal/index/pool", "internal/quantity"}},
	{folder: "pools", imports: slices.Concat(index, []string{"internal/index/lineage", "internal/amount", "internal/quantity"})},
	{folder: "cel", imports: []string{"internal/amount"}},
	{folder: "allocator/internal/slab"},
	{folder: "internal/memo", imports: []string{"internal/amount"}},
	{folder: "allocator/internal/solver", imports: []string{"internal/memo", "allocator/internal/slab", "internal/amount"}},
	{folder: "allocator/internal/eligibility", imports: slices.Concat(index, []string{
		"allocator/explain", "internal/keys", "internal/memo", "internal/reads", "allocator/internal/slab", "cel", "internal/amount", "internal/quantity",
	})},
	{folder: "allocator/extension"},
	{folder: "allocator/internal/claims", imports: slices.Concat(index, []string{
		"allocator/explain", "allocator/extension", "allocator/internal/eligibility", "internal/keys", "internal/memo", "internal/reads", "allocator/internal/solver",
		"internal/amount", "internal/quantity",
	})},
	{folder: "allocator/internal/model", imports: slices.Concat(index, []string{
		"allocator/internal/claims", "allocator/internal/eligibility", "internal/keys", "internal/memo", "allocator/internal/slab", "allocator/internal/solver",
		"internal/amount", "internal/quantity",
	})},
	{folder: "allocator/internal/alike", imports: slices.Concat(index, []string{
		"allocator/internal/claims", "allocator/internal/eligibility", "internal/keys", "internal/memo", "allocator/internal/model",
		"internal/quantity",
	})},
	{folder: "allocator/explain", imports: []string{"pools"}},
	{folder: "allocator/internal/diagnose", imports: []string{
		"allocator/explain", "allocator/internal/claims", "allocator/internal/model", "allocator/internal/solver", "pools",
	}},
	{folder: "allocator", imports: slices.Concat(library, index, []string{
		"allocator/internal/alike", "allocator/internal/claims", "allocator/internal/diagnose", "allocator/internal/eligibility",
		"allocator/internal/model", "allocator/internal/solver", "internal/memo",
	})},
	{folder: "allocator/charge", imports: slices.Concat(library, index, []string{
		"allocator/internal/claims", "allocator/internal/eligibility", "allocator/internal/slab", "internal/memo", "podclaims",
	})},
	{folder: "allocator/structured", imports: slices.Concat(library, index)},
	{folder: "allocator/structured/listers", imports: slices.Concat(library, []string{"allocator/structured"})},
	{folder: "alloctest", imports: []string{"allocator", "allocator/explain", "allocator/extension"}},
	{folder: "podclaims", imports: []string{"internal/index/persist"}},
	{folder: "nodefit"},
	{folder: "internal/narrow", imports: []string{"allocator/extension", "internal/index/shape"}},
	{folder: "gang", imports: []string{"allocator", "allocator/extension", "pools", "internal/narrow", "internal/index/pool", "internal/index/cluster"}},
	{folder: "simulate/internal/subsets"},
	{folder: "simulate/internal/ranking"},
	{folder: "simulate/internal/amounts", imports: []string{"nodefit"}},
	{folder: "simulate/internal/table"},
	{folder: "simulate/internal/lists", imports: []string{"internal/index/persist"}},
	{folder: "simulate/internal/onenode", imports: slices.Concat(library, index, remembering)},
	{folder: "simulate", imports: slices.Concat(library, workloads, remembering, []string{
		"gang", "internal/index/shape", "internal/narrow", "simulate/internal/amounts", "simulate/internal/onenode", "simulate/internal/ranking",
		"simulate/internal/lists", "simulate/internal/subsets", "simulate/internal/table",
	})},
	{folder: "simulate/when", imports: []string{"simulate"}},
	{folder: "simulate/mix", imports: []string{"simulate"}},
	{folder: "simulate/moves", imports: slices.Concat(library, workloads, []string{"simulate", "simulate/internal/subsets"})},
	{folder: "devmgmt", imports: []string{"cel", "allocator/extension"}},
	{folder: "internal/dev/conformance", imports: []string{"internal/dev/controlplane"}},
	{folder: "internal/dev/fieldchange", imports: []string{"internal/reads"}},
	{folder: "internal/dev/fieldworld", imports: []string{"internal/dev/fieldchange", "internal/keys", "internal/reads"}},
	{folder: "internal/dev/given"},
	{folder: "internal/dev/outdated"},
	{folder: "internal/dev/reference"},
	{folder: "internal/dev/typed"},
	{folder: "internal/dev/layers", imports: []string{"internal/dev/typed"}},
	{folder: "internal/dev/mutate", imports: []string{"internal/dev/typed"}},
	{folder: "internal/dev/publicapi", imports: []string{"internal/dev/typed"}},
	{folder: "internal/dev/kubeletscript"},
	{folder: "internal/dev/view", imports: []string{"internal/dev/controlplane"}},
	{folder: "internal/dev/kubelet", imports: []string{"internal/dev/controlplane", "internal/dev/install", "internal/dev/kubeletscript"}},
	{folder: "internal/dev/controlplane"},
	{folder: "internal/dev/fakeapi"},
	{folder: "internal/dev/faults"},
	{folder: "internal/dev/install", imports: []string{"internal/dev/controlplane"}},
	{folder: "internal/dev/invariant"},
	{folder: "schedplugin/config", imports: library},
	{folder: "schedplugin/internal/shared"},
	{folder: "schedplugin/internal/metrics", imports: library},
	{folder: "schedplugin/internal/claimstate", imports: workloads},
	{folder: "schedplugin/internal/model", imports: []string{"pools", "schedplugin/internal/shared"}},
	{folder: "schedplugin/internal/foreign", imports: []string{"schedplugin/internal/shared"}},
	{folder: "schedplugin/internal/nodeallocatable", imports: []string{"pools"}},
	{folder: "schedplugin/internal/refusal", imports: slices.Concat(library, []string{
		"schedplugin/config", "schedplugin/internal/metrics", "schedplugin/internal/shared",
	})},
	{folder: "schedplugin/internal/scoring", imports: slices.Concat(library, []string{"schedplugin/internal/claimstate", "schedplugin/internal/model"})},
	{folder: "schedplugin/internal/binding", imports: []string{
		"schedplugin/internal/claimstate", "schedplugin/internal/foreign", "schedplugin/internal/metrics", "schedplugin/internal/model",
	}},
	{folder: "schedplugin/internal/wake", imports: []string{"allocator/extension", "schedplugin/internal/claimstate", "schedplugin/internal/refusal"}},
	{folder: "schedplugin/internal/preempt", imports: slices.Concat(library, []string{
		"schedplugin/config", "schedplugin/internal/claimstate", "schedplugin/internal/model",
	})},
	{folder: "schedplugin/internal/podgroup", imports: slices.Concat(library, workloads, []string{
		"gang", "schedplugin/internal/claimstate", "schedplugin/internal/metrics", "schedplugin/internal/preempt", "schedplugin/internal/refusal",
	})},
	{folder: "schedplugin", imports: slices.Concat(library, workloads, plugin)},
	{folder: "schedplugin/autoscaler", imports: slices.Concat(workloads, []string{"schedplugin", "schedplugin/config"})},
	{folder: "schedplugin/cmd", imports: []string{"schedplugin", "schedplugin/internal/claimstate", "internal/manual"}},
	{folder: "schedplugin/deploy"},
	{folder: "schedplugin/e2e"},
	{folder: "schedplugin/internal/dev", imports: slices.Concat(arena, []string{"schedplugin"})},
	{folder: "agent/cdi"},
	{folder: "agent/internal/checkpoint"},
	{folder: "agent/internal/fakecluster"},
	{folder: "agent/internal/downward"},
	{folder: "agent/internal/expansion"},
	{folder: "agent/internal/demo", imports: []string{"internal/dev/controlplane"}},
	{folder: "agent/internal/fakedriver", imports: []string{"agent/internal/sockets"}},
	{folder: "agent/internal/fakekubelet"},
	{folder: "agent/internal/numa"},
	{folder: "agent/internal/sockets"},
	{folder: "agent/internal/yamlfile"},
	{folder: "agent/node", imports: []string{"agent/internal/downward", "agent/internal/expansion"}},
	{folder: "agent/provider/simulated/fleet", imports: []string{
		"agent/provider", "agent/node", "agent/claims", "agent/inventory", "agent/resourceslice", "agent/draplugin",
	}},
	{folder: "agent/provider", imports: []string{"agent/node", "agent/internal/checkpoint", "agent/internal/downward", "agent/internal/expansion"}},
	{folder: "agent/podresources"},
	{folder: "agent/kubeletapi", imports: []string{"agent/node"}},
	{folder: "agent/resourceslice"},
	{folder: "agent/kubeletplugin", imports: []string{"agent/resourceslice"}},
	{folder: "agent/deviceplugin", imports: []string{"agent/cdi", "agent/internal/numa", "agent/internal/sockets"}},
	{folder: "agent/inventory", imports: []string{"agent/internal/checkpoint", "agent/internal/yamlfile", "agent/resourceslice"}},
	{folder: "agent/claims", imports: []string{"agent/internal/checkpoint"}},
	{folder: "agent/virtualnode", imports: []string{"agent/claims", "agent/node"}},
	{folder: "agent/devicetree", imports: []string{"agent/inventory", "agent/deviceplugin", "agent/cdi"}},
	{folder: "agent/sysfs", imports: []string{"agent/inventory", "agent/internal/numa"}},
	{folder: "agent/draplugin", imports: []string{
		"agent/inventory", "agent/resourceslice", "agent/cdi", "agent/internal/checkpoint", "agent/internal/sockets",
	}},
	{folder: "agent/nodedriver", imports: []string{
		"agent/internal/checkpoint", "agent/internal/sockets", "agent/inventory", "agent/resourceslice", "agent/deviceplugin", "agent/devicetree", "agent/draplugin", "agent/podresources",
	}},
	{folder: "agent/deploy"},
	{folder: "agent/cmd/node-scale", imports: []string{"agent/internal/demo", "internal/dev/controlplane"}},
	{folder: "agent/cmd", imports: []string{
		"agent/internal/checkpoint", "agent/internal/demo", "agent/claims", "agent/node", "agent/provider", "agent/provider/simulated/fleet", "agent/virtualnode", "agent/inventory",
		"agent/sysfs", "agent/resourceslice", "agent/draplugin", "agent/nodedriver", "agent/kubeletapi", "internal/manual",
	}},
	{folder: "cmd", imports: slices.Concat(library, workloads, []string{"gang", "simulate", "simulate/when", "simulate/moves", "simulate/mix", "devmgmt", "internal/manual"})},
	{folder: "tools"},
	{folder: "internal/dev/oracle", imports: developing},
	{folder: "internal/dev/clustergen", imports: developing},
	{folder: "internal/dev/differential", imports: developing},
	{folder: "internal/dev/peer", imports: developing},
	{folder: "benchmarks", imports: slices.Concat(developing, workloads, []string{"allocator/charge", "simulate", "simulate/mix", "simulate/moves", "simulate/when"})},
}

// reservation keeps a foreign package to some folders.
type reservation struct {
	path    string
	folders []string
	tests   bool // tests of any folder may import it
}

func (r reservation) allows(f *File) bool { return allows(r.folders, f) || r.tests && f.IsTest() }

var reservations = []reservation{
	{path: "k8s.io/kubernetes", folders: []string{"schedplugin", "internal/dev/kubelet"}},
	{path: "k8s.io/dynamic-resource-allocation", folders: slices.Concat([]string{"allocator/structured"}, edges, proof), tests: true},
	// The old form of upstream's API has listers of client-go in its signatures.
	{path: "k8s.io/client-go", folders: slices.Concat([]string{"allocator/structured/listers"}, edges), tests: true},
	{path: "k8s.io/klog", folders: edges, tests: true},
	{path: "math/rand", folders: slices.Concat(proof, edges), tests: true},
	{path: "crypto/rand", folders: slices.Concat([]string{"tools/release"}, edges), tests: true},
	// Upstream's package draws its ShareIDs, and so does its replacement.
	{path: "github.com/google/uuid", folders: slices.Concat([]string{"allocator/structured"}, edges), tests: true},
	{path: "k8s.io/apimachinery/pkg/util/uuid", folders: slices.Concat([]string{"allocator/structured"}, edges), tests: true},
}

// withoutKubernetes know numbers only.
var withoutKubernetes = []string{"allocator/internal/solver", "allocator/internal/slab", "internal/memo", "internal/amount"}

// edgeCalls read the clock or the environment.
var edgeCalls = map[string][]string{
	"time": {"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"},
	"os":   {"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
}

var checkImports = perFile(func(f *File) []Offence {
	var offences []Offence
	for _, spec := range f.Syntax.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		if text := importOffence(f, target); text != "" {
			offences = append(offences, Offence{f.Path, f.line(spec), text})
		}
	}
	return append(offences, edgeCallOffences(f)...)
})

func importOffence(f *File, target string) string {
	if folder, ours := strings.CutPrefix(target, Module+"/"); ours {
		return ownImportOffence(f, folder)
	}
	if allows(withoutKubernetes, f) && !f.IsTest() && (within(target, "k8s.io") || within(target, "sigs.k8s.io")) {
		return "this folder does without Kubernetes"
	}
	for _, r := range reservations {
		if within(target, r.path) && !r.allows(f) {
			return fmt.Sprintf("only %s may import %s", strings.Join(r.folders, ", "), r.path)
		}
	}
	return ""
}

// ownImportOffence lets tests import what they like: they are nobody's
// dependency.
func ownImportOffence(f *File, target string) string {
	from := roomOf(f.Folder())
	switch {
	case f.IsTest():
		return ""
	case from == nil:
		return "its folder has no place in the direction of imports"
	case roomOf(target) == nil:
		return fmt.Sprintf("%s has no place in the direction of imports", target)
	case roomOf(target) == from || slices.Contains(from.imports, roomOf(target).folder):
		return ""
	}
	return fmt.Sprintf("%s must not import %s", from.folder, target)
}

// roomOf is the innermost room around folder.
func roomOf(folder string) *room {
	var found *room
	for i, r := range rooms {
		if within(folder, r.folder) && (found == nil || len(r.folder) > len(found.folder)) {
			found = &rooms[i]
		}
	}
	return found
}

func allows(folders []string, f *File) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return within(f.Folder(), folder) })
}

func edgeCallOffences(f *File) []Offence {
	if f.IsTest() || allows(edges, f) || allows(proof, f) {
		return nil
	}
	var offences []Offence
	packages := packageNames(f)
	ast.Inspect(f.Syntax, func(node ast.Node) bool {
		target, name := qualified(node, packages)
		if slices.Contains(edgeCalls[target], name) {
			offences = append(offences, Offence{f.Path, f.line(node), fmt.Sprintf("only %s may use %s.%s", strings.Join(edges, ", "), target, name)})
		}
		return true
	})
	return offences
}

// qualified splits package.Name into the package's import path and the name.
func qualified(node ast.Node, packages map[string]string) (target, name string) {
	selector, ok := node.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	qualifier, ok := selector.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return packages[qualifier.Name], selector.Sel.Name
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// packageNames are the names by which a file knows the packages it imports.
func packageNames(f *File) map[string]string {
	names := make(map[string]string)
	for _, spec := range f.Syntax.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(target)
		if majorVersion.MatchString(name) {
			name = path.Base(path.Dir(target))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = target
	}
	return names
}
