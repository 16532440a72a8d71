// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/table"
)

// TemplateSpec describes nodes that do not exist. Its objects are kept by pointer, and must not be modified.
type TemplateSpec struct {
	// Node is the model of the nodes. Each gets its name with a number.
	Node *corev1.Node
	// Slices are the slices of one node. Names of pools and slices get the number of the node. Slices for all
	// nodes, or with a node selector, belong in Cluster. Cluster.TaintRules apply to them.
	Slices []*resourceapi.ResourceSlice
	// Daemon are pods that run on each of the nodes. They use resources, and the devices of the node that they get
	// for claims made for them, and for extended resources. Claims that they name, and devices of pools of several
	// nodes, are not looked at.
	Daemon []*corev1.Pod
	// Equal are groups of devices with the same unknown value of an attribute.
	Equal []Equal
	// Price orders the templates of Any, the lowest first. The unit is up to the caller.
	Price float64
}

// Equal is a group of devices of a template with the same value of an attribute. The value is not known before
// the node exists, such as the number of a PCIe root. A matchAttribute holds for devices of one Equal only.
// Values of other devices may differ. Anything else that needs the value fails: a distinctAttribute, as values
// may be equal, a selector that reads the attribute, and the DeviceAttribute of a Topology. Result.Why says
// "unknown" where such a selector is the reason.
type Equal struct {
	Attribute resourceapi.FullyQualifiedName
	// Devices are identified by driver, pool and device, with the pool names of TemplateSpec.Slices.
	Devices []pools.DeviceID
}

// Template is a TemplateSpec that was read for all States of one Open and its Updates. It is immutable.
type Template struct {
	spec TemplateSpec
	// of are the resource numbers of that Open.
	of *amounts.Resources
	// published are the slices of the spec, with stand-ins for unknown values.
	published []*resourceapi.ResourceSlice
	// facts are those of the first node, which represents all.
	facts *nodeFacts
	// used and held are the resources and devices that daemons use on each node.
	used []int64
	held onenode.Uses
	// choice is set if Any made the template.
	choice *choice
	gates  pools.Gates
	// tainted has the facts with the taints of rules.
	tainted memo.Map[*taintRules, *nodeFacts]
}

// fewRules is how many versions of the taint rules a template knows the facts for.
const fewRules = 4

// under returns the facts of the first node with the taints of rules.
func (t *Template) under(rules *taintRules) *nodeFacts {
	if rules == nil || t.choice != nil {
		return t.facts
	}
	if known, found := t.tainted.Get(rules); found {
		return known
	}
	facts := t.facts
	if patched := rules.applied(t.facts.Published); !slices.Equal(patched, t.facts.Published) {
		facts = facts.with(onenode.NewInventory(t.gates, facts.Node, patched))
	}
	t.tainted.Add(rules, facts, fewRules)
	return facts
}

// Node returns the node of the TemplateSpec. For Any, it has a name, and the labels that all templates have in
// common.
func (t *Template) Node() *corev1.Node { return t.spec.Node }

// Price returns the price of the TemplateSpec. For Any, it is the lowest price of the templates.
func (t *Template) Price() float64 { return t.spec.Price }

// Spec returns the argument of State.Template. Its objects must not be modified. For Any, it has a node with
// name and labels, and a price.
func (t *Template) Spec() TemplateSpec { return t.spec }

func (t *Template) name() string {
	if t == nil {
		return "nil"
	}
	return t.spec.Node.Name
}

// errOtherOpen is the error for a template of another Open.
func (t *Template) errOtherOpen() error {
	return fmt.Errorf("template %s is one of another Open", t.name())
}

// errSameNames is the error for two templates whose nodes would have the same names.
func (t *Template) errSameNames() error {
	return fmt.Errorf("template %s: there are nodes of another template of that name", t.name())
}

