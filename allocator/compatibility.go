package allocator

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/pools"
)

// compatible are the members of a bin that may be chosen together: those in one
// compatibility group, or those in none. All that are chosen are among one such set.
type compatible struct {
	group   string // empty for those without groups
	members *bitset.BitSet
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
	if slices.ContainsFunc(b.compatible, func(c compatible) bool { return c.members.Count() == uint(len(b.members)) }) {
		b.compatible = nil
	}
}

func (b *bin) together(group string, i int32) {
	at := slices.IndexFunc(b.compatible, func(c compatible) bool { return c.group == group })
	if at < 0 {
		at = len(b.compatible)
		b.compatible = append(b.compatible, compatible{group, new(bitset.BitSet)})
	}
	b.compatible[at].members.Set(uint(i))
}

// grouped reports whether a device is in compatibility groups.
func (d *device) grouped() bool {
	return slices.ContainsFunc(d.Groups, func(use pools.GroupUse) bool { return len(use.Groups) > 0 })
}
