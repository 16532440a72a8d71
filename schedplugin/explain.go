package schedplugin

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
)

// maxExamples is how many nodes an explanation names.
const maxExamples = 3

// refusal is why nodes do not have the devices that nothing tells apart for the pod.
type refusal struct {
	// reason is short and names no node.
	reason      string
	explanation *allocator.Explanation
	// nodes is how many nodes there are, examples are some of them.
	nodes    int
	examples []string
}

// reasonOf says why a node does not have the devices. For nodes that are alike it is found
// out once.
func (p *Plugin) reasonOf(ctx context.Context, c *cycle, v *variant, node *corev1.Node) string {
	outcome, err := v.problem.Allocate(ctx, c.view.Snapshot, c.usage(), node)
	if err != nil {
		return withoutDevice(err.Error())
	}
	measureOutcome(outcome)
	unsatisfiable, ok := outcome.(*allocator.Unsatisfiable)
	if !ok {
		return fmt.Sprint(outcome)
	}
	if known := c.count(v, unsatisfiable.Alike(), node.Name, nil); known != nil {
		return known.reason
	}
	explanation := unsatisfiable.Explain()
	found := &refusal{reason: v.shortly(explanation), explanation: explanation}
	return c.count(v, unsatisfiable.Alike(), node.Name, found).reason
}

// withoutDevice leaves out of an error which device it is about, so that it is the same for
// many nodes.
func withoutDevice(text string) string {
	const device = ": device "
	before, after, found := strings.Cut(text, device)
	if _, rest, more := strings.Cut(after, ": "); found && more {
		return before + ": " + rest
	}
	return text
}

// count adds a node to those that were refused alike. It returns nil if it is the first one
// and nothing was found about it.
func (c *cycle) count(v *variant, alike any, node string, found *refusal) *refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.refusals[refusalKey{v, alike}]
	if known == nil {
		if found == nil {
			return nil
		}
		known = found
		c.refusals[refusalKey{v, alike}] = known
	}
	if c.whatIf == nil {
		known.nodes++
		if len(known.examples) < maxExamples {
			known.examples = append(known.examples, node)
		}
	}
	return known
}

type refusalKey struct {
	variant *variant
	alike   any
}

// shortly is a reason that is the same for many nodes: "request gpus wants 4 devices: 2 left
// of 8 (6 in use)".
func (v *variant) shortly(e *allocator.Explanation) string {
	if len(e.Core) != 1 || e.Core[0].Constraint != "" {
		return strings.TrimPrefix(e.Summary, "node "+e.Node+": ") + unusablePools(e)
	}
	item := e.Core[0]
	var phrases []string
	for _, report := range e.Requests {
		if name, _, _ := strings.Cut(report.Request, "/"); report.Claim == item.Claim && name == item.Request {
			phrases = append(phrases, wants(report))
		}
	}
	return v.ofClaim(item.Claim) + strings.Join(phrases, ", ") + unusablePools(e)
}

func wants(report allocator.RequestReport) string {
	amount := fmt.Sprintf("%d devices", report.Needed)
	switch {
	case report.All:
		amount = "all devices"
	case report.Needed == 1:
		amount = "1 device"
	}
	if report.Reachable == 0 {
		return fmt.Sprintf("request %s wants %s: the node has none", report.Request, amount)
	}
	return fmt.Sprintf("request %s wants %s: %d left of %d%s", report.Request, amount, report.Candidates, report.Reachable, rejections(report.Rejections))
}

// plainly says what a rejection means, without what differs from device to device.
var plainly = map[allocator.RejectionReason]string{
	allocator.RejectedByBinding:        "need binding conditions",
	allocator.RejectedBySelector:       "do not match",
	allocator.RejectedByNode:           "on other nodes",
	allocator.RejectedByUse:            "in use",
	allocator.RejectedByCapacity:       "short of capacity",
	allocator.RejectedByNodeOperations: "need a feature of the node",
	allocator.RejectedByGroup:          "incompatible with others in use",
	allocator.RejectedByCounter:        "short of counters",
	allocator.RejectedByTaint:          "tainted",
}

// rejections adds up those of the same kind, in the order of the first of each.
func rejections(list []allocator.Rejection) string {
	var order []allocator.RejectionReason
	counts := make(map[allocator.RejectionReason]int)
	for _, rejection := range list {
		if counts[rejection.Reason] == 0 {
			order = append(order, rejection.Reason)
		}
		counts[rejection.Reason] += rejection.Devices
	}
	if len(order) == 0 {
		return ""
	}
	phrases := make([]string, len(order))
	for i, reason := range order {
		phrases[i] = fmt.Sprintf("%d %s", counts[reason], plainly[reason])
	}
	return " (" + strings.Join(phrases, ", ") + ")"
}

// ofClaim names a claim the way the pod does, if there are several.
func (v *variant) ofClaim(name string) string {
	if len(v.claims) == 1 {
		return ""
	}
	for _, claim := range v.claims {
		switch {
		case claim.object.Namespace+"/"+claim.object.Name != name:
		case claim.extended:
			return "extended resources: "
		default:
			return "claim " + claim.name + ": "
		}
	}
	return "claim " + name + ": "
}

func unusablePools(e *allocator.Explanation) string {
	incomplete, invalid := 0, 0
	for _, pool := range e.Pools {
		if pool.Invalid != "" {
			invalid++
		} else {
			incomplete++
		}
	}
	text := ""
	if incomplete > 0 {
		text += fmt.Sprintf("; %d of its pools incomplete", incomplete)
	}
	if invalid > 0 {
		text += fmt.Sprintf("; %d of its pools invalid", invalid)
	}
	return text
}
