// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/ending"
	"github.com/dray-project/dray/internal/dev/peer"
	"github.com/dray-project/dray/simulate"
)

// mended are seeds of sequences that showed what was wrong: explanations that list pools in the order of another node.
var mended = []uint64{3050550, 3096779, 3107759}

// sequences are the seeds of the sequences that a differential test plays: few and those that are mended, or what DRAY_SEQUENCES
// says, which is a number or two with a dash between: from the first to before the last.
func sequences(t *testing.T, few uint64) iter.Seq[uint64] {
	first, end := uint64(0), few
	if text := os.Getenv("DRAY_SEQUENCES"); text != "" {
		from, to, found := strings.Cut(text, "-")
		if !found {
			from, to = "0", text
		}
		var errs [2]error
		first, errs[0] = strconv.ParseUint(from, 10, 64)
		end, errs[1] = strconv.ParseUint(to, 10, 64)
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatalf("DRAY_SEQUENCES: %v", err)
		}
	}
	var seeds []uint64
	for seed := first; seed < end; seed++ {
		seeds = append(seeds, seed)
	}
	if os.Getenv("DRAY_SEQUENCES") == "" {
		seeds = append(seeds, mended...)
	}
	return slices.Values(seeds)
}

// allSeen fails the test if a kind of event is in none of the default sequences: the test then says little.
// Others may be too few for that.
func allSeen(t *testing.T, seen map[string]int, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		if seen[kind] == 0 && os.Getenv("DRAY_SEQUENCES") == "" {
			t.Errorf("no sequence had: %s; seen: %v", kind, seen)
		}
	}
}

// Whatever is simulated is what an allocator says that is asked step by step, with real names.
func TestLikeStepByStep(t *testing.T) {
	seen := playAll(t, 100, allocator.Options{}, peer.Dray(), false)
	allSeen(t, seen, "placed", "unfit", "doubt", "fits", "drained", "kept", "tainted", "reverted", "shared", "crossing", "new node", "explained", "obstacles",
		"updated", "ended", "class changed", "expected", "arrived", "still expected", "evicted", "put", "put with devices", "put by shape", "ended early", "not put", "node added", "node added again", "node there already", "committed", "merged")
}

// The same holds with other devices, for as long as the allocator has the same policy.
func TestLikeStepByStepWithPolicies(t *testing.T) {
	for _, options := range []allocator.Options{
		{Policy: allocator.LeastWaste{}, Topology: []resourceapi.FullyQualifiedName{"gpu.example.com/numa"}}, {Policy: allocator.Pack{}}, {Policy: allocator.Spread{}}, {Policy: byAttribute("gpu.example.com/model")},
	} {
		t.Run(fmt.Sprintf("%T", options.Policy), func(t *testing.T) {
			seen := playAll(t, 30, options, peer.DrayWith(options), false)
			if seen["placed"] == 0 || seen["unfit"] == 0 || seen["drained"] == 0 || seen["fits"] == 0 || seen["crossing"] == 0 {
				t.Errorf("too little was seen: %v", seen)
			}
		})
	}
}

// The same holds for upstream's allocator, as long as it agrees with Dray's on the steps.
func TestLikeUpstream(t *testing.T) {
	given := &questions{}
	seen := playAll(t, 60, allocator.Options{}, given.agreeing(patient(peer.Upstream()), peer.Dray()), true)
	t.Logf("questions: %d, of which upstream's allocator gave up %d", given.all, given.up)
	if seen["placed"] == 0 || seen["unfit"] == 0 || seen["drained"] == 0 {
		t.Errorf("too little was seen: %v", seen)
	}
	if given.up*100 > given.all {
		t.Error("upstream's allocator answered too little")
	}
}

// patience is how often upstream's allocator asks whether its context has ended, which it does for each step of
// its search, before a question is given up. All questions of a sequence ask some thousand times together, and
// one question in a few thousand 2¹⁸ times by itself.
const patience = 1 << 15

// errPatience says that a question was given up.
var errPatience = errors.New("the search of upstream's allocator takes too long")

// patient gives up a question on which an allocator tries too much. It does not depend on how fast the machine is.
func patient(a alloctest.Allocator) alloctest.Allocator {
	return func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
		counted := ending.After(ctx, patience)
		outcome := a(counted, c)
		if counted.Err() != nil {
			return alloctest.Outcome{Err: errPatience}
		}
		return outcome
	}
}

