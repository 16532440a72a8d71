// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// heldBy says who holds the devices that a request could use.
func (d *Diagnosis) heldBy(r *request) []Detail {
	held := Counts{form: holders, nodes: 1}
	for _, one := range d.devices(func(one device) bool {
		return len(one.Holders) > 0 && !one.Shared && d.firstRejection(r, one) == nil
	}) {
		for _, holder := range one.Holders {
			held.add(Consumer(holder), 1)
		}
	}
	if len(held.list) == 0 {
		return nil
	}
	return []Detail{{Counts: []Counts{held}}}
}

// Consumer returns the names of the pods that hold a device. If no pod uses the claim, it returns
// the claim's name.
func Consumer(holder cluster.HolderState) string {
	if len(holder.Consumers) == 0 {
		return "claim " + holder.Claim
	}
	namespace, _, _ := strings.Cut(holder.Claim, "/")
	names := make([]string, len(holder.Consumers))
	for i, consumer := range holder.Consumers {
		names[i] = namespace + "/" + consumer
	}
	const most = 3
	if len(names) > most {
		return strings.Join(names[:most], " ") + " and " + numbered(len(names)-most, "other pod")
	}
	return strings.Join(names, " ")
}

// fromRules returns the names of the DeviceTaintRules that add a taint.
func (d *Diagnosis) fromRules(taint string) []Detail {
	rules := make(map[string]bool)
	d.devices(func(one device) bool {
		for i := range one.Taints {
			if TaintText(&one.Taints[i]) == taint {
				for _, rule := range d.cluster.TaintRules(one.pool.Driver, one.pool.Pool, one.Name, &one.Taints[i]) {
					rules[rule] = true
				}
			}
		}
		return false
	})
	if len(rules) == 0 {
		return []Detail{plain("published by the driver")}
	}
	return []Detail{plain("from DeviceTaintRule " + strings.Join(slices.Sorted(maps.Keys(rules)), ", "))}
}

// TaintText returns a taint in kubectl's format.
func TaintText(taint *resourceapi.DeviceTaint) string {
	text := taint.Key
	if taint.Value != "" {
		text += "=" + taint.Value
	}
	return text + ":" + string(taint.Effect)
}

// counters says which counters are exhausted for devices that a request could use, and who consumes
// them.
func (d *Diagnosis) counters(r *request, short *explain.Counter) []Detail {
	if short == nil {
		return nil // counters are not checked, because a feature is off
	}
	var details []string
	wanted := d.devices(func(one device) bool { return d.firstRejection(r, one) == nil && len(one.Holders) == 0 })
	seen := make(map[explain.Counter]bool)
	for _, one := range wanted {
		for _, use := range one.Object.ConsumesCounters {
			for _, name := range slices.Sorted(maps.Keys(use.Counters)) {
				needs := use.Counters[name].Value
				left, total, found := counter(one.pool, use.CounterSet, name)
				key := explain.Counter{Set: use.CounterSet, Name: name}
				if !found || needs.Cmp(left) <= 0 || seen[key] || name != short.Name {
					continue
				}
				seen[key] = true
				details = append(details, fmt.Sprintf("%s of counter set %s: %s needs %s, %s of %s is left%s", name, use.CounterSet, one.Name,
					needs.String(), left.String(), total.String(), charged(one.pool, use.CounterSet, name)))
			}
		}
	}
	return plainDetails(limit(details))
}

func counter(pool *cluster.PoolState, set, name string) (left, total resource.Quantity, found bool) {
	for _, s := range pool.CounterSets {
		for _, a := range s.Counters {
			if s.Name == set && a.Name == name {
				return a.Left, a.Total, true
			}
		}
	}
	return left, total, false
}

// charged returns a phrase with the holders of devices that consume a counter, and the amounts.
func charged(pool *cluster.PoolState, set, name string) string {
	sums := make(map[string]resource.Quantity)
	devices := make(map[string][]string)
	var order []string
	for i := range pool.Devices {
		one := &pool.Devices[i]
		for _, use := range one.Object.ConsumesCounters {
			amount, draws := use.Counters[name]
			if !draws || use.CounterSet != set || len(one.Holders) == 0 {
				continue
			}
			who := Consumer(one.Holders[0])
			if devices[who] == nil {
				order = append(order, who)
			}
			sum := sums[who]
			sum.Add(amount.Value)
			sums[who], devices[who] = sum, append(devices[who], one.Name)
		}
	}
	parts := make([]string, len(order))
	for i, who := range order {
		sum, what := sums[who], devices[who][0]
		if n := len(devices[who]); n > 1 {
			what = fmt.Sprintf("%d devices", n)
		}
		parts[i] = fmt.Sprintf("%s by %s (%s)", sum.String(), who, what)
	}
	if len(parts) == 0 {
		return ""
	}
	return "; in use: " + strings.Join(limit(parts), ", ")
}

// capacities says how much capacity a request needs of devices, what is left, and who has the rest.
// A request without an amount gets the device's default, or all.
func (d *Diagnosis) capacities(r *request) []Detail {
	var details []string
	for _, one := range d.devices(func(one device) bool { return d.firstRejection(r, one) == nil }) {
		for _, a := range one.Capacity {
			asked, wanted := r.asks(one, a)
			if asked.Cmp(a.Left) <= 0 {
				continue
			}
			text := fmt.Sprintf("%s of %s: %s, %s of %s is left", a.Name, one.Name, wanted, a.Left.String(), a.Total.String())
			var by []string
			for _, holder := range one.Holders {
				by = append(by, Consumer(holder))
			}
			if len(by) > 0 {
				text += "; in use by " + strings.Join(limit(by), ", ")
			}
			details = append(details, text)
		}
	}
	if r.capacity == nil {
		return plainDetails(limit(details))
	}
	for name := range r.capacity.Requests {
		if hint := d.missing(capacities, celName(string(name), d), ""); hint != "" {
			details = append(details, hint)
		}
	}
	return plainDetails(limit(details))
}

// asks returns the amount of a capacity that a request consumes, and its text. The text is empty if
// the device is not shared and the request has no amount.
func (r *request) asks(one device, a cluster.AmountState) (amount resource.Quantity, text string) {
	name := resourceapi.QualifiedName(a.Name)
	if r.capacity != nil {
		if asked, isAsked := r.capacity.Requests[name]; isAsked {
			return asked, asked.String() + " asked"
		}
	}
	if !one.Shared {
		return resource.Quantity{}, ""
	}
	if policy := one.Object.Capacity[name].RequestPolicy; policy != nil && policy.Default != nil {
		return *policy.Default, policy.Default.String() + " by default"
	}
	return a.Total, "all of it wanted, because the claim asks for no amount"
}

// limit shortens a list.
func limit(list []string) []string {
	const most = 4
	if len(list) <= most {
		return list
	}
	return append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(list)-most))
}
