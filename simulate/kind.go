// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/narrow"
	"github.com/dray-project/dray/internal/reads"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Shape is a group of pods that ask for the same: equal claims or the same shared ones, equal resources, equal
// requirements on the node. It is immutable, and can be used with any State. For a State of another Open, its
// pods are resolved again. It is an error if they no longer ask for the same.
type Shape struct {
	// Pods are the pods of this shape that Shapes was given, in order.
	Pods []*corev1.Pod
	kind *podKind
	// claims resolves the claims of the pods.
	claims *podclaims.Resolver
	// elsewhere caches the Shape for the last other world in which it was used.
	elsewhere atomic.Pointer[Shape]
}

// NotLookedAt lists what kube-scheduler checks of the pods but a simulation does not, see nodefit.NotLookedAt.
func (s *Shape) NotLookedAt() []string {
	if s == nil || s.kind == nil {
		return nil
	}
	return slices.Clone(s.kind.notLookedAt)
}

// in returns the Shape for a world. The error is about objects that its pods refer to, which may have changed.
func (s *Shape) in(w *world) (*Shape, error) {
	if s == nil || s.kind == nil {
		return nil, errors.New("the shape is not one of State.Shapes")
	}
	if s.isOf(w) {
		return s, nil
	}
	if known := s.elsewhere.Load(); known != nil && known.isOf(w) {
		return known, nil
	}
	var same *podKind
	for _, pod := range s.Pods {
		kind, err := w.kindOf(pod)
		if err != nil {
			return nil, err
		}
		if same != nil && kind.key != same.key {
			return nil, fmt.Errorf("pods %s and %s/%s of a shape no longer ask for the same", s.name(), pod.Namespace, pod.Name)
		}
		same = kind
	}
	found := &Shape{Pods: s.Pods, kind: same, claims: w.resolver}
	s.elsewhere.Store(found)
	return found, nil
}

// isOf reports whether the Shape was made in a world of this family, with the same claims.
func (s *Shape) isOf(w *world) bool { return s.kind.world == w.first && s.claims == w.resolver }

func (s *Shape) name() string {
	pod := s.pod(0)
	return pod.Namespace + "/" + pod.Name
}

// pod returns the n-th pod of the shape, or the last one if there are fewer. Another pod of the same kind will
// not do: its priority or owner may differ, and decide what happens to the pod when its node is removed.
func (s *Shape) pod(n int) *corev1.Pod { return s.Pods[min(n, len(s.Pods)-1)] }

// podKind is an equivalence class of pods: they ask for the same. Equal pods share one as long as it is cached.
type podKind struct {
	key     string // equal for all pods of the kind in one world
	example *corev1.Pod
	entries []claimEntry
	// shares is set if one of the claims can be used by other pods, too.
	shares bool
	// extended are the extended resources that have a device class.
	extended []extendedDemand
	demands  []amounts.Demand // of resources, extended ones included
	// asks are the names of the extended resources that the pods ask for.
	asks []corev1.ResourceName
	// notLookedAt lists what kube-scheduler checks of the pods but a simulation does not.
	notLookedAt []string

	world *world
	*admission
	variantByTemplate memo.Map[*Template, int16] // number of the variant by template
	variantsByChoice  memo.Map[*choice, *memberVariants]
	// previous is what the previous world knew of the kind, until onReal is set.
	previous atomic.Pointer[kindBefore]

	plain      *onenode.Question        // for all entries, without extended resources
	needsAlone atomic.Pointer[podNeeds] // cached for pods without shared claims and extended resources
	mu         sync.Mutex
	variants   []*variant
	base       *variant // the first variant: devices provide no extended resource
	// whole is the kind without filters, nil if devices need not pass any.
	whole   *podKind
	filters []narrow.Filter
}

// claimEntry is a claim of a pod: an existing one by its number, or one that is made for the pod.
type claimEntry struct {
	spec  *onenode.Spec
	claim int32 // -1 if made for the pod
}

func specsOf(entries []claimEntry) []*onenode.Spec {
	list := make([]*onenode.Spec, len(entries))
	for i := range entries {
		list[i] = entries[i].spec
	}
	return list
}

// extendedDemand is an extended resource that devices can provide.
type extendedDemand struct {
	name     corev1.ResourceName
	requests []resourceapi.DeviceRequest
	spec     *onenode.Spec // of these requests alone
}

// variant is what pods ask for on nodes where devices provide the same extended resources.
type variant struct {
	fromDevices []corev1.ResourceName
	spec        *onenode.Spec    // of the claim for fromDevices; nil if there are none
	demands     []amounts.Demand // the remaining resources
}