// disagreement says why a step says nothing about the simulation.
type disagreement string

// questions counts what an allocator was asked, and how much of it was given up.
type questions struct{ all, up int }

// agreeing panics with a disagreement where two allocators differ in yes or no, which other tests are
// about, or in devices where slices of a pool contradict each other, or groups in use do: see decisions 0002 and 0006. What the
// first gives up the second answers alone.
func (q *questions) agreeing(a, b alloctest.Allocator) alloctest.Allocator {
	return func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
		x, y := a(ctx, c), b(ctx, c)
		if q.all++; errors.Is(x.Err, errPatience) {
			q.up++
			return y
		}
		differ := (x.Err == nil) != (y.Err == nil) || x.Err == nil && (x.Results == nil) != (y.Results == nil)
		if differ && contradictory(c.Slices) {
			panic(disagreement("yes and no about a pool with slices that contradict each other: see decision 0002"))
		}
		if differ {
			panic(disagreement(fmt.Sprintf("upstream's allocator says yes: %t, Dray's: %t; errors: %v and %v", x.Results != nil, y.Results != nil, x.Err, y.Err)))
		}
		if x.Results != nil && !slices.EqualFunc(x.Results, y.Results, sameDevices) {
			switch {
			case contradictory(c.Slices):
				panic(disagreement("other devices of a pool with slices that contradict each other"))
			case clustergen.Decision(c) == clustergen.DecisionMixedGroups:
				panic(disagreement("other devices on a counter set with and without compatibility groups in use: see decision 0006"))
			}
		}
		return x
	}
}

// contradictory reports whether there is a pool with slices of an old generation, or of which there are more
// slices than they say, or with slices that say different numbers.
func contradictory(list []*resourceapi.ResourceSlice) bool {
	pools := make(map[string]resourceapi.ResourcePool)
	slicesOf := make(map[string]int64)
	for _, slice := range list {
		pool, name := slice.Spec.Pool, slice.Spec.Driver+"/"+slice.Spec.Pool.Name
		if known, found := pools[name]; found && known != pool {
			return true
		}
		pools[name] = pool
		if slicesOf[name]++; slicesOf[name] > pool.ResourceSliceCount {
			return true
		}
	}
	return false
}

func sameDevices(a, b resourceapi.AllocationResult) bool {
	return slices.EqualFunc(a.Devices.Results, b.Devices.Results, func(x, y resourceapi.DeviceRequestAllocationResult) bool {
		return x.Request == y.Request && x.Driver == y.Driver && x.Pool == y.Pool && x.Device == y.Device
	})
}

func playAll(t *testing.T, few uint64, options allocator.Options, allocate alloctest.Allocator, mayDisagree bool) map[string]int {
	seen := make(map[string]int)
	n, disagreed := 0, 0
	for seed := range sequences(t, few) {
		if n++; n%1000 == 0 {
			t.Logf("%d sequences; the allocators disagree in %d; seen: %v", n, disagreed, seen)
		}
		func() {
			defer func() {
				if r := recover(); r != nil {
					why, ok := r.(disagreement)
					if !ok || !mayDisagree {
						panic(r)
					}
					disagreed++
					t.Logf("seed %d says nothing from here on: %s", seed, why)
				}
			}()
			play(t, seed, options, allocate, seen)
		}()
	}
	t.Logf("%d sequences; the allocators disagree in %d; seen: %v", n, disagreed, seen)
	if disagreed*10 > n {
		t.Errorf("the allocators disagree in %d of %d sequences", disagreed, n)
	}
	return seen
}

// game is a sequence of what-ifs, and the same step by step.
type game struct {
	*testing.T
	seed      uint64
	options   simulate.Options
	rand      *rand.Rand
	seen      map[string]int
	templates map[string]*resourceapi.ResourceClaimTemplate
	kinds     []*corev1.Pod
	state     *simulate.State
	sim       *simulate.Sim
	template  *simulate.Template
	ref       *reference
	forks     []*reference
	// before is the State before the last update, of which Shapes can still be used.
	before *simulate.State

	// left are nodes that were removed, with their slices.
	left []leftNode

	pods, taints, classes, templateNumber, nodesAdded int
	// calls counts calls of ending.
	calls int
	// extended has claims ask for more than resource.k8s.io/v1 knows.
	extended bool
	puts     int // see putOn
}

