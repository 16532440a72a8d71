// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

func TestUsage(t *testing.T) {
	atRepository(t)
	for command, want := range map[string]struct {
		status int
		text   string
	}{
		"dray":                            {cli.ExitOK, "Usage:\n  dray [command]"},
		"dray --help":                     {cli.ExitOK, "dray explain trainer-0 -n ml"},
		"dray allocate --help":            {cli.ExitOK, "Exit status:\n  0  everything is placed"},
		"dray explain --help":             {cli.ExitOK, "Usage:\n  dray explain [POD|claim/NAME|podgroup/NAME|KIND/NAME]... | node/NAME [flags]"},
		"dray devices -h":                 {cli.ExitOK, "dray devices --node gpu-worker-1 -o wide"},
		"kubectl-dray":                    {cli.ExitOK, "Usage:\n  kubectl dray [command]"},
		"/opt/bin/kubectl-dray --help":    {cli.ExitOK, "kubectl dray allocate -f cluster/"},
		"kubectl-dray explain --help":     {cli.ExitOK, "Usage:\n  kubectl dray explain [POD|claim/NAME|podgroup/NAME|KIND/NAME]... | node/NAME [flags]"},
		"kubectl-dray.exe devices --help": {cli.ExitOK, "kubectl dray devices -f cluster/"},
		"dray version":                    {cli.ExitOK, "dray "},
		"dray completion bash":            {cli.ExitOK, "__start_dray"},
		"dray completion":                 {cli.ExitOK, "bash        Generate"},
		"dray help simulate plan":         {cli.ExitOK, "dray simulate plan --like NODE"},
		"kubectl-dray help allocate":      {cli.ExitOK, "kubectl dray allocate [flags]"},
		"dray __complete allocate -o ":    {cli.ExitOK, "wide\njson\nyaml\nname\n"},
		"dray __complete devices -o ":     {cli.ExitOK, "wide\njson\nyaml\nname\n"},
		"dray alocate":                    {cli.ExitError, `unknown command "alocate"`},
		"dray allocate extra":             {cli.ExitError, `error: dray allocate has no arguments, got "extra": files are given with -f`},
		"dray devices -f examples/gpu-nic-pcie --free --driver=nic.example.com": {cli.ExitOK, "pool"},
		"dray devices -f examples/gpu-nic-pcie nic.example.com/hgx-1":           {cli.ExitOK, "pool nic.example.com/hgx-1"},
		"dray allocate --nodes n1":        {cli.ExitError, "unknown flag: --nodes"},
		"dray devices -f /proc/self/mem":  {cli.ExitError, "/proc/self/mem: input/output error"}, // it can be opened
		"dray allocate -f no/such/folder": {cli.ExitError, "error: no/such/folder: no such file or directory"},
		"dray allocate -o table -f -":     {cli.ExitError, "--output table: want one of wide, json, yaml, name, jsonpath=TEMPLATE"},
		"dray explain x -o jsonpath -f -": {cli.ExitError, "--output jsonpath: jsonpath=... needs an argument"},
		"dray devices -o text -f -":       {cli.ExitError, "--output text: want one of wide, json, yaml"},
		"dray devices --node worker -f examples/single-gpu": {
			cli.ExitError, "--node worker: there is no such node: did you mean worker-1 or worker-2?",
		},
		"dray devices --validate=yes -f -": {cli.ExitError, "--validate yes: want strict, warn or ignore"},
		"dray allocate -f examples/single-gpu --device-policy=BestFit": {
			cli.ExitError, `--device-policy: device policy "BestFit" is not known: want FirstFit, LeastWaste, Pack or Spread`,
		},
		"dray simulate fits -f examples/single-gpu --topology=numa": {cli.ExitError, `--topology: attribute "numa": want domain/name`},
		"dray options":                        {cli.ExitOK, "--as string"},
		"dray allocate -o custom-columns=A":   {cli.ExitError, `"A": want HEADER:PATH`},
		"dray allocate -o custom-columns=:.a": {cli.ExitError, `":.a": want HEADER:PATH`},
		"dray allocate -o custom-columns=A:":  {cli.ExitError, `"A:": want HEADER:PATH`},
		"dray allocate -o jsonpath={.a":       {cli.ExitError, "--output: unclosed action"},
		"dray devices -f -":                   {cli.ExitError, "stdin: no Kubernetes objects"},
		"dray devices --kubeconfig no.cfg":    {cli.ExitError, "no.cfg"},
		"dray devices -f - --feature-gates=DRATeleport=true": {
			cli.ExitError, "unrecognized feature gate: DRATeleport",
		},
		"dray allocate -f - --feature-gates=DRAPrioritizedList=maybe": {
			cli.ExitError, "error: --feature-gates DRAPrioritizedList=maybe: invalid value of DRAPrioritizedList=maybe\n",
		},
	} {
		answers(t, command, want.status, want.text)
	}
}