// specs returns the spec of the claim for extended resources, if there is one.
func (v *variant) specs() []*onenode.Spec {
	if v.spec == nil {
		return nil
	}
	return []*onenode.Spec{v.spec}
}

// memberVariants has the number of a kind's variant by template of a choice. one is set if they are all equal.
type memberVariants struct {
	list     []int16
	allEqual bool
}

// admission caches on which real nodes pods may run, and which variant they have there.
type admission struct {
	// onReal has the number of the variant by real node, -1 where the pods may not run. It is nil until needed.
	onReal atomic.Pointer[[]int16]
}

// admissionOf returns the admission of a kind. Kinds without extended resources share it if the key of NodeFit is equal.
func (w *world) admissionOf(k *podKind) *admission {
	if len(k.asks) > 0 {
		return new(admission) // numbers of variants differ between kinds
	}
	key := w.nodeFit.Key(k.example)
	known, found := w.admissions.Get(key)
	if !found {
		known = new(admission)
		w.admissions.Add(key, known, w.options.Memory.Kinds)
	}
	return known
}

// kindBefore is what the previous world knew of a kind. It does not refer to that world, which can be freed.
type kindBefore struct {
	variants []*variant
	byName   map[string]int
	nodes    []*nodeFacts
	onReal   []int16 // nil if it was never needed
}

// on returns the number of the variant on a node, if it is known and the node has not changed.
func (b *kindBefore) on(node *corev1.Node) (variant int16, known bool) {
	if b == nil || b.onReal == nil {
		return 0, false
	}
	index, found := b.byName[node.Name]
	if !found || b.nodes[index].Node != node {
		return 0, false
	}
	return b.onReal[index], true
}

// podKey is the key of a kind of pods. Anything else that is read of podKind.example, or of another pod of the
// kind, must be added here.
var podKey = keys.Writer[*podKind]{
	{Covers: keys.Rows(reads.Pod, "Spec.NodeSelector[]", "Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution", "Spec.Tolerations[]"), Write: func(k *memo.Key, p *podKind) {
		k.Text(p.world.nodeFit.Key(p.example))
	}},
	{
		Covers: append(keys.Rows(reads.Pod, "Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution",
			"Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution", "Spec.TopologySpreadConstraints[]", "Spec.Volumes[]",
			"Spec.SchedulingGates[]", "Spec.SchedulerName", "Spec.HostNetwork"), ofContainers("Ports[]")...),
		Write: func(k *memo.Key, p *podKind) {
			k.Number(len(p.notLookedAt))
			for _, aspect := range p.notLookedAt {
				k.Text(aspect)
			}
		},
	},
	{Covers: keys.Rows(reads.Pod, "Spec.ResourceClaims[]"), Write: func(k *memo.Key, p *podKind) {
		k.Number(len(p.entries))
		for _, e := range p.entries {
			k.Text(e.spec.Key)
			k.Number(int(e.claim) + 1)
		}
	}},
	{Covers: ofContainers("Resources.Requests[]"), Write: func(k *memo.Key, p *podKind) { // the requests of devices for extended resources
		k.Number(len(p.extended))
		for _, e := range p.extended {
			k.Text(string(e.name))
			k.Text(e.spec.Key)
		}
	}},
	{Covers: append(keys.Rows(reads.Pod, "Spec.Overhead[]", "Spec.Resources.Requests[]"), append(keys.Rows(reads.Pod, "Spec.InitContainers[].RestartPolicy"), ofContainers("Resources.Requests[]")...)...), Write: func(k *memo.Key, p *podKind) {
		k.Number(len(p.demands))
		for _, d := range p.demands {
			k.Number(d.Resource)
			k.Number(int(d.Value))
		}
	}},
}

// ofContainers returns the rows of fields of containers and init containers.
func ofContainers(fields ...string) (rows []keys.Row) {
	for _, field := range fields {
		rows = append(rows, keys.Rows(reads.Pod, "Spec.Containers[]."+field, "Spec.InitContainers[]."+field)...)
	}
	return rows
}

// ownKey returns the key of the kind.
func (k *podKind) ownKey() string {
	key := memo.NewKey()
	podKey.Append(&key, k)
	return string(key.Bytes)
}

// size is the number of devices that the pods ask for, counting 1 for a request for all devices.
func (k *podKind) size() int64 {
	total := int64(0)
	count := func(requests []resourceapi.DeviceRequest) {
		for i := range requests {
			if e := requests[i].Exactly; e != nil {
				total += max(1, e.Count)
			} else if list := requests[i].FirstAvailable; len(list) > 0 {
				total += max(1, list[0].Count)
			}
		}
	}
	for _, e := range k.entries {
		count(e.spec.Devices.Requests)
	}
	for _, e := range k.extended {
		count(e.requests)
	}
	return total
}

