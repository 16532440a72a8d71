package schedplugin

import (
	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// perMille is the scale of what is measured of a node.
const perMille = 1000

// outlook is what becomes of the devices of a node, as far as their drivers concern the pod.
type outlook struct {
	// total is how many devices there are, used how many of them will be in use.
	total, used int64
	// free is how many can be allocated now, wasted how many of these cannot any more
	// afterwards, though the pod does not use them.
	free, wasted int64
}

// usage is how much is in use, in per mille.
func (o outlook) usage() int64 { return share(o.used, o.total) }

// thrift is how much stays useful, in per mille.
func (o outlook) thrift() int64 { return perMille - share(o.wasted, o.free) }

func share(part, of int64) int64 {
	if of == 0 {
		return 0
	}
	return part * perMille / of
}

// outlookOf compares a node as it is with how it is after an assignment.
func outlookOf(c *cycle, suited *suitable, assignment *allocator.Assignment) (outlook, error) {
	after := c.view.Fork()
	results := assignment.Results()
	for i, claim := range suited.variant.claims {
		if err := after.Allocate(withAllocation(claim.object, &results[i])); err != nil {
			return outlook{}, err
		}
	}
	drivers := make(map[string]bool)
	picked := make(map[pools.DeviceID]bool)
	for _, choice := range assignment.Choices() {
		drivers[choice.Device.Driver], picked[choice.Device] = true, true
	}
	view, err := c.view.Snapshot.GatherPools(suited.node)
	if err != nil {
		return outlook{}, err
	}
	var o outlook
	for _, reached := range view.Pools {
		if drivers[reached.Pool.ID.Driver] {
			o.add(reached, c.view.Usage.Pool(reached.Pool), after.Usage().Pool(reached.Pool), picked)
		}
	}
	return o, nil
}

func (o *outlook) add(v *pools.PoolView, before, after *pools.PoolUsage, picked map[pools.DeviceID]bool) {
	for n := range v.Here() {
		i := v.At(n)
		o.total++
		if after.InUse(i) || after.Shared(i) {
			o.used++
		}
		if !obtainable(v.Pool, i, before) {
			continue
		}
		o.free++
		if !picked[v.Pool.DeviceID(i)] && !obtainable(v.Pool, i, after) {
			o.wasted++
		}
	}
}

// obtainable reports whether a device by itself can be allocated as a whole.
func obtainable(p *pools.Pool, i pools.DeviceIndex, u *pools.PoolUsage) bool {
	device := &p.Devices[i]
	if u.InUse(i) || u.Shared(i) {
		return false
	}
	for _, use := range device.Uses {
		if u.Left[use.Counter].Cmp(use.Amount) < 0 {
			return false
		}
	}
	for _, group := range device.Groups {
		if !u.Groups[group.Set].Admits(group.Groups) {
			return false
		}
	}
	return true
}