// withUnknown returns the slices of a template with stand-ins for unknown values. Slices without such values
// are not copied. The error names the entry of Equal and the device.
func (s *TemplateSpec) withUnknown() ([]*resourceapi.ResourceSlice, error) {
	if len(s.Equal) == 0 {
		return s.Slices, nil
	}
	patched := slices.Clone(s.Slices)
	for i, equal := range s.Equal {
		if domain, id, qualified := strings.Cut(string(equal.Attribute), "/"); !qualified || domain == "" || id == "" {
			return nil, fmt.Errorf("equal %d: attribute %q: want domain/name", i, equal.Attribute)
		}
		if len(equal.Devices) == 0 {
			return nil, fmt.Errorf("equal %d: there is no device", i)
		}
		for _, id := range equal.Devices {
			if err := s.forget(patched, id, equal.Attribute, fmt.Sprint(shape.UnknownPrefix, s.Node.Name, "/", i)); err != nil {
				return nil, fmt.Errorf("equal %d: device %s: %w", i, id, err)
			}
		}
	}
	return patched, nil
}

// forget sets an attribute of a device to a stand-in for its unknown value.
func (s *TemplateSpec) forget(patched []*resourceapi.ResourceSlice, id pools.DeviceID, name resourceapi.FullyQualifiedName, standIn string) error {
	found := false
	for i, slice := range patched {
		if onenode.PoolOf(slice) != id.PoolID() {
			continue
		}
		for d := range slice.Spec.Devices {
			if slice.Spec.Devices[d].Name != id.Device {
				continue
			}
			switch value, has := shape.Published(id.Driver, slice.Spec.Devices[d].Attributes, name); {
			case has && shape.Unknown(&value):
				return fmt.Errorf("attribute %s is equal to that of other devices already", name)
			case has:
				return fmt.Errorf("attribute %s has a value", name)
			}
			if patched[i] == s.Slices[i] {
				patched[i] = slice.DeepCopy()
			}
			device := &patched[i].Spec.Devices[d]
			if device.Attributes == nil {
				device.Attributes = make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
			}
			device.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValue: ptr.To(standIn)}
			found, slice = true, patched[i]
		}
	}
	if !found {
		return fmt.Errorf("no slice of the template has it")
	}
	return nil
}

// nodeName returns the name of the n-th node.
func (t *Template) nodeName(n int) string { return numbered(t.spec.Node.Name, n) }

func numbered(name string, n int) string { return name + "-new-" + strconv.Itoa(n) }

// object returns the n-th node of a template, as it would exist.
func (t *Template) object(n int) *corev1.Node {
	node := t.spec.Node.DeepCopy()
	node.Name, node.UID = t.nodeName(n), ""
	if _, labelled := node.Labels[corev1.LabelHostname]; labelled {
		node.Labels[corev1.LabelHostname] = node.Name
	}
	return node
}

// slices returns the given slices with the names of the n-th node. Everything but names is shared with the
// arguments.
func (t *Template) slices(published []*resourceapi.ResourceSlice, n int) []*resourceapi.ResourceSlice {
	all, node := make([]*resourceapi.ResourceSlice, len(published)), ptr.To(t.nodeName(n))
	for i, slice := range published {
		all[i] = &resourceapi.ResourceSlice{TypeMeta: slice.TypeMeta, ObjectMeta: slice.ObjectMeta, Spec: slice.Spec}
		all[i].Name, all[i].Spec.Pool.Name, all[i].Spec.NodeName = numbered(slice.Name, n), numbered(slice.Spec.Pool.Name, n), node
	}
	return all
}

// Nodes returns the n-th node of the template as it would exist, with its slices. It makes new objects each
// time. For Any, only what is decided is there: no slices.
func (t *Template) Nodes(n int) (*corev1.Node, []*resourceapi.ResourceSlice) {
	all := t.slices(t.spec.Slices, n)
	for i := range all {
		all[i] = all[i].DeepCopy()
	}
	return t.object(n), all
}

// withRealNames returns the facts of a node with its real names. Nodes of a template share facts with the names of the
// first.
func (w *world) withRealNames(n Node, inv *nodeFacts) *nodeFacts {
	if n.template != nil {
		node, published := inv.template.object(n.index), inv.template.slices(inv.template.published, n.index)
		if inv.template != n.template { // the node was undecided
			rename(node, published, n)
		}
		inv = inv.with(onenode.NewInventory(w.gates, node, w.rules.applied(published)))
	}
	return inv
}

