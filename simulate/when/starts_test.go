// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package when_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/dev/ending"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/when"
)

// gpuCluster has nodes with some GPUs each, all in one of two racks, and templates "1" to "3" for as many of them.
func gpuCluster(nodes, gpus int) simulate.Cluster {
	class := &resourceapi.DeviceClass{}
	class.Name = "gpu"
	c := simulate.Cluster{Classes: []*resourceapi.DeviceClass{class}}
	for i := range nodes {
		node := &corev1.Node{}
		node.Name, node.Labels = fmt.Sprintf("node-%d", i), map[string]string{"rack": fmt.Sprint(i % 2)}
		slice := &resourceapi.ResourceSlice{}
		slice.Name = node.Name
		slice.Spec = resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node.Name, Pool: resourceapi.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1},
		}
		for g := range gpus {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", g)})
		}
		c.Nodes, c.Slices = append(c.Nodes, node), append(c.Slices, slice)
	}
	for count := range int64(3) {
		template := &resourceapi.ResourceClaimTemplate{}
		template.Namespace, template.Name = "default", fmt.Sprint(count+1)
		template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count + 1,
		}}}
		c.Templates = append(c.Templates, template)
	}
	return c
}

// gpuPod wants a number of GPUs.
func gpuPod(name string, gpus int) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", name
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: ptr.To(fmt.Sprint(gpus))}}
	return pod
}

func open(t testing.TB, c simulate.Cluster) *simulate.State {
	t.Helper()
	state, err := simulate.Open(c, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// lab is a cluster of objects, which is read anew for each question.
type lab struct {
	*testing.T
	simulate.Cluster
}

// place lets pods run, all or none, as a scheduler would: the cluster has them and their claims then.
func (l *lab) place(pods []*corev1.Pod, rack bool) (nodes []string) {
	state := open(l.T, l.Cluster)
	var domains []simulate.Nodes
	for r := range 2 {
		domains = append(domains, simulate.Real(func(node *corev1.Node) bool { return node.Labels["rack"] == fmt.Sprint(r) }))
	}
	if !rack {
		domains = []simulate.Nodes{simulate.Real(nil)}
	}
	for _, on := range domains {
		sim := state.Sim()
		placed := make([]simulate.Placement, 0, len(pods))
		for _, pod := range pods {
			result, err := sim.Place(l.Context(), pod, on, simulate.FirstFit)
			if err != nil {
				l.Fatal(err)
			}
			placed = slices.AppendSeq(placed, result.Placements())
		}
		if len(placed) < len(pods) {
			continue
		}
		for i := range placed {
			l.run(&placed[i])
			nodes = append(nodes, placed[i].Node.Name())
		}
		return nodes
	}
	return nil
}

// largestFirst is an order in which pods fit one after the other if they fit at all.
func largestFirst(pods []*corev1.Pod) []*corev1.Pod {
	return slices.SortedStableFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		return strings.Compare(*b.Spec.ResourceClaims[0].ResourceClaimTemplateName, *a.Spec.ResourceClaims[0].ResourceClaimTemplateName)
	})
}

// run adds a pod that was placed.
func (l *lab) run(p *simulate.Placement) {
	claims, err := p.Claims(l.Context())
	if err != nil || len(claims) != 1 {
		l.Fatalf("%d claims, %v", len(claims), err)
	}
	pod, claim := p.Pod.DeepCopy(), claims[0]
	pod.Spec.NodeName, claim.Namespace, claim.Name = p.Node.Name(), pod.Namespace, pod.Name+"-gpus"
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpus", ResourceClaimName: &claim.Name}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	l.Pods, l.Claims = append(slices.Clip(l.Pods), pod), append(slices.Clip(l.Claims), claim)
}

