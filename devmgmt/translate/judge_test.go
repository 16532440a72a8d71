// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	inf "gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// judge allocates claims of the prototype by trying everything in order. It knows nothing of v1.
type judge struct {
	in      translate.Prototype
	env     *cel.Env
	devices []*candidate // of the node, in first-fit order
	pooled  map[string]*inf.Dec
	// preferred are the preferences that a solution is to have.
	preferred []preference
	// picked is the option and the number of devices of each part, fixed what is decided of that already: a number
	// below zero is open. Nil if nothing is.
	picked, fixed map[int]picked
}

type picked struct {
	option  int
	devices int64
}

// candidate is a device with what is in use of it.
type candidate struct {
	pool   *v1alpha1.DevicePool
	device *v1alpha1.Device
	values map[string]v1alpha1.Attribute
	holds  map[string]bool // by expression, as far as it was evaluated
	// holders counts the claims that have it, without admin access.
	holders int
	taken   map[string]*inf.Dec
}

// choice is a device for one part of a claim.
type choice struct {
	of     *candidate
	part   int
	option int // -1 if there are no alternatives
	detail *v1alpha1.DeviceClaimDetail
	admin  bool
	takes  map[string]*inf.Dec
	// gives is what it gives to amounts that devices have together.
	gives map[string]*inf.Dec
}

func (c choice) String() string {
	name := fmt.Sprintf("claim-%d", c.part)
	if c.option >= 0 {
		name += fmt.Sprintf("/option-%d", c.option)
	}
	text := fmt.Sprintf("%s %s/%s admin=%t", name, c.of.pool.Name, c.of.device.Name, c.admin)
	for _, r := range c.of.device.Resources {
		text += fmt.Sprintf(" %s=%s", r.Name, c.takes[r.Name].Round(c.takes[r.Name], 0, inf.RoundExact))
	}
	return text
}

