package schedplugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/allocator"
)

// maxNote is how long the note of an Event may be.
const maxNote = 1024

// notes remembers what was said last about pods, lest it is repeated with each attempt.
type notes struct{ last *lru.Cache }

func newNotes() notes { return notes{last: lru.New(10_000)} }

// changed reports whether a note is another one than the last about the pod.
func (n notes) changed(pod types.UID, note string) bool {
	if last, found := n.last.Get(pod); found && last == note {
		return false
	}
	n.last.Add(pod, note)
	return true
}

// explain records an Event that sums up why no node has the devices which a pod needs.
func (p *Plugin) explain(ctx context.Context, c *cycle, pod *corev1.Pod) {
	recorder, groups := p.handle.EventRecorder(), group(c.refusalList())
	if recorder == nil || len(groups) == 0 {
		return
	}
	note := summarize(pod, groups)
	if !p.notes.changed(pod.UID, note) {
		return
	}
	recorder.WithLogger(klog.FromContext(ctx)).Eventf(pod, nil, corev1.EventTypeWarning, "DevicesUnavailable", "Scheduling", "%s", note)
}

// refusalList returns the refusals so far, in an order that is the same each time.
func (c *cycle) refusalList() []refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]refusal, 0, len(c.refusals))
	for _, r := range c.refusals {
		if r.nodes > 0 {
			explained := *r
			explained.explanation = r.one.Explain()
			list = append(list, explained)
		}
	}
	slices.SortFunc(list, func(a, b refusal) int {
		return cmp.Or(cmp.Compare(lacking(a.explanation), lacking(b.explanation)), cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.reason, b.reason))
	})
	return list
}

// lacking is how many devices the requests in conflict lack together, by themselves.
func lacking(e *allocator.Explanation) int {
	missing := 0
	for _, report := range e.Requests {
		missing += max(0, report.Needed-report.Candidates)
	}
	return missing
}

// group joins refusals by the same requests and constraints, however many devices each has
// left. The first of a group is the one that comes closest.
func group(list []refusal) []refusal {
	var groups []refusal
	at := make(map[string]int)
	for _, r := range list {
		key := conflictOf(r.explanation)
		i, known := at[key]
		if !known {
			at[key] = len(groups)
			groups = append(groups, r)
			continue
		}
		groups[i].nodes += r.nodes
		groups[i].examples = append(slices.Clip(groups[i].examples), r.examples...)
	}
	return groups
}

func conflictOf(e *allocator.Explanation) string {
	var parts []string
	for _, item := range e.Core {
		parts = append(parts, item.Claim, item.Request, item.Constraint)
	}
	for _, report := range e.Requests {
		parts = append(parts, fmt.Sprint(report.Reachable == 0))
	}
	return strings.Join(parts, "\x00")
}

func summarize(pod *corev1.Pod, groups []refusal) string {
	var text strings.Builder
	fmt.Fprintf(&text, "Pod %s/%s does not get its devices.", pod.Namespace, pod.Name)
	for _, g := range groups {
		what := "this cannot be met"
		if len(g.explanation.Core) > 1 {
			what = "these cannot hold together"
		}
		if g.nodes > 1 {
			what += fmt.Sprintf(", with the figures of %s, which comes closest", g.explanation.Node)
		}
		fmt.Fprintf(&text, "\n%s: %s:", nodesOf(g), what)
		for _, item := range g.explanation.Core {
			fmt.Fprintf(&text, "\n- %s", item.Text)
		}
		for _, pool := range g.explanation.Pools {
			fmt.Fprintf(&text, "\npool %s cannot be used: %s", pool.Pool, pool.Incomplete+pool.Invalid)
		}
		if g.explanation.NearestMiss != "" {
			fmt.Fprintf(&text, "\nnearest miss: %s", g.explanation.NearestMiss)
		}
	}
	return cut(text.String())
}

func nodesOf(g refusal) string {
	slices.Sort(g.examples)
	examples := g.examples[:min(len(g.examples), maxExamples)]
	names := strings.Join(examples, ", ")
	if g.nodes > len(examples) {
		names += ", …"
	}
	if g.nodes == 1 {
		return "1 node (" + names + ")"
	}
	return fmt.Sprintf("%d nodes (%s)", g.nodes, names)
}

// cut shortens a note to what an Event can hold, at the end of a line if possible.
func cut(note string) string {
	if len(note) <= maxNote {
		return note
	}
	const more = "\n…"
	note = note[:maxNote-len(more)]
	if end := strings.LastIndexByte(note, '\n'); end > maxNote/2 {
		note = note[:end]
	}
	return strings.ToValidUTF8(note, "") + more
}
