// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"fmt"
	"slices"
	"strings"
)

// Event is what the page says of a reason.
type Event struct {
	Reason  string `json:"reason"`
	From    string `json:"from"`
	About   string `json:"about"`
	Type    string `json:"type"`
	Meaning string `json:"meaning"`
}

// Page is docs/reference.md. The faults are reasons of the code that events does not have, and the other way round.
func Page(scheduler, agent *Source, events []Event) (page string, faults []string) {
	faults = compareReasons(slices.Concat(scheduler.Reasons(), agent.Reasons()), events)
	var b strings.Builder
	b.WriteString(`# Metrics, Events, configuration

A test writes this page from the code (` + "`go test ./internal/dev/reference -rewrite`" + `) and fails if it is not current. [Running dray-scheduler](docs/operations.md) says what
to look at first, and [The node side](docs/agent.md) what the agent does. [Feature gates](docs/feature-gates.md) and [what commands print](docs/outputs.md) have pages of their own.

## Metrics of dray-scheduler

It has those of kube-scheduler, too. All metrics are alpha: a name may change with a minor version.

`)
	metrics(&b, scheduler.Metrics())
	b.WriteString("\n## Metrics of dray-agent\n\n`dray-agent run --listen ADDRESS` serves them at `/metrics`.\n\n")
	metrics(&b, agent.Metrics())
	b.WriteString("\n## Events\n\n| reason | type | from | about | what it says |\n|---|---|---|---|---|\n")
	for _, e := range events {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", e.Reason, e.Type, e.From, e.About, cell(e.Meaning))
	}
	b.WriteString("\nKubernetes' own Events of these objects stay as they are: `FailedScheduling` of the scheduler, and those of kubelet.\n")
	b.WriteString("\n## Configuration of dray-scheduler\n\nThe plugin takes `DrayArgs` in `pluginConfig` of a [scheduler configuration](docs/operations.md#configuration).\n\n")
	fields(&b, scheduler.Fields("DrayArgs"))
	b.WriteString("\n`switchesFile` names a file with these fields. It is read again [every five seconds](docs/operations.md#turning-something-off).\n\n")
	fields(&b, scheduler.Fields("Switches"))
	// The page is in that folder itself.
	return strings.ReplaceAll(b.String(), "](docs/", "]("), faults
}

func compareReasons(found []string, events []Event) []string {
	var faults []string
	known := make(map[string]bool)
	for _, e := range events {
		known[e.Reason] = true
		if !slices.Contains(found, e.Reason) {
			faults = append(faults, fmt.Sprintf("no Event has the reason %s of events.yaml", e.Reason))
		}
		if e.From == "" || e.About == "" || e.Meaning == "" || e.Type != "Normal" && e.Type != "Warning" {
			faults = append(faults, fmt.Sprintf("reason %s: a field of events.yaml is empty or wrong", e.Reason))
		}
	}
	for _, reason := range found {
		if !known[reason] {
			faults = append(faults, fmt.Sprintf("events.yaml lacks the reason %s", reason))
		}
	}
	return faults
}

func metrics(b *strings.Builder, list []Metric) {
	b.WriteString("| metric | kind | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range list {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, labels, cell(m.Help))
	}
}

func fields(b *strings.Builder, list []Field) {
	b.WriteString("| field | type | meaning |\n|---|---|---|\n")
	for _, f := range list {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Name, f.Type, cell(f.Help))
	}
}

// cell is text in a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}