// end takes a pod away, with its claim.
func (l *lab) end(name string) {
	l.Pods = slices.DeleteFunc(slices.Clone(l.Pods), func(pod *corev1.Pod) bool { return pod.Name == name })
	l.Claims = slices.DeleteFunc(slices.Clone(l.Claims), func(claim *resourceapi.ResourceClaim) bool { return claim.Name == name+"-gpus" })
}

// want is when a Wait starts, and where.
type want struct {
	at    int // -1 is never
	nodes []string
}

// minuteByMinute finds out when each starts, by reading the cluster anew each minute.
func (l *lab) minuteByMinute(q *when.Queue, ends map[string]int) []want {
	wants := make([]want, len(q.Waits))
	for i := range wants {
		wants[i].at = -1
	}
	for minute := range 60 {
		for name, at := range ends {
			if at == minute {
				l.end(name)
			}
		}
		for i, wait := range q.Waits {
			if wants[i].at >= 0 {
				continue
			}
			nodes := l.place(wait.Pods, len(wait.Topologies) > 0)
			if nodes == nil && !q.Backfill {
				break
			}
			if nodes == nil {
				continue
			}
			wants[i] = want{minute, nodes}
			for _, pod := range wait.Pods {
				if wait.Lasts > 0 {
					ends[pod.Name] = minute + int(wait.Lasts/time.Minute)
				}
			}
		}
	}
	return wants
}

// Pods start when reading the cluster anew each minute says, on the same nodes.
func TestStartsLikeMinuteByMinute(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		l := &lab{T: t, Cluster: gpuCluster(2+random.IntN(3), 3)}
		for i := range 8 {
			l.place([]*corev1.Pod{gpuPod(fmt.Sprintf("runs-%d", i), 1+random.IntN(3))}, false)
		}
		state := open(t, l.Cluster)
		q := when.Queue{Now: noon, Backfill: random.IntN(2) == 0, On: simulate.Real(nil)}
		ends := make(map[string]int)
		for _, pod := range l.Pods {
			if random.IntN(5) > 0 {
				ends[pod.Name] = random.IntN(6)
				q.Ends = append(q.Ends, when.End{Pod: pod, At: minutes(ends[pod.Name])})
			}
		}
		for i := range 1 + random.IntN(6) {
			wait := when.Wait{Lasts: time.Duration(random.IntN(4)) * time.Minute}
			for k := range 1 + random.IntN(3) {
				wait.Pods = append(wait.Pods, gpuPod(fmt.Sprintf("waits-%d-%d", i, k), 1+random.IntN(3)))
			}
			wait.Pods = largestFirst(wait.Pods)
			if random.IntN(3) == 0 {
				wait.Topologies = []simulate.Topology{{NodeLabel: "rack"}}
			}
			q.Waits = append(q.Waits, wait)
		}
		starts, err := when.Starts(t.Context(), state, q)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		compare(t, seed, starts, l.minuteByMinute(&q, ends), seen)
	}
	for _, kind := range []string{"never", "at once", "later", "overtaken", "after its own queue"} {
		if seen[kind] == 0 {
			t.Errorf("no queue had: %s; seen: %v", kind, seen)
		}
	}
}

func compare(t *testing.T, seed uint64, starts []when.Start, wants []want, seen map[string]int) {
	t.Helper()
	latest := 0
	for i, start := range starts {
		var nodes []string
		for placement := range start.Result.Placements() {
			nodes = append(nodes, placement.Node.Name())
		}
		w := wants[i]
		if start.Undecided || start.Possible != (w.at >= 0) || start.Possible && (!start.At.Equal(minutes(w.at)) || !slices.Equal(nodes, w.nodes)) {
			t.Fatalf("seed %d, wait %d: starts %t at %v on %v; minute by minute at %d on %v", seed, i, start.Possible, start.At, nodes, w.at, w.nodes)
		}
		switch {
		case w.at < 0:
			seen["never"]++
		case w.at == 0:
			seen["at once"]++
		default:
			seen["later"]++
		}
		if w.at >= 0 && w.at < latest {
			seen["overtaken"]++
		}
		latest = max(latest, w.at)
		for _, end := range start.After {
			if end.At.After(start.At) {
				t.Fatalf("seed %d, wait %d: starts at %v after the end of %s at %v", seed, i, start.At, end.Pod.Name, end.At)
			}
			if strings.HasPrefix(end.Pod.Name, "waits") {
				seen["after its own queue"]++
			}
		}
	}
}