func newJudge(in translate.Prototype) *judge {
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv().Extend(
		cel.Variable("device", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		panic(err)
	}
	j := &judge{in: in, env: env, pooled: make(map[string]*inf.Dec)}
	pools := slices.Clone(in.Pools)
	slices.SortFunc(pools, func(a, b *v1alpha1.DevicePool) int {
		return cmp.Or(cmp.Compare(a.Spec.Driver, b.Spec.Driver), cmp.Compare(a.Name, b.Name))
	})
	for _, pool := range pools {
		if ptr.Deref(pool.Spec.NodeName, here) != here {
			continue
		}
		for i := range pool.Spec.Devices {
			c := &candidate{pool: pool, device: &pool.Spec.Devices[i], values: make(map[string]v1alpha1.Attribute), holds: make(map[string]bool), taken: make(map[string]*inf.Dec)}
			for _, attribute := range slices.Concat(pool.Spec.Attributes, c.device.Attributes) {
				c.values[attribute.Name] = attribute
			}
			j.devices = append(j.devices, c)
		}
	}
	return j
}

// allocate returns the first solution in the order of preference and keeps it, nil if there is
// none.
func (j *judge) allocate(claim *v1alpha1.DeviceClaim) []choice {
	all := preferencesOf(claim)
	var solution []choice
	for with := 1<<len(all) - 1; with >= 0 && solution == nil; with-- {
		// The most important preference is the highest bit.
		j.preferred = nil
		for rank, p := range all {
			if with>>(len(all)-1-rank)&1 == 1 {
				j.preferred = append(j.preferred, p)
			}
		}
		j.picked, j.fixed = make(map[int]picked), nil
		solution = j.parts(claim, 0, nil)
	}
	solution = j.numbered(claim, solution)
	for _, c := range solution {
		j.take(c, 1)
	}
	return solution
}

// numbered is the first solution with the options of this one, and with the best number of devices of the first part,
// then of the second one, and so on.
func (j *judge) numbered(claim *v1alpha1.DeviceClaim, solution []choice) []choice {
	if solution == nil {
		return nil
	}
	fixed := make(map[int]picked)
	for part, p := range j.picked {
		fixed[part] = picked{p.option, -1}
	}
	for part := range claim.Spec.Claims {
		option := fixed[part].option
		detail := &claim.Spec.Claims[part].DeviceClaimDetail
		if option >= 0 {
			detail = &claim.Spec.Claims[part].OneOf[option]
		}
		for _, n := range j.numbersOf(detail) {
			fixed[part] = picked{option, n}
			j.fixed = fixed
			if found := j.parts(claim, 0, nil); found != nil {
				solution = found
				break
			}
		}
	}
	return solution
}

// preference is an attribute that is to match in one part and option of a claim, -1 for all.
type preference struct {
	part, option int
	name         string
}

// preferencesOf lists those of a claim, the most important first.
func preferencesOf(claim *v1alpha1.DeviceClaim) (list []preference) {
	add := func(part, option int, names []string) {
		for _, name := range names {
			list = append(list, preference{part, option, name})
		}
	}
	add(-1, -1, claim.Spec.PreferredMatchAttributes)
	for i, instance := range claim.Spec.Claims {
		add(i, -1, instance.PreferredMatchAttributes)
		for option := range instance.OneOf {
			add(i, option, instance.OneOf[option].PreferredMatchAttributes)
		}
	}
	return list
}

func (p preference) has(chosen []choice) bool {
	own := slices.DeleteFunc(slices.Clone(chosen), func(c choice) bool { return p.part >= 0 && (c.part != p.part || c.option != p.option) })
	return agree(own, []string{p.name})
}

// parts solves what follows the first parts, of which the choices are made but not kept.
func (j *judge) parts(claim *v1alpha1.DeviceClaim, i int, chosen []choice) []choice {
	if i == len(claim.Spec.Claims) {
		if !agree(chosen, claim.Spec.MatchAttributes) || slices.ContainsFunc(j.preferred, func(p preference) bool { return !p.has(chosen) }) {
			return nil
		}
		return append([]choice{}, chosen...)
	}
	instance := &claim.Spec.Claims[i]
	if len(instance.OneOf) == 0 {
		return j.numbers(claim, choice{part: i, option: -1, detail: &instance.DeviceClaimDetail}, chosen)
	}
	for option := range instance.OneOf {
		if solution := j.numbers(claim, choice{part: i, option: option, detail: &instance.OneOf[option]}, chosen); solution != nil {
			return solution
		}
	}
	return nil
}

// numbers tries numbers of devices for one part, the best first.
func (j *judge) numbers(claim *v1alpha1.DeviceClaim, c choice, chosen []choice) []choice {
	fixed, isFixed := j.fixed[c.part]
	if isFixed && fixed.option != c.option {
		return nil
	}
	for _, n := range j.numbersOf(c.detail) {
		if isFixed && fixed.devices >= 0 && fixed.devices != n {
			continue
		}
		j.picked[c.part] = picked{c.option, n}
		if solution := j.slots(claim, c, n, 0, chosen); solution != nil {
			return solution
		}
	}
	return nil
}

// numbersOf lists how many devices a part may have: the most first, or the fewest if they have amounts together.
func (j *judge) numbersOf(detail *v1alpha1.DeviceClaimDetail) (list []int64) {
	least := int64(1)
	if asked, found := detail.Requests[v1alpha1.ResourceCount]; found {
		least = asked.Value()
	}
	limit := detail.Limits[v1alpha1.ResourceCount]
	if j.summed(detail) {
		most := int64(len(j.devices))
		if !limit.IsZero() {
			most = limit.Value()
		}
		for n := max(least, 1); n <= most; n++ {
			list = append(list, n)
		}
		return list
	}
	for n := max(least, limit.Value()); n >= least; n-- {
		list = append(list, n)
	}
	return list
}

// slots finds the devices of one part that are left to find, from one on: their order does not matter.
func (j *judge) slots(claim *v1alpha1.DeviceClaim, c choice, left int64, from int, chosen []choice) []choice {
	if left == 0 {
		own := slices.DeleteFunc(slices.Clone(chosen), func(other choice) bool { return other.part != c.part })
		if !agree(own, c.detail.MatchAttributes) || j.summed(c.detail) && !haveTogether(own, c.detail.Requests) {
			return nil
		}
		return j.parts(claim, c.part+1, chosen)
	}
	classes := j.classes(c.detail)
	c.admin = ptr.Deref(classes[0].Spec.AdminAccess, false)
	for i, of := range j.devices[from:] {
		if c.of, c.takes, c.gives = of, takes(of.device, c.detail), nil; j.summed(c.detail) {
			c.fill(chosen)
		}
		if !slices.ContainsFunc(classes, func(class *v1alpha1.DeviceClass) bool { return j.serves(of, class, c) }) || !j.free(c, chosen) {
			continue
		}
		j.take(c, 1)
		solution := j.slots(claim, c, left-1, from+i+1, append(chosen, c))
		j.take(c, -1)
		if solution != nil {
			return solution
		}
	}
	return nil
}

// classes are those by which devices may serve: the one that is named, or those of the type that
// have no admin access.
func (j *judge) classes(detail *v1alpha1.DeviceClaimDetail) (found []*v1alpha1.DeviceClass) {
	for _, class := range j.in.Classes {
		ofType := detail.DeviceType != nil && class.Spec.DeviceType == *detail.DeviceType && !ptr.Deref(class.Spec.AdminAccess, false)
		if ofType || detail.DeviceClass != nil && class.Name == *detail.DeviceClass {
			found = append(found, class)
		}
	}
	return found
}

// summed reports whether amounts are asked for that devices may have together: not of one that is shared.
func (j *judge) summed(detail *v1alpha1.DeviceClaimDetail) bool {
	_, counts := detail.Requests[v1alpha1.ResourceCount]
	if counts && len(detail.Requests) == 1 || len(detail.Requests) == 0 {
		return false
	}
	limit := detail.Limits[v1alpha1.ResourceCount]
	return limit.CmpInt64(1) != 0 || !slices.ContainsFunc(j.in.Pools, func(pool *v1alpha1.DevicePool) bool {
		shared := slices.ContainsFunc(pool.Spec.Devices, func(d v1alpha1.Device) bool { return len(d.Resources) > 0 })
		return shared && slices.ContainsFunc(j.classes(detail), func(class *v1alpha1.DeviceClass) bool { return class.Spec.Driver == pool.Spec.Driver })
	})
}

// fill works out what a device gives beside those of its part that were chosen before: what it has, or as
// much of its resources as is missing and free, in whole blocks.
func (c *choice) fill(chosen []choice) {
	c.gives = make(map[string]*inf.Dec)
	for name, amount := range c.detail.Requests {
		if value := c.of.values[name].QuantityValue; value != nil {
			c.gives[name] = dec(*value)
		}
		missing := dec(amount)
		for _, other := range chosen {
			if given := other.gives[name]; given != nil && other.part == c.part {
				missing = new(inf.Dec).Sub(missing, given)
			}
		}
		for _, r := range c.of.device.Resources {
			if r.Name != name {
				continue
			}
			free := dec(r.Capacity)
			if taken := c.of.taken[name]; taken != nil {
				free = new(inf.Dec).Sub(free, taken)
			}
			count := new(inf.Dec).QuoRound(missing, dec(*r.BlockSize), 0, inf.RoundUp)
			if most := new(inf.Dec).QuoRound(free, dec(*r.BlockSize), 0, inf.RoundDown); count.Cmp(most) > 0 {
				count = most
			}
			if count.Sign() < 0 {
				count = new(inf.Dec)
			}
			c.takes[name] = count.Mul(count, dec(*r.BlockSize))
			if c.gives[name] = c.takes[name]; c.gives[name].Cmp(missing) > 0 {
				c.gives[name] = missing
			}
		}
	}
}

// haveTogether: the devices give the amounts.
func haveTogether(chosen []choice, amounts map[string]resource.Quantity) bool {
	for name, amount := range amounts {
		if name == v1alpha1.ResourceCount {
			continue
		}
		var has *inf.Dec
		for _, c := range chosen {
			if given := c.gives[name]; given != nil {
				has = sum(has, given)
			}
		}
		if has == nil || has.Cmp(dec(amount)) < 0 {
			return false
		}
	}
	return true
}

// serves: the device is of the class, and has what is asked for.
func (j *judge) serves(of *candidate, class *v1alpha1.DeviceClass, c choice) bool {
	if of.pool.Spec.Driver != class.Spec.Driver || !j.holds(class.Spec.Constraints, of) || !j.holds(c.detail.Constraints, of) {
		return false
	}
	for name := range c.detail.Requests {
		if name != v1alpha1.ResourceCount && c.takes[name] == nil && !j.summed(c.detail) {
			return false
		}
	}
	for _, r := range of.device.Resources {
		if c.takes[r.Name].Cmp(dec(r.Capacity)) > 0 {
			return false
		}
	}
	return true
}

// free: no claim has the device, or it can be shared and enough is left of it and of its pool.
func (j *judge) free(c choice, chosen []choice) bool {
	shared := len(c.of.device.Resources) > 0
	for _, other := range chosen {
		if other.of == c.of && !shared {
			return false
		}
	}
	if c.admin {
		return true
	}
	if !shared && c.of.holders > 0 {
		return false
	}
	for _, r := range c.of.device.Resources {
		if sum(c.of.taken[r.Name], c.takes[r.Name]).Cmp(dec(r.Capacity)) > 0 {
			return false
		}
	}
	if c.of.holders > 0 {
		return true // the pool has been charged
	}
	for _, r := range c.of.pool.Spec.Resources {
		if sum(j.pooled[c.of.pool.Name+"/"+r.Name], fromPool(c.of.device, r)).Cmp(dec(r.Capacity)) > 0 {
			return false
		}
	}
	return true
}

// take adds a choice to what is in use, or takes it away.
func (j *judge) take(c choice, sign int64) {
	if c.admin {
		return
	}
	times := func(d *inf.Dec) *inf.Dec { return new(inf.Dec).Mul(d, inf.NewDec(sign, 0)) }
	first := c.of.holders == 0 && sign > 0 || c.of.holders == 1 && sign < 0
	c.of.holders += int(sign)
	for name, amount := range c.takes {
		c.of.taken[name] = sum(c.of.taken[name], times(amount))
	}
	for _, r := range c.of.pool.Spec.Resources {
		if first {
			key := c.of.pool.Name + "/" + r.Name
			j.pooled[key] = sum(j.pooled[key], times(fromPool(c.of.device, r)))
		}
	}
}

// agree: all devices have the attributes, with one value each.
func agree(chosen []choice, names []string) bool {
	for _, name := range names {
		for _, c := range chosen {
			value, found := c.of.values[name]
			if !found || !value.EqualValue(chosen[0].of.values[name]) {
				return false
			}
		}
	}
	return true
}

// holds reports whether an expression holds, as it was written.
func (j *judge) holds(expression *string, of *candidate) bool {
	if expression == nil {
		return true
	}
	holds, known := of.holds[*expression]
	if !known {
		holds = j.evaluate(expression, of)
		of.holds[*expression] = holds
	}
	return holds
}

func (j *judge) evaluate(expression *string, of *candidate) bool {
	compiled, issues := j.env.Compile(*expression)
	if issues.Err() != nil {
		panic(issues.Err())
	}
	program, err := j.env.Program(compiled)
	if err != nil {
		panic(err)
	}
	values := make(map[string]any)
	for name, attribute := range of.values {
		switch {
		case attribute.StringValue != nil:
			values[name] = *attribute.StringValue
		case attribute.IntValue != nil:
			values[name] = *attribute.IntValue
		case attribute.SemVerValue != nil:
			values[name] = apiservercel.Semver{Version: semver.MustParse(string(*attribute.SemVerValue))}
		case attribute.QuantityValue != nil:
			values[name] = apiservercel.Quantity{Quantity: attribute.QuantityValue}
		}
	}
	result, _, err := program.Eval(map[string]any{"device": values})
	if err != nil {
		panic(fmt.Sprintf("%s: %v", *expression, err))
	}
	return result.Value().(bool)
}

// takes is what a claim takes of a device's own resources, in blocks.
func takes(device *v1alpha1.Device, detail *v1alpha1.DeviceClaimDetail) map[string]*inf.Dec {
	taken := make(map[string]*inf.Dec)
	for _, r := range device.Resources {
		taken[r.Name] = blocks(detail.Requests[r.Name], r)
	}
	return taken
}

func fromPool(device *v1alpha1.Device, r v1alpha1.ResourceCapacity) *inf.Dec {
	return blocks(device.Requests[r.Name], r)
}

// blocks counts blocks until there are enough.
func blocks(amount resource.Quantity, r v1alpha1.ResourceCapacity) *inf.Dec {
	n := new(inf.Dec).QuoRound(dec(amount), dec(*r.BlockSize), 0, inf.RoundUp)
	return n.Mul(n, dec(*r.BlockSize))
}

func dec(q resource.Quantity) *inf.Dec { q = q.DeepCopy(); return q.AsDec() }

func sum(a, b *inf.Dec) *inf.Dec {
	total := new(inf.Dec)
	for _, part := range []*inf.Dec{a, b} {
		if part != nil {
			total.Add(total, part)
		}
	}
	return total
}
