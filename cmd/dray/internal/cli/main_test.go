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
		"dray":                             {cli.ExitOK, "Usage:\n  dray [command]"},
		"dray --help":                      {cli.ExitOK, "dray explain trainer-0 -n ml"},
		"dray allocate --help":             {cli.ExitOK, "Exit status:\n  0  everything is placed"},
		"dray explain --help":              {cli.ExitOK, "Usage:\n  dray explain POD|claim/NAME [flags]"},
		"dray devices -h":                  {cli.ExitOK, "dray devices --node gpu-worker-1 -o wide"},
		"kubectl-dray":                     {cli.ExitOK, "Usage:\n  kubectl dray [command]"},
		"/opt/bin/kubectl-dray --help":     {cli.ExitOK, "kubectl dray allocate -f cluster/"},
		"kubectl-dray explain --help":      {cli.ExitOK, "Usage:\n  kubectl dray explain POD|claim/NAME [flags]"},
		"kubectl-dray.exe devices --help":  {cli.ExitOK, "kubectl dray devices -f cluster/"},
		"dray version":                     {cli.ExitOK, "dray "},
		"dray completion bash":             {cli.ExitOK, "__start_dray"},
		"dray __complete allocate -o ":     {cli.ExitOK, "json\nyaml\n"},
		"dray __complete devices -o ":      {cli.ExitOK, "wide\njson\nyaml\n"},
		"dray alocate":                     {cli.ExitError, `unknown command "alocate"`},
		"dray allocate extra":              {cli.ExitError, "unknown command"},
		"dray explain":                     {cli.ExitError, "accepts 1 arg(s), received 0"},
		"dray allocate --nodes n1":         {cli.ExitError, "unknown flag: --nodes"},
		"dray allocate -f no/such/folder":  {cli.ExitError, "no/such/folder: no such file or directory"},
		"dray allocate -o table -f -":      {cli.ExitError, "--output table: want one of [json yaml]"},
		"dray explain x -o wide -f -":      {cli.ExitError, "--output wide: want one of [json yaml]"},
		"dray devices -o text -f -":        {cli.ExitError, "--output text: want one of [wide json yaml]"},
		"dray devices --node n1 -f -":      {cli.ExitError, "--node n1: there is no such node"},
		"dray devices --kubeconfig no.cfg": {cli.ExitError, "no.cfg"},
		"dray devices -f - --feature-gates=DRATeleport=true": {
			cli.ExitError, "unrecognized feature gate: DRATeleport",
		},
		"dray allocate -f - --feature-gates=DRAPrioritizedList=maybe": {cli.ExitError, "invalid value of DRAPrioritizedList"},
	} {
		arguments := strings.Split(command, " ")
		output, status := runStatus("", arguments...)
		if status != want.status || !strings.Contains(output, want.text) {
			t.Errorf("%s: exit status %d, want %d; want %q in:\n%s", command, status, want.status, want.text, output)
		}
	}
}

// Every gate can be switched off, and AllBeta switches all of them off.
func TestFeatureGates(t *testing.T) {
	atRepository(t)
	output := run("", "dray", "allocate", "-f", "examples/prioritized-fallback", "--feature-gates=AllBeta=false")
	if !strings.Contains(output, "firstAvailable needs the feature DRAPrioritizedList, which is off") {
		t.Errorf("with all features off:\n%s", output)
	}
	output = run("", "dray", "allocate", "-f", "examples/prioritized-fallback", "--feature-gates=AllBeta=false,DRAPrioritizedList=true")
	if !strings.Contains(output, "4 of 5 pods placed") {
		t.Errorf("with one feature on:\n%s", output)
	}
}