// fits applies the rule of Options.NodeFit.
func (w *world) fits(pod *corev1.Pod, node *corev1.Node) (bool, error) {
	return w.nodeFit.Fits(pod, node)
}

// kindOf returns the kind of a pod.
func (w *world) kindOf(pod *corev1.Pod) (*podKind, error) { return w.kindWith(pod, false) }

// kindWith returns the kind of a pod. If alone is set, all its claims are treated as its own and not yet
// allocated.
func (w *world) kindWith(pod *corev1.Pod, alone bool) (*podKind, error) {
	if pod == nil {
		return nil, errors.New("a pod is nil")
	}
	name := pod.Namespace + "/" + pod.Name
	made := &podKind{world: w.first, example: pod, asks: podclaims.ExtendedResources(pod), notLookedAt: nodefit.NotLookedAt(pod)}
	if w.options.RefuseNotLookedAt && len(made.notLookedAt) > 0 {
		return nil, fmt.Errorf("pod %s: it has %s, which a simulation does not look at", name, strings.Join(made.notLookedAt, ", "))
	}
	for _, podClaim := range pod.Spec.ResourceClaims {
		entry, found, err := w.entry(pod, podClaim)
		if err != nil {
			return nil, fmt.Errorf("pod %s: spec.resourceClaims %s: %w", name, podClaim.Name, err)
		}
		if found && (entry.claim < 0 || !slices.ContainsFunc(made.entries, func(e claimEntry) bool { return e.claim == entry.claim })) {
			made.entries = append(made.entries, entry)
			made.shares = made.shares || entry.claim >= 0
		}
	}
	if alone {
		for i := range made.entries {
			made.entries[i].claim = -1
		}
		made.shares = false
	}
	for _, resourceName := range made.asks {
		if class := w.extended[resourceName]; class != nil {
			requests, _ := podclaims.ExtendedRequests(pod, resourceName, class.Name)
			made.extended = append(made.extended, extendedDemand{resourceName, requests, w.Spec(&resourceapi.DeviceClaim{Requests: requests}, extension.Claim{})})
		}
	}
	made.demands = w.resources.Needs(pod, nil)
	made.key = made.ownKey()
	if known, found := w.kinds.Get(made.key); found {
		return known, nil
	}
	if _, err := w.fits(pod, w.anyNode); err != nil {
		return nil, fmt.Errorf("pod %s: %w", name, err)
	}
	var extended []*onenode.Spec
	for _, e := range made.extended {
		extended = append(extended, e.spec)
	}
	made.variants = []*variant{{demands: made.demands}}
	if old := w.kindsBefore[made.key]; old != nil {
		made.variants = old.variants
		made.previous.Store(old)
	}
	made.base, made.admission = made.variants[0], w.admissionOf(made)
	if made = w.intern(made, extended); made.plain.Err != nil {
		return nil, fmt.Errorf("pod %s: %w", name, w.namedError(pod, made.plain.Err))
	}
	return made, nil
}

// kindOfEntry returns the kind of a pod on a node, and caches it.
func (w *world) kindOfEntry(entry *podEntry) (*podKind, error) {
	if entry.kind != nil {
		return entry.kind, nil
	}
	if known, found := w.running.Load(entry.identity()); found {
		return known.(*podKind), nil
	}
	kind, err := w.kindOf(entry.pod)
	if err == nil && !w.options.Memory.Off {
		w.running.Store(entry.identity(), kind)
	}
	return kind, err
}

// entry resolves an entry of a pod's spec.resourceClaims. It is false if no claim is needed.
func (w *world) entry(pod *corev1.Pod, podClaim corev1.PodResourceClaim) (claimEntry, bool, error) {
	claim, err := w.resolver.Resolve(pod, podClaim)
	if err != nil || claim == nil {
		return claimEntry{}, false, err
	}
	if isOfPod(podClaim, claim) && (pod.Spec.NodeName != "" || claim.Status.Allocation == nil) {
		s, err := w.specOfClaim(claim)
		return claimEntry{spec: s, claim: -1}, true, err
	}
	id := w.claim(w.resolver.Key(pod, podClaim), claim)
	return claimEntry{spec: w.claimNumbered(id).spec, claim: id}, true, nil
}