// rename gives a template's node and slices the names for an undecided node. Names made from the template come
// first, so that the order of pools does not change.
func rename(node *corev1.Node, published []*resourceapi.ResourceSlice, n Node) {
	node.Name = n.Name()
	if _, labelled := node.Labels[corev1.LabelHostname]; labelled {
		node.Labels[corev1.LabelHostname] = node.Name
	}
	for _, slice := range published {
		slice.Name += "-" + n.template.name()
		slice.Spec.Pool.Name += "-" + n.template.name()
		slice.Spec.NodeName = ptr.To(node.Name)
	}
}

// group are the nodes of one template in a version: runs of equal nodes with pods, then total-used nodes
// without pods.
type group struct {
	template *Template
	// total is the number of nodes, used the number of those in runs.
	total, used int
	runs        []run
	owner       *table.Edition // of runs
}

// run is a sequence of nodes in the same state.
type run struct {
	count int
	nodeRecord
}

// locate returns the run of the n-th node.
func (g *group) locate(n int) (position int, found bool) {
	for i := range g.runs {
		if n < g.runs[i].count {
			return i, true
		}
		n -= g.runs[i].count
	}
	return 0, false
}

// add appends a run, or extends the last one if the nodes are equal.
func (g *group) add(r run) {
	g.used += r.count
	if last := len(g.runs) - 1; last >= 0 && g.runs[last].alike(&r) {
		g.runs[last].count += r.count
		return
	}
	g.runs = append(g.runs, r)
}

func (r *run) alike(other *run) bool {
	return r.state == other.state && r.options == other.options && r.pods == nil && other.pods == nil && slices.Equal(r.used, other.used)
}

// split makes the k-th node of a run a run of its own, and returns the position of that run.
func (g *group) split(position, k int) int {
	r := g.runs[position]
	if r.count == 1 {
		return position
	}
	one := r
	one.count = 1
	parts := make([]run, 0, 3)
	if k > 0 {
		r.count = k
		parts = append(parts, r)
	}
	parts = append(parts, one)
	if rest := g.runs[position].count - k - 1; rest > 0 {
		r.count = rest
		parts = append(parts, r)
	}
	g.runs = slices.Replace(g.runs, position, position+1, parts...)
	return position + cmp.Compare(k, 0)
}

// Nodes is an ordered set of nodes. It is immutable. The zero value is the empty set.
type Nodes struct {
	*nodeSet
}

// nodeSet is the content of Nodes. Sets with equal pointers are equal.
type nodeSet struct{ parts []nodesPart }

// nodesPart is a part of a set: real nodes, or nodes of one template.
type nodesPart struct {
	keep     func(*corev1.Node) bool // nil keeps all
	list     []int                   // positions of real nodes; nil for all
	template *Template               // nil for real nodes
	limit    int                     // how many more nodes may be added; 0: no limit, negative: none
	// most is the largest number of nodes of the template, valid once fixed is set. Without a limit, it is set
	// from the start.
	most  int
	fixed bool
}

// Unlimited is a number of pods without a limit.
const Unlimited = math.MaxInt

var allReal = Nodes{&nodeSet{parts: []nodesPart{{}}}}

// Real returns the real nodes for which keep is true, in the order of the Cluster. Nil keeps all. keep must
// return the same for the same node.
func Real(keep func(*corev1.Node) bool) Nodes {
	if keep == nil {
		return allReal
	}
	return Nodes{&nodeSet{parts: []nodesPart{{keep: keep}}}}
}

// New returns the nodes of a template: those that the Sim has, then up to limit more. These are added when a
// pod is placed on them. Zero is no limit. If the template is nil, there are none.
func New(t *Template, limit int) Nodes {
	if t == nil {
		return Nodes{}
	}
	return Nodes{&nodeSet{parts: []nodesPart{{template: t, limit: limit, most: Unlimited, fixed: limit == 0}}}}
}

