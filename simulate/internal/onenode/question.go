// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/reads"
)

// Spec is what one claim asks for. Equal specs share one pointer as long as they are cached.
type Spec struct {
	// Key is equal for equal specs, including the content of the device classes.
	Key     string
	Devices resourceapi.DeviceClaim
	More    extension.Claim // what the claim's annotation asks for
}

// Question is the set of a pod's claims that are not allocated yet. Pods that ask for the same share one
// Question.
type Question struct {
	id      int
	Specs   []*Spec
	Problem *allocator.Problem
	Err     error // of compiling the claims
	// looksAtUsed is set if a request may get devices that are in use, or asks for all devices, in use or not.
	looksAtUsed bool
	// tolerates is set if a request may get devices with taints.
	tolerates bool
	// crossing caches the pools of several nodes that may serve the question.
	crossing atomic.Pointer[crossing]
}

// Asked writes the whole spec of a claim, as answers name its requests.
var Asked = keys.Writer[*resourceapi.DeviceClaim]{
	{Covers: slices.Concat(keys.Keyed(reads.Claim, "Spec.Devices"), keys.Keyed(reads.Toleration, "")), Write: func(k *memo.Key, c *resourceapi.DeviceClaim) { keys.AppendWhole(k, c) }},
}

// Spec returns the interned spec for what a claim and its annotation ask for. Its key covers the content of the
// device classes.
func (k *Asker) Spec(devices *resourceapi.DeviceClaim, more extension.Claim) *Spec {
	key := memo.NewKey()
	Asked.Append(&key, devices)
	asked := Spec{Devices: *devices, More: more}
	asked.eachRequest(func(f requestFilter) { key.Number(k.classNumbers[f.class]) })
	appendExtension(&key, more)
	if known, found := k.interned.specs.Get(string(key.Bytes)); found {
		return known
	}
	made := &Spec{Key: string(key.Bytes), Devices: *devices.DeepCopy(), More: more}
	k.interned.specs.Add(made.Key, made, k.interned.most)
	return made
}

// appendExtension appends what the annotation of a claim asks for.
func appendExtension(k *memo.Key, more extension.Claim) {
	if more.IsZero() {
		return
	}
	text, err := json.Marshal(more)
	if err != nil {
		panic("an extension cannot be encoded: " + err.Error()) // it is plain data
	}
	k.Text(string(text))
}

// eachRequest visits what the requests require of single devices, once for each class that may serve a request.
func (s *Spec) eachRequest(visit func(requestFilter)) {
	eachRequest(&s.Devices, visit)
	for _, name := range slices.Sorted(maps.Keys(s.More.Requests)) {
		for _, class := range s.More.Requests[name].Classes {
			visit(requestFilter{class: class.DeviceClassName, selectors: class.Selectors})
		}
	}
}

// addReads adds what a claim reads of devices.
func (k *Asker) addReads(r *questionReads, s *Spec) {
	r.addConstraints(s.Devices.Constraints)
	s.eachRequest(func(f requestFilter) {
		if class, err := k.classes.Get(f.class); err == nil {
			r.addSelectors(k.programs, class.Spec.Selectors)
		}
		r.addSelectors(k.programs, f.selectors)
		r.addDerived(k.programs, f.derived)
	})
	r.constraints = append(r.constraints, s.More.MatchAcross...)
	for _, limit := range s.More.MaxDistinct {
		r.constraints = append(r.constraints, limit.Attribute)
	}
	for _, preference := range s.More.Preferred {
		r.constraints = append(r.constraints, preference.MatchAttribute)
	}
}

// Across reports whether the claim's devices must match those of other claims of the pod.
func (s *Spec) Across() bool {
	return len(s.More.MatchAcross) > 0 || slices.ContainsFunc(s.More.Preferred, func(p extension.Preference) bool { return p.Across })
}

