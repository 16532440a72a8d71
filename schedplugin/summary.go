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

// said is the last note about a pod, and how many there were.
type said struct {
	note  string
	count int
}

func newNotes() notes { return notes{last: lru.New(10_000)} }

// next counts a note about a pod. It returns 0 if it is the same as the last.
func (n notes) next(pod types.UID, note string) int {
	var before said
	if last, found := n.last.Get(pod); found {
		before = last.(said)
	}
	if before.note == note {
		return 0
	}
	n.last.Add(pod, said{note: note, count: before.count + 1})
	return before.count + 1
}

// explain records an Event that sums up why no node has the devices which a pod needs.
func (p *Plugin) explain(ctx context.Context, c *cycle, pod *corev1.Pod) {
	recorder := p.handle.EventRecorder()
	if recorder == nil {
		return
	}
	groups := c.groups()
	if len(groups) == 0 {
		return
	}
	note := summarize(pod, groups)
	if count := p.notes.next(pod.UID, note); count > 0 {
		recorder.WithLogger(klog.FromContext(ctx)).Eventf(regarding(pod, count), nil, corev1.EventTypeWarning, "DevicesUnavailable", "Scheduling", "%s", note)
	}
}

// regarding refers to a pod of which there is a new note. Recorders take all Events about one
// version of an object for the same, and keep what the first one says.
func regarding(pod *corev1.Pod, count int) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: fmt.Sprintf("%s.%d", pod.ResourceVersion, count),
	}
}

// groups sums up the refusals so far, in an order that is the same each time.
func (c *cycle) groups() []allocator.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*refusal
	for _, r := range c.refusals {
		if len(r.nodes) > 0 {
			slices.Sort(r.nodes)
			r.nodes = slices.Compact(r.nodes) // the nominated node is looked at twice
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *refusal) int { return cmp.Compare(a.nodes[0], b.nodes[0]) })
	var grouping allocator.Grouping
	for _, r := range list {
		grouping.Add(r.one.Explain(), r.nodes...)
	}
	return grouping.Groups()
}

// summarize says of which nodes each thing is true as dray explain does.
func summarize(pod *corev1.Pod, groups []allocator.Group) string {
	var text strings.Builder
	fmt.Fprintf(&text, "Pod %s/%s does not get its devices.", pod.Namespace, pod.Name)
	for i := range groups {
		g := &groups[i]
		fmt.Fprintf(&text, "\n%s: %s:", nodesOf(g.Nodes), g.Statement())
		for _, item := range g.Closest.Core {
			fmt.Fprintf(&text, "\n- %s", item.Text)
		}
		for _, pool := range g.Closest.Pools {
			fmt.Fprintf(&text, "\npool %s cannot be used: %s", pool.Pool, pool.Incomplete+pool.Invalid)
		}
		if g.Closest.NearestMiss != "" {
			fmt.Fprintf(&text, "\nnearest miss: %s", g.Closest.NearestMiss)
		}
	}
	return cut(text.String())
}

// maxExamples is how many nodes an Event names.
const maxExamples = 3

func nodesOf(nodes []string) string {
	slices.Sort(nodes)
	names := strings.Join(nodes[:min(len(nodes), maxExamples)], ", ")
	if len(nodes) > maxExamples {
		names += ", …"
	}
	if len(nodes) == 1 {
		return "1 node (" + names + ")"
	}
	return fmt.Sprintf("%d nodes (%s)", len(nodes), names)
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