// Added returns the nodes of a template that the Sim has, and no more.
func Added(t *Template) Nodes { return New(t, -1) }

// Union returns the nodes of the sets, one set after the other.
func Union(sets ...Nodes) Nodes {
	var parts []nodesPart
	for _, set := range sets {
		if set.nodeSet != nil {
			parts = append(parts, set.parts...)
		}
	}
	return Nodes{&nodeSet{parts: parts}}
}

// list returns the parts, none for the zero value.
func (n Nodes) list() []nodesPart {
	if n.nodeSet == nil {
		return nil
	}
	return n.parts
}

func (p nodesPart) keeps(rec *nodeRecord) bool { return p.keep == nil || p.keep(rec.facts.Node) }

// realOf lists the positions of the real nodes of a part, starting with one. It ignores keep. A part with a
// list is listed as a whole.
func (d *version) realOf(p nodesPart, from int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if p.list != nil {
			for _, i := range p.list {
				if !yield(i) {
					return
				}
			}
			return
		}
		for i := from; i < d.real.Len(); i++ {
			if !yield(i) {
				return
			}
		}
	}
}

// realIn lists the real nodes of a part that were not removed, with their positions. A part for a template has
// none.
func (d *version) realIn(p nodesPart) iter.Seq2[int, *nodeRecord] {
	return func(yield func(int, *nodeRecord) bool) {
		if p.template != nil {
			return
		}
		for i := range d.realOf(p, 0) {
			if rec := d.real.At(i); !rec.gone && p.keeps(rec) && !yield(i, rec) {
				return
			}
		}
	}
}

// fixed returns the set with absolute limits, computed from the nodes that exist now. The error is about a
// template.
func (n Nodes) fixed(w *world, d *version) (Nodes, error) {
	for i, part := range n.list() {
		if part.template == nil {
			continue
		}
		if err := d.accepts(w, part.template); err != nil {
			return Nodes{}, err
		}
		for _, other := range n.parts[:i] {
			if other.template != nil && other.template != part.template && other.template.name() == part.template.name() {
				return Nodes{}, part.template.errSameNames()
			}
		}
	}
	return n.limited(d), nil
}

// accepts returns an error if nodes of a template cannot be added: it is of another Open, or its nodes would
// have the names of others.
func (d *version) accepts(w *world, t *Template) error {
	if t.of != w.resources {
		return t.errOtherOpen()
	}
	for i := range d.groups {
		if other := d.groups[i].template; other != t && other.name() == t.name() && d.groups[i].total > 0 {
			return t.errSameNames()
		}
	}
	return nil
}

func (n Nodes) limited(d *version) Nodes {
	if n.nodeSet == nil || !slices.ContainsFunc(n.parts, func(p nodesPart) bool { return p.template != nil && !p.fixed }) {
		return n
	}
	parts := slices.Clone(n.parts)
	for i := range parts {
		p := &parts[i]
		if p.template == nil || p.fixed {
			continue
		}
		p.fixed, p.most = true, d.group(p.template).total+max(0, p.limit)
	}
	return Nodes{&nodeSet{parts: parts}}
}

// freshNodes is the number of nodes without pods that exist or may be added.
func (p nodesPart) freshNodes(g *group) int { return p.most - g.used }

// distinct reports whether the real nodes, and each template, are in one part only.
func (n Nodes) distinct() bool {
	list := n.list()
	for i := range list {
		if slices.ContainsFunc(list[:i], func(p nodesPart) bool { return p.template == list[i].template }) {
			return false
		}
	}
	return true
}

// disjoint reports whether certainly no node is in the set twice.
func (n Nodes) disjoint() bool {
	seen := make(map[*Template]bool)
	for _, part := range n.list() {
		if seen[part.template] || part.list != nil {
			return false
		}
		seen[part.template] = true
	}
	return true
}

// real reports whether the set is exactly that of all real nodes.
func (n Nodes) real() bool { return n.nodeSet == allReal.nodeSet }