// Plain reports whether each request is for a number of free devices that serve it by themselves: there are no
// alternatives, constraints and extensions.
func (s *Spec) Plain() bool {
	m := &s.More
	if len(s.Devices.Constraints)+len(m.Requests)+len(m.MatchAcross)+len(m.MatchCapacities)+len(m.MaxDistinct)+len(m.Preferred) > 0 {
		return false
	}
	return !slices.ContainsFunc(s.Devices.Requests, func(r resourceapi.DeviceRequest) bool {
		return r.Exactly == nil || r.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll || ptr.Deref(r.Exactly.AdminAccess, false)
	})
}

// Claims returns placeholder claims for the question, and what their annotations ask for. Their names are phrases for errors.
func (q *Question) Claims() ([]*resourceapi.ResourceClaim, []extension.Claim) {
	claims, extensions := make([]*resourceapi.ResourceClaim, len(q.Specs)), make([]extension.Claim, len(q.Specs))
	for i, s := range q.Specs {
		claims[i] = &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: s.Devices}}
		claims[i].Name = fmt.Sprintf("no. %d of those to allocate", i+1)
		extensions[i] = s.More
	}
	return claims, extensions
}

// Question returns the interned question for these specs.
func (k *Asker) Question(specs []*Spec) *Question {
	key := memo.NewKey()
	for _, s := range specs {
		key.Text(s.Key)
	}
	if known, found := k.interned.questions.Get(string(key.Bytes)); found {
		return known
	}
	q := &Question{id: k.interned.number(), Specs: slices.Clone(specs)}
	k.prepare(q)
	k.interned.questions.Add(string(key.Bytes), q, k.interned.most)
	return q
}

// prepare compiles the question.
func (k *Asker) prepare(q *Question) {
	for _, s := range q.Specs {
		s.eachRequest(func(f requestFilter) {
			q.looksAtUsed, q.tolerates = q.looksAtUsed || f.all || f.admin, q.tolerates || f.tolerates
		})
	}
	claims, extensions := q.Claims()
	q.Problem, q.Err = k.Compile(claims, extensions)
}

// requestFilter is what a request or subrequest requires of each device.
type requestFilter struct {
	class     string
	selectors []resourceapi.DeviceSelector
	derived   []resourceapi.DeviceDerivedAttribute
	all       bool
	admin     bool
	tolerates bool
}

func eachRequest(claim *resourceapi.DeviceClaim, visit func(requestFilter)) {
	for i := range claim.Requests {
		request := &claim.Requests[i]
		if e := request.Exactly; e != nil {
			visit(requestFilter{e.DeviceClassName, e.Selectors, e.DerivedAttributes, e.AllocationMode == resourceapi.DeviceAllocationModeAll, e.AdminAccess != nil && *e.AdminAccess, len(e.Tolerations) > 0})
		}
		for j := range request.FirstAvailable {
			s := &request.FirstAvailable[j]
			visit(requestFilter{s.DeviceClassName, s.Selectors, s.DerivedAttributes, s.AllocationMode == resourceapi.DeviceAllocationModeAll, false, len(s.Tolerations) > 0})
		}
	}
}

// Compile compiles claims together with what their annotations ask for.
func (k *Asker) Compile(claims []*resourceapi.ResourceClaim, extensions []extension.Claim) (*allocator.Problem, error) {
	if !slices.ContainsFunc(extensions, func(more extension.Claim) bool { return !more.IsZero() }) {
		return k.allocator.Compile(claims, k.classes)
	}
	return k.allocator.CompileExtended(claims, extensions, k.classes)
}

// errNoProgram says that a selector is not CEL, so it is unknown what it selects.
var errNoProgram = errors.New("a selector cannot be evaluated")

// programsOf compiles all selectors of a request.
func (k *Asker) programsOf(f requestFilter) ([]*cel.Program, error) {
	class, err := k.classes.Get(f.class)
	if err != nil {
		return nil, err
	}
	var list []*cel.Program
	for _, s := range slices.Concat(class.Spec.Selectors, f.selectors) {
		if s.CEL == nil {
			return nil, errNoProgram
		}
		program, err := k.programs.Selector(s.CEL.Expression)
		if err != nil {
			return nil, err
		}
		list = append(list, program)
	}
	return list, nil
}
