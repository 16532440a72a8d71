package schedplugin

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/allocator"
)

// refusal is why nodes do not have the devices that nothing tells apart for the pod.
type refusal struct {
	// reason is short and names no node.
	reason string
	// one of the nodes has this answer. It is explained when no node has the devices.
	one   *allocator.Unsatisfiable
	nodes []string
}

// reasonOf says why a node does not have the devices. For nodes that are alike it is found
// out once.
func (p *Plugin) reasonOf(ctx context.Context, c *cycle, v *variant, node *corev1.Node, alike any) string {
	if known := c.count(refusalKey{v, alike}, node.Name); known != nil {
		return known.reason
	}
	outcome, err := v.problem.Allocate(ctx, c.view.Snapshot, c.usage(), node)
	if err != nil {
		return withoutDevice(err.Error())
	}
	unsatisfiable, ok := outcome.(*allocator.Unsatisfiable)
	if !ok {
		return fmt.Sprint(outcome)
	}
	c.find(refusalKey{v, alike}, &refusal{reason: p.reasons.of(v, unsatisfiable), one: unsatisfiable})
	return c.count(refusalKey{v, alike}, node.Name).reason
}

// reasons remembers short reasons for the next pods: explaining takes longer than refusing.
type reasons struct{ known *lru.Cache }

func newReasons() reasons { return reasons{known: lru.New(10_000)} }

// reasonKey has all that a reason depends on: answers that are alike are so whatever things
// are called.
type reasonKey struct {
	alike any
	names string
}

func (r reasons) of(v *variant, none *allocator.Unsatisfiable) string {
	key := reasonKey{alike: none.Alike(), names: v.names()}
	if known, found := r.known.Get(key); found {
		return known.(string)
	}
	reason := v.shortly(none.Explain())
	r.known.Add(key, reason)
	return reason
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

// count adds a node to those that were refused alike. It returns nil if nothing was found
// out about them.
func (c *cycle) count(key refusalKey, node string) *refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.refusals[key]
	if known != nil && c.whatIf == nil {
		known.nodes = append(known.nodes, node)
	}
	return known
}

// find records why nodes are refused, unless somebody else has meanwhile.
func (c *cycle) find(key refusalKey, found *refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusals[key] == nil {
		c.refusals[key] = found
	}
}

type refusalKey struct {
	variant *variant
	alike   any
}

// shortly is a reason that is the same for many nodes, so that the scheduler can add them up:
// "request gpus wants 4 devices: too few left (the others: in use)". What differs from node
// to node, such as how many are left, is for the Event that sums up.
func (v *variant) shortly(e *allocator.Explanation) string {
	if len(e.Core) != 1 || e.Core[0].Constraint != "" {
		return v.conflict(e.Core) + unusablePools(e)
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

// conflict names what cannot be had together on a node.
func (v *variant) conflict(core []allocator.CoreItem) string {
	if len(core) == 0 {
		return "the node does not have the devices of all claims together"
	}
	names := make([]string, len(core))
	for i, item := range core {
		names[i] = v.ofClaim(item.Claim) + item.Constraint
		if item.Request != "" {
			names[i] = v.ofClaim(item.Claim) + "request " + item.Request
		}
	}
	if len(names) == 1 {
		return names[0] + " cannot be met"
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " cannot be had together"
}

func wants(report allocator.RequestReport) string {
	amount := fmt.Sprintf("%d devices", report.Needed)
	switch {
	case report.All:
		amount = "all devices"
	case report.Needed == 1:
		amount = "1 device"
	}
	return fmt.Sprintf("request %s wants %s: %s", report.Request, amount, lack(report))
}

func lack(report allocator.RequestReport) string {
	left, rest := "too few left", "the others: "
	switch {
	case report.Reachable == 0:
		return "the node has none"
	case report.All && report.Needed == 0:
		return "none matches"
	case report.Candidates >= report.Needed:
		return "not that many can be had together"
	case report.All:
		left, rest = "not all can be had", ""
	case report.Reachable < report.Needed:
		return "the node has fewer"
	case report.Needed == 1:
		left, rest = "none left", ""
	}
	if kinds := hindrances(report); kinds != "" {
		left += " (" + rest + kinds + ")"
	}
	return left
}

// plainly says what rejections mean, without what differs from device to device. What
// changes most easily comes first.
var plainly = []struct {
	reason allocator.RejectionReason
	phrase string
}{
	{allocator.RejectedByUse, "in use"},
	{allocator.RejectedByCounter, "short of counters"},
	{allocator.RejectedByGroup, "incompatible with others in use"},
	{allocator.RejectedByCapacity, "short of capacity"},
	{allocator.RejectedByTaint, "tainted"},
	{allocator.RejectedByBinding, "with binding conditions"},
	{allocator.RejectedByNodeOperations, "in need of a feature of the node"},
	{allocator.RejectedByNode, "on other nodes"},
	{allocator.RejectedBySelector, "not matching"},
}

// hindrances list the kinds of rejections that leave too few devices: one if there would be
// enough without it, else all.
func hindrances(report allocator.RequestReport) string {
	counts := make(map[allocator.RejectionReason]int)
	for _, rejection := range report.Rejections {
		counts[rejection.Reason] += rejection.Devices
	}
	var phrases []string
	for _, kind := range plainly {
		devices := counts[kind.reason]
		if devices == 0 {
			continue
		}
		phrases = append(phrases, kind.phrase)
		if !report.All && report.Candidates+devices >= report.Needed {
			phrases = []string{kind.phrase}
			break
		}
	}
	return strings.Join(phrases, ", ")
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
	incomplete, invalid := false, false
	for _, pool := range e.Pools {
		invalid = invalid || pool.Invalid != ""
		incomplete = incomplete || pool.Invalid == ""
	}
	text := ""
	if incomplete {
		text += "; it has incomplete pools"
	}
	if invalid {
		text += "; it has invalid pools"
	}
	return text
}