// running is two nodes with 4 GPUs: two-0 and two-1 on the first, two-2, one-0 and one-1 on the second.
func running(t *testing.T) (*simulate.State, []*corev1.Pod) {
	t.Helper()
	sim := open(t, gpuCluster(2, 4)).Sim()
	pods := []*corev1.Pod{gpuPod("two-0", 2), gpuPod("two-1", 2), gpuPod("two-2", 2), gpuPod("one-0", 1), gpuPod("one-1", 1)}
	for _, pod := range pods {
		pod.UID = "first"
		if result, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !result.All() {
			t.Fatal(result, err)
		}
	}
	return sim.State(), pods
}

// The ends that are named are those on the nodes where the pods start, and those at the time itself.
func TestStartsAfter(t *testing.T) {
	state, pods := running(t)
	starts, err := when.Starts(t.Context(), state, when.Queue{
		Now: noon, On: simulate.Real(nil), Waits: []when.Wait{{Pods: []*corev1.Pod{gpuPod("three", 3)}}},
		Ends: []when.End{{Pod: pods[2], At: minutes(3)}, {Pod: pods[0], At: minutes(1)}, {Pod: pods[3], At: minutes(5)}, {Pod: pods[1], At: minutes(9)}, {Pod: pods[4], At: minutes(-1)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var after []string
	for _, end := range starts[0].After {
		after = append(after, end.Pod.Name)
	}
	if got := strings.Join(after, " "); !starts[0].Possible || !starts[0].At.Equal(minutes(3)) || got != "one-1 two-2" {
		t.Errorf("starts %t at %v after %s, want at minute 3 after one-1 two-2", starts[0].Possible, starts[0].At, got)
	}
	shapes, err := state.Shapes([]*corev1.Pod{gpuPod("one", 1)})
	if err != nil {
		t.Fatal(err)
	}
	if fit, err := state.FitsMany(t.Context(), shapes[0], simulate.Real(nil)); err != nil || fit.Pods != 0 {
		t.Errorf("the State changed: %d more fit, %v", fit.Pods, err)
	}
}

// Where several nodes reach the devices, a gang that does not fit may do so in a way that was not searched.
func TestStartsWithoutProof(t *testing.T) {
	c := gpuCluster(2, 2)
	c.Slices = c.Slices[:1]
	c.Slices[0].Spec.NodeName, c.Slices[0].Spec.AllNodes = nil, ptr.To(true)
	c.Slices[0].Spec.Devices[0].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"wanted": {BoolValue: ptr.To(true)}}
	c.Classes[0].Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `"wanted" in device.attributes["gpu.example.com"]`}}}
	wait := func(name string, pods int) when.Wait {
		w := when.Wait{}
		for i := range pods {
			w.Pods = append(w.Pods, gpuPod(fmt.Sprintf("%s-%d", name, i), 1))
		}
		return w
	}
	waits := []when.Wait{wait("pair", 2), wait("first", 1), wait("second", 1)}
	type want struct{ possible, undecided bool }
	for backfill, wants := range map[bool][]want{
		true: {{false, true}, {true, false}, {false, false}},
		// Nobody tried the others. They may start after the pair does.
		false: {{false, true}, {false, true}, {false, true}},
	} {
		starts, err := when.Starts(t.Context(), open(t, c), when.Queue{Now: noon, On: simulate.Real(nil), Backfill: backfill, Waits: waits})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range wants {
			if start := &starts[i]; start.Possible != want.possible || start.Undecided != want.undecided {
				t.Errorf("backfill %t, wait %d starts: %t, undecided: %t; want %+v", backfill, i, start.Possible, start.Undecided, want)
			}
		}
	}
}