// memories are what simulations have that are played: the usual one, none, and one that forgets all the time.
var memories = []simulate.MemoryOptions{{}, {Off: true}, {Questions: 1, Kinds: 1, Nodes: 1, States: 1, Answers: 1, Total: 1}, {Total: 1}, {Total: 20}}

func play(t *testing.T, seed uint64, options allocator.Options, allocate alloctest.Allocator, seen map[string]int) {
	g := newGame(t, seed, options, seen)
	if !g.begin(allocate) {
		return
	}
	g.steps()
	for range g.forks {
		g.sim.Revert()
	}
}

func newGame(t *testing.T, seed uint64, options allocator.Options, seen map[string]int) *game {
	g := &game{T: t, seed: seed, options: simulate.Options{Topology: options.Topology, Memory: memories[seed%uint64(len(memories))]}, rand: rand.New(rand.NewPCG(seed, 15)), seen: seen}
	if options.Policy != nil {
		g.options.DevicePolicy = options.Policy.(allocator.Remembered)
	}
	return g
}

func (g *game) steps() {
	for range 14 + g.rand.IntN(10) {
		g.step()
	}
}

// begin generates a world. It is false for one with faults, which the step by step way does not
// know.
func (g *game) begin(allocate alloctest.Allocator) bool {
	profiles := clustergen.Profiles()
	c := clustergen.Generate(g.seed, profiles[g.rand.IntN(len(profiles))])
	g.ref = &reference{allocate: allocate, base: c, slices: c.Slices, claims: make(map[string]*resourceapi.ResourceClaim)}
	for _, node := range c.Nodes {
		node = node.DeepCopy()
		if g.rand.IntN(2) == 0 {
			node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
		}
		g.ref.nodes = append(g.ref.nodes, node)
	}
	g.withhold(c)
	for _, claim := range c.Allocated {
		g.ref.claims[claim.Name] = claim
	}
	g.addTemplates(c)
	cluster := simulate.Cluster{Nodes: g.ref.nodes, Slices: c.Slices, Classes: c.Classes, Claims: slices.Clone(c.Allocated)}
	for _, template := range g.templates {
		cluster.Templates = append(cluster.Templates, template)
	}
	g.addKinds(&cluster)
	g.options.Features, g.options.Extensions = c.Features, g.extended
	state, err := simulate.Open(cluster, g.options)
	if err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	if len(state.Faults()) > 0 {
		return false
	}
	g.state, g.sim = state, state.Sim()
	for _, slice := range c.Slices {
		if slice.Spec.NodeName == nil {
			g.seen["crossing"]++
		}
	}
	return g.addNodeTemplate() && g.understood()
}

// withhold takes the devices away that one node alone has, so that they can be expected.
func (g *game) withhold(c *alloctest.Case) {
	if g.rand.IntN(2) == 0 {
		return
	}
	own := g.ref.own(g.ref.nodes[g.rand.IntN(len(g.ref.nodes))].Name)
	c.Slices = slices.DeleteFunc(slices.Clone(c.Slices), func(s *resourceapi.ResourceSlice) bool { return slices.Contains(own, s) })
	g.ref.slices = c.Slices
}

// addTemplates makes templates of the claims of the case.
func (g *game) addTemplates(c *alloctest.Case) {
	g.templates = make(map[string]*resourceapi.ResourceClaimTemplate)
	for i, claim := range c.Claims {
		template := &resourceapi.ResourceClaimTemplate{}
		template.Namespace, template.Name = "default", fmt.Sprintf("template-%d", i)
		template.Spec.Spec = claim.Spec
		if g.extended {
			g.extend(template, c)
		}
		g.templates[template.Name] = template
	}
}

// addKinds makes kinds of pods: with one or all claims of the case, and with one that they share.
func (g *game) addKinds(c *simulate.Cluster) {
	for _, name := range slices.Sorted(maps.Keys(g.templates)) {
		g.kinds = append(g.kinds, g.kind(name))
	}
	slices.SortStableFunc(g.kinds, func(a, b *corev1.Pod) int {
		return len(*a.Spec.ResourceClaims[0].ResourceClaimTemplateName) - len(*b.Spec.ResourceClaims[0].ResourceClaimTemplateName)
	})
	g.kinds = g.kinds[:min(2, len(g.kinds))]
	names := make([]string, 0, len(g.templates))
	for name := range g.templates {
		names = append(names, name)
	}
	slices.Sort(names)
	g.kinds = append(g.kinds, g.kind(names...), g.kind())
	if len(names) > 0 {
		shared := &resourceapi.ResourceClaim{ObjectMeta: *g.templates[names[0]].Spec.ObjectMeta.DeepCopy(), Spec: g.templates[names[0]].Spec.Spec}
		shared.Namespace, shared.Name = "default", "shared"
		c.Claims = append(c.Claims, shared)
		g.ref.claims["shared"] = shared
		pod := g.kind(names[len(names)-1])
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "common", ResourceClaimName: ptr.To("shared")})
		g.kinds = append(g.kinds, pod)
	}
}

