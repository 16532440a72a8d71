package cli_test

import (
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// Each command says by an example how it is used, and what its exit status means.
func TestHelpHasExamplesAndExitStatus(t *testing.T) {
	commands := []string{"", "allocate", "explain", "devices", "convert", "simulate", "version", "options"}
	root, _ := runStatus("", "dray", "--help")
	for _, name := range commands[1:] {
		if !strings.Contains(root, "\n  "+name+" ") {
			t.Errorf("dray --help does not list %s", name)
		}
	}
	simulations, _ := runStatus("", "dray", "simulate", "--help")
	_, list, _ := strings.Cut(simulations, "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		commands = append(commands, "simulate "+strings.Fields(line)[0])
	}
	for _, command := range commands {
		out, status := runStatus("", append(append([]string{"dray"}, strings.Fields(command)...), "--help")...)
		example := "\n  dray " + command
		if status != cli.ExitOK || !strings.Contains(out, "Exit status:") || !strings.Contains(out, "Examples:\n") || !strings.Contains(out, example) {
			t.Errorf("dray %s --help: status %d, wants an example and what the exit status means:\n%s", command, status, out)
		}
	}
	if len(commands) < 13 {
		t.Errorf("%d commands were looked at: %q", len(commands), commands)
	}
}

// The selection chooses the pods that are asked about.
func TestSimulateSelects(t *testing.T) {
	labelled := strings.Replace(contended, "metadata: {name: middle, namespace: default}", "metadata: {name: middle, namespace: ml, labels: {app: x}}", 1)
	labelled = strings.Replace(labelled, "metadata: {name: two, namespace: default}", "metadata: {name: two, namespace: ml}", 1)
	for command, want := range map[string]string{
		"fits -o jsonpath={.items[*].pod}":                       "ml/middle default/prioritized\n",
		"fits -o jsonpath={.items[*].pod} -A":                    "ml/middle default/prioritized\n",
		"fits -o jsonpath={.items[*].pod} -n ml":                 "ml/middle\n",
		"what-if --add a=1 -l app=x -o jsonpath={.items[*].pod}": "ml/middle\n",
		"plan --like a -l app=x -o jsonpath={.items[*].placed}":  "1\n",
		"fits -l app=none -o name":                               "no pod that is pending can be asked about: -n, -A, -l and --field-selector choose among 2 pods\n",
		"fits -l a===b":                                          "error: --selector: ",
	} {
		out, _ := runStatus(labelled, append(strings.Fields("dray simulate "+command), "-f", "-")...)
		if !strings.HasPrefix(out, want) {
			t.Errorf("%s: got\n%s\nwant %q", command, out, want)
		}
	}
}