// An invalid question is an error.
func TestStartsRefuses(t *testing.T) {
	state, pods := running(t)
	stranger, waits := gpuPod("two-0", 2), gpuPod("waits", 1)
	stranger.UID = "another"
	for text, q := range map[string]when.Queue{
		"end 0: the pod is nil":                  {Ends: []when.End{{}}},
		"end 0: pod default/two-0 is on no node": {Ends: []when.End{{Pod: stranger}}},
		"end 1: pod default/two-1 has two ends":  {Ends: []when.End{{Pod: pods[1]}, {Pod: pods[1]}}},
		"wait 0: a pod is nil":                   {Waits: []when.Wait{{Pods: []*corev1.Pod{nil}}}},
		"wait 1: pod default/waits waits twice":  {Waits: []when.Wait{{Pods: []*corev1.Pod{waits}}, {Pods: []*corev1.Pod{waits}}}},
		"wait 0: topology 0: ":                   {Waits: []when.Wait{{Pods: []*corev1.Pod{waits}, Topologies: []simulate.Topology{{}}}}},
	} {
		q.On = simulate.Real(nil)
		if _, err := when.Starts(t.Context(), state, q); err == nil || !strings.HasPrefix(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
}

// The question ends with the context, and says why.
func TestCancelled(t *testing.T) {
	why := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	q := when.Queue{Now: noon, On: simulate.Real(nil), Waits: []when.Wait{{Pods: []*corev1.Pod{gpuPod("waits", 1)}}}}
	if _, err := when.Starts(ctx, open(t, gpuCluster(2, 4)), q); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

// Wherever the context ends, so does the question.
func TestStartsEndAnywhere(t *testing.T) {
	ended := ending.Anywhere(t, func(ctx context.Context) (string, error) {
		state, pods := running(t)
		q := when.Queue{Now: noon, On: simulate.Real(nil), Backfill: true}
		for i, pod := range pods[:4] {
			q.Ends = append(q.Ends, when.End{Pod: pod, At: minutes(i)})
		}
		for i, gpus := range []int{3, 2, 3, 1} {
			q.Waits = append(q.Waits, when.Wait{Pods: []*corev1.Pod{gpuPod(fmt.Sprint("waits-", i), gpus), gpuPod(fmt.Sprint("also-", i), 1)}, Lasts: 2 * time.Minute, Topologies: []simulate.Topology{{NodeLabel: "rack"}}})
		}
		starts, err := when.Starts(ctx, state, q)
		if err != nil {
			return "", err
		}
		var list []string
		for i := range starts {
			list = append(list, fmt.Sprint(starts[i].Possible, starts[i].At, starts[i].Undecided, len(starts[i].After)))
		}
		return strings.Join(list, ", "), nil
	})
	if ended < 20 {
		t.Errorf("only %d questions ended early", ended)
	}
}

// Waits that ask for the same, but may have other values in common, are tried each.
func TestStartsTellValuesApart(t *testing.T) {
	q := when.Queue{Now: noon, On: simulate.Real(nil), Backfill: true}
	for i, values := range [][]string{{"none"}, {"1"}, {}, nil} {
		q.Waits = append(q.Waits, when.Wait{Pods: []*corev1.Pod{gpuPod(fmt.Sprint("waits-", i), 1)}, Topologies: []simulate.Topology{{NodeLabel: "rack", Values: values}}})
	}
	starts, err := when.Starts(t.Context(), open(t, gpuCluster(2, 4)), q)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, false, true} {
		if starts[i].Possible != want {
			t.Errorf("%q: starts %t, want %t", q.Waits[i].Topologies[0].Values, starts[i].Possible, want)
		}
	}
}