func (g *game) kind(templates ...string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace = "default"
	container := corev1.Container{Name: "main"}
	if g.rand.IntN(2) == 0 {
		container.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	}
	pod.Spec.Containers = []corev1.Container{container}
	for i, name := range templates {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprintf("c%d", i), ResourceClaimTemplateName: ptr.To(name)})
	}
	return pod
}

// addNodeTemplate makes a template of a node with the pools of one node.
func (g *game) addNodeTemplate() bool {
	node := g.ref.nodes[g.rand.IntN(len(g.ref.nodes))]
	for _, other := range g.ref.nodes {
		if len(g.ref.own(other.Name)) > len(g.ref.own(node.Name)) {
			node = other
		}
	}
	var err error
	if g.template, err = g.state.TemplateOf(node.Name, nil); err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	return true
}

// understood drops the kinds of pods that are an error.
func (g *game) understood() bool {
	g.kinds = slices.DeleteFunc(g.kinds, func(pod *corev1.Pod) bool {
		_, err := g.state.Shapes([]*corev1.Pod{pod})
		return err != nil
	})
	return len(g.kinds) > 0
}

// compare plays pods step by step and compares.
func (g *game) compare(got simulate.Result, pods []*corev1.Pod, fresh func(int) (*corev1.Node, []*resourceapi.ResourceSlice)) {
	before := len(g.ref.added)
	placements := slices.Collect(got.Placements())
	for i, pod := range pods {
		limited := fresh
		if len(g.ref.added) > before {
			limited = nil
		}
		claims := g.ref.claimsOf(pod, g.templates)
		node, results, doubt, err := g.ref.place(g.Context(), pod, claims, limited)
		if err != nil {
			g.Fatalf("seed %d: %v", g.seed, err)
		}
		where := fmt.Sprintf("seed %d: %s", g.seed, pod.Name)
		if node == "" {
			g.unplaced(where, got, len(pods), i, doubt)
			if !g.extended {
				g.why(where, got, pod, limited)
			}
			return
		}
		g.seen["placed"]++
		if len(g.ref.added) > 0 && node == g.ref.added[len(g.ref.added)-1].Name {
			g.seen["new node"]++
		}
		if i >= len(placements) || placements[i].Node.Name() != node || placements[i].Pod != pod {
			g.Fatalf("%s: step by step it is on %s, simulated are %v", where, node, nodesOf(placements))
		}
		if len(results) == 0 {
			continue
		}
		if pod.Spec.ResourceClaims[len(pod.Spec.ResourceClaims)-1].ResourceClaimName != nil {
			g.seen["shared"]++
		}
		objects, err := placements[i].Claims(g.Context())
		if err != nil {
			g.Fatalf("%s: %v", where, err)
		}
		allocated := make([]resourceapi.AllocationResult, len(objects))
		for k, claim := range objects {
			allocated[k] = *claim.Status.Allocation
		}
		sameResults(g.T, where+" on "+node, allocated, results)
	}
	if got.Placed != len(pods) || !got.All() {
		g.Fatalf("seed %d: %d of %d are placed", g.seed, got.Placed, len(pods))
	}
}

func (g *game) unplaced(where string, got simulate.Result, n, placed int, doubt bool) {
	if got.Placed != placed || doubt != (got.Undecided > 0) || got.Unfit+got.Undecided != n-placed {
		g.Fatalf("%s: step by step %d are placed, doubt %t; simulated: %d, %d do not fit, %d undecided (%v) on %v", where, placed, doubt, got.Placed, got.Unfit, got.Undecided, got.Err, nodesOf(slices.Collect(got.Placements())))
	}
	g.seen["unfit"] += got.Unfit
	g.seen["doubt"] += got.Undecided
}

func nodesOf(placements []simulate.Placement) []string {
	var names []string
	for _, p := range placements {
		names = append(names, p.Node.Name())
	}
	return names
}
