package allocator

import (
	"slices"

	"github.com/dray-project/dray/pools"
)

// compatible are the members of a bin that may be chosen together: those in one
// compatibility group, or those in none. All that are chosen are among one such set.
type compatible struct {
	group   string // empty for those without groups
	members []int32
}

// addCompatible sorts the members of a bin by group. If all go together, none are listed.
func (b *bin) addCompatible(r *roster) {
	if !r.features.CompatibilityGroups || !slices.ContainsFunc(b.members, func(i int32) bool { return r.devices[i].grouped() }) {
		return
	}
	for _, i := range b.members {
		d := &r.devices[i]
		at := slices.IndexFunc(d.Groups, func(use pools.GroupUse) bool { return use.Set == b.set })
		if len(d.Groups[at].Groups) == 0 {
			b.together("", i)
		}
		for _, group := range d.Groups[at].Groups {
			b.together(group, i)
		}
	}
	if slices.ContainsFunc(b.compatible, func(c compatible) bool { return len(c.members) == len(b.members) }) {
		b.compatible = nil
	}
}

func (b *bin) together(group string, i int32) {
	at := slices.IndexFunc(b.compatible, func(c compatible) bool { return c.group == group })
	if at < 0 {
		at = len(b.compatible)
		b.compatible = append(b.compatible, compatible{group: group})
	}
	b.compatible[at].members = append(b.compatible[at].members, i)
}

// compatibleSlots is how many slots the members of a bin that are still to be charged can
// fill at most, as some of them do not go together.
func (m *matching) compatibleSlots(b *bin) int32 {
	most := int32(0)
	for _, c := range b.compatible {
		slots := int32(0)
		for _, i := range c.members {
			if m.viable.Test(uint(i)) && m.s.charges(i) {
				slots += m.capacity[i]
			}
		}
		most = max(most, slots)
	}
	return most
}

// grouped reports whether a device is in compatibility groups.
func (d *device) grouped() bool {
	return slices.ContainsFunc(d.Groups, func(use pools.GroupUse) bool { return len(use.Groups) > 0 })
}
