// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import "path/filepath"

// driverImports are what a DRA driver changes.
var driverImports = map[string]string{
	"k8s.io/dynamic-resource-allocation/kubeletplugin": "github.com/dray-project/dray/agent/kubeletplugin",
	"k8s.io/dynamic-resource-allocation/resourceslice": "github.com/dray-project/dray/agent/resourceslice",
}

// programs are the parts that build a program of others. Of most a checkout is needed.
var programs = append(nodes,
	driver("kubernetes-sigs/dra-example-driver", "31914ceacda29bbc55208ef75e68c0991e1c9568", "./cmd/...", "./internal/...", "./pkg/..."),
	driver("kubernetes-sigs/dranet", "f258477cbea0551b7ad239e3873a997a7a3d116b", "./cmd/...", "./pkg/..."),
	olderDriver(driver("kubernetes-sigs/dra-example-driver", "31914ceacda29bbc55208ef75e68c0991e1c9568", "./cmd/...", "./internal/...", "./pkg/...")),
	driver("intel/intel-resource-drivers-for-kubernetes", "1da939faa33a90dd641d0327cdcdcbbfaa1acdb4", "./cmd/...", "./pkg/..."),
	olderDriver(driver("intel/intel-resource-drivers-for-kubernetes", "1da939faa33a90dd641d0327cdcdcbbfaa1acdb4", "./cmd/...", "./pkg/...")),
	driver("kubernetes-sigs/dra-driver-nvidia-gpu", "95932046683719c43b6a0dd9613c2e5aad5d6703", "./cmd/...", "./pkg/..."),
	olderDriver(driver("kubernetes-sigs/dra-driver-nvidia-gpu", "95932046683719c43b6a0dd9613c2e5aad5d6703", "./cmd/...", "./pkg/...")),
	Part{
		Name:        "deviceplugin/intel-device-plugins-for-kubernetes",
		About:       "the plugins' own tests, with deviceplugin of the agent",
		Counterpart: "github.com/intel/intel-device-plugins-for-kubernetes",
		Program: &Program{
			Repository: "https://github.com/intel/intel-device-plugins-for-kubernetes",
			Commit:     "94a91bc94134b80448b8f1370ee5f240a6e69c0b",
			Packages:   []string{"./cmd/...", "./pkg/idxd/...", "./pkg/vfio/..."},
			Imports:    devicePluginImports,
		},
	},
	autoscaler,
	autoscalerLoop,
)

// devicePluginImports are what one of Intel's device plugins changes.
var devicePluginImports = map[string]string{
	"github.com/intel/intel-device-plugins-for-kubernetes/pkg/deviceplugin": "github.com/dray-project/dray/agent/deviceplugin",
}

func driver(repository, commit string, packages ...string) Part {
	return Part{
		Name:        "drivers/" + filepath.Base(repository),
		About:       "the driver's own tests, with kubeletplugin and resourceslice of the agent",
		Counterpart: "github.com/" + repository,
		Program:     &Program{Repository: "https://github.com/" + repository, Commit: commit, Packages: packages, Imports: driverImports},
	}
}

// olderDriver is a driver with its own libraries, of Kubernetes 1.36.
func olderDriver(part Part) Part {
	part.Name += "/1.36"
	part.About += ", laid out for the libraries of Kubernetes 1.36, which the driver keeps"
	part.Program.older = true
	return part
}