func answers(t *testing.T, command string, status int, text string) {
	t.Helper()
	output, got := runStatus("", strings.Split(command, " ")...)
	if got != status || !strings.Contains(output, text) {
		t.Errorf("%s: exit status %d, want %d; want %q in:\n%s", command, got, status, text, output)
	}
}

// Errors about flags and arguments name them.
func TestWrongUsage(t *testing.T) {
	atRepository(t)
	for command, want := range map[string]string{
		"kubectl-dray version extra":                                  `error: kubectl dray version has no arguments, got "extra"`,
		"dray help alocate":                                           `error: unknown command "alocate" for "dray"`,
		"dray completion sh":                                          `error: unknown command "sh" for "dray completion"`,
		"dray simulate fit":                                           `unknown command "fit" for "dray simulate"`,
		"dray simulate drain":                                         "error: dray simulate drain: NODE is missing",
		"dray simulate victims":                                       "error: dray simulate victims: POD is missing",
		"dray simulate victims a b":                                   "error: dray simulate victims has one POD, got a b",
		"dray allocate --timeout=long":                                "error: --timeout long: want a duration, as in 30s or 1m30s\n",
		"dray allocate --budget=much":                                 "error: --budget much: want a whole number\n",
		"dray allocate --budget=" + strings.Repeat("9", 20):           "99: want a smaller number\n",
		"dray allocate --budget=-1":                                   "error: --budget -1: want 0 or more\n",
		"dray allocate --all-features=perhaps":                        "error: --all-features perhaps: want true or false\n",
		"dray simulate what-if --add=a":                               "error: --add a: want NODE=COUNT,...\n",
		"dray simulate plan --most=-1":                                "error: --most -1: want 0 or more\n",
		"dray simulate victims a --nodes=0":                           "error: --nodes 0: want 1 or more\n",
		"dray devices --filename=":                                    "error: --filename: empty: want a file, a folder or -\n",
		"dray devices --filename examples/single-gpu,":                "error: --filename: empty: want a file, a folder or -\n",
		"dray devices -f examples/single-gpu --kustomize=":            "error: --kustomize: empty: want a folder\n",
		"dray devices -k no/such/folder":                              "error: no/such/folder: no such file or directory\n",
		"dray devices -f examples/single-gpu --driver gpu.example.co": "error: --driver gpu.example.co: there is no pool of such a driver: did you mean gpu.example.com?\n",
	} {
		answers(t, command, cli.ExitError, want)
	}
}

// Without the status of devices no driver can say that one is ready: who has to wait for that gets none.
func TestNoConditionsWithoutStatus(t *testing.T) {
	input := strings.Replace(nodeWithGPUs, "[{name: gpu-0}, {name: gpu-1}, {name: gpu-2}, {name: gpu-3}]",
		"[{name: gpu-0, bindingConditions: [gpu.example.com/Ready], bindingFailureConditions: [gpu.example.com/Failed]}]", 1) + waitsFor("one", 1, "")
	for gates, want := range map[string]string{
		"DRADeviceBindingConditions=true":                                    "1 of 1 pod placed",
		"DRADeviceBindingConditions=false":                                   "0 of 1 pod placed",
		"DRADeviceBindingConditions=true,DRAResourceClaimDeviceStatus=false": "0 of 1 pod placed",
	} {
		if output := run(input, "dray", "allocate", "-f", "-", "--feature-gates="+gates); !strings.Contains(output, want) {
			t.Errorf("%s: want %q in:\n%s", gates, want, output)
		}
	}
}

// Gates have the names and defaults of kube-scheduler 1.37.
func TestFeatureGates(t *testing.T) {
	atRepository(t)
	const off = "firstAvailable needs the feature DRAPrioritizedList, which is off"
	for flags, want := range map[string]string{
		"--feature-gates=DRAPrioritizedList=false":              off,
		"--feature-gates=AllBeta=false":                         "4 of 5 pods placed",
		"--feature-gates=AllBeta=false,DRAPrioritizedList=true": "4 of 5 pods placed",
		"--all-features": "4 of 5 pods placed",
		"--all-features --feature-gates=DRAPrioritizedList=false":        off,
		"--feature-gates=DRANodeAllocatableResources=true":               "DRANodeAllocatableResources is not supported",
		"--feature-gates=DRASchedulerFilterTimeout=false":                "4 of 5 pods placed",
		"--feature-gates=DRAExtendedResource=true,DRADeviceTaints=false": "4 of 5 pods placed",
	} {
		output := run("", append(strings.Fields("dray allocate -f examples/prioritized-fallback"), strings.Fields(flags)...)...)
		if !strings.Contains(output, want) {
			t.Errorf("%s: want %q in:\n%s", flags, want, output)
		}
	}
}