// intern compiles the claims of a kind and caches the kind, unless they are invalid. If another goroutine came
// first, its kind is returned. extended are the specs for extended resources.
func (w *world) intern(made *podKind, extended []*onenode.Spec) *podKind {
	specs := specsOf(made.entries)
	if made.plain = w.Question(specs); made.plain.Err != nil {
		return made
	}
	w.Cover(slices.Concat(specs, extended))
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, found := w.kinds.Get(made.key); found {
		return known
	}
	w.kinds.Add(made.key, made, w.options.Memory.Kinds)
	return made
}

// classOf returns the class behind an extended resource, nil if there is none.
func (w *world) classOf(name corev1.ResourceName) *resourceapi.DeviceClass { return w.extended[name] }

// fromDevices returns the extended resources of a pod that devices have to provide on the node. missing is one
// that nothing there provides.
func (w *world) fromDevices(asked []corev1.ResourceName, node *corev1.Node) (names []corev1.ResourceName, missing corev1.ResourceName) {
	return podclaims.FromDevices(asked, node, w.classOf)
}

// admittedVariant returns the number of the variant for a node, -1 if the pods may not run there.
func (w *world) admittedVariant(k *podKind, inv *nodeFacts) int16 {
	if k.whole != nil {
		return w.admittedVariant(k.whole, inv)
	}
	if w.options.Memory.Off {
		return w.variantOn(k, inv.Node)
	}
	if inv.template == nil && (inv.index >= len(w.nodes) || inv.Node != w.nodes[inv.index].Node) { // of AddNode or Expect
		return w.variantOn(k, inv.Node)
	}
	if inv.template == nil {
		if known := k.onReal.Load(); known != nil {
			return (*known)[inv.index]
		}
		list := make([]int16, len(w.nodes))
		before := k.previous.Load()
		for i, inventory := range w.nodes {
			variant, known := before.on(inventory.Node)
			if !known {
				variant = w.variantOn(k, inventory.Node)
			}
			list[i] = variant
		}
		k.onReal.Store(&list)
		k.previous.Store(nil)
		return list[inv.index]
	}
	if known, ok := k.variantByTemplate.Get(inv.template); ok {
		return known
	}
	found := w.variantOn(k, inv.Node)
	k.variantByTemplate.Add(inv.template, found, w.options.Memory.Kinds)
	return found
}

// admittedVariants returns the numbers of the variants for the templates of a choice.
func (w *world) admittedVariants(k *podKind, c *choice) *memberVariants {
	k = cmp.Or(k.whole, k)
	if known, ok := k.variantsByChoice.Get(c); ok {
		return known
	}
	found := &memberVariants{list: make([]int16, len(c.members)), allEqual: true}
	for i, t := range c.members {
		found.list[i] = w.variantOn(k, t.facts.Node)
		found.allEqual = found.allEqual && found.list[i] == found.list[0]
	}
	k.variantsByChoice.Add(c, found, w.options.Memory.Kinds)
	return found
}

func (w *world) variantOn(k *podKind, node *corev1.Node) int16 {
	if ok, err := w.fits(k.example, node); err != nil || !ok {
		return -1
	}
	if len(k.asks) == 0 {
		return 0
	}
	names, missing := w.fromDevices(k.asks, node)
	if missing != "" {
		return -1
	}
	return w.variant(k, names)
}

// variant returns the number of the variant in which devices provide these resources.
func (w *world) variant(k *podKind, names []corev1.ResourceName) int16 {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.variants {
		if slices.Equal(k.variants[i].fromDevices, names) {
			return int16(i)
		}
	}
	made := &variant{fromDevices: names, demands: w.resources.Needs(k.example, names)}
	requests, _ := podclaims.AllExtendedRequests(k.example, names, w.classOf)
	made.spec = w.Spec(&resourceapi.DeviceClaim{Requests: requests}, extension.Claim{})
	k.variants = append(slices.Clip(k.variants), made)
	return int16(len(k.variants) - 1)
}

// variantAt returns the variant with a number.
func (k *podKind) variantAt(n int16) *variant {
	if n == 0 {
		return k.base
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.variants) <= int(n) { // only a kind with filters has too few
		v := *k.whole.variantAt(int16(len(k.variants)))
		v.spec = k.world.narrowed(v.spec, k.filters)
		k.variants = append(k.variants, &v)
	}
	return k.variants[n]
}

// narrowed returns a spec with filters added to its requests.
func (w *world) narrowed(s *onenode.Spec, filters []narrow.Filter) *onenode.Spec {
	return w.Spec(narrow.Claim(&s.Devices, s.More, filters))
}
