package allocator

import (
	"context"
	"sync"

	"github.com/dray-project/dray/pools"
)

// question is a Problem asked about one node. The instance is made again if somebody wants an
// explanation.
type question struct {
	asked
	once sync.Once
	// late is the instance made afterwards.
	late *instance
}

// asked is what makes a question.
type asked struct {
	problem *Problem
	view    pools.NodeView
	usage   Usage
	stats   Stats
}

// Node is the name of the node.
func (q *question) Node() string { return q.view.Node.Name }

// Stats tells what the answer cost. One that was known from another node cost nothing.
func (q *question) Stats() Stats { return q.stats }

func (q *question) outcome() {}

// instance returns the problem on the node.
func (q *question) instance() *instance {
	q.once.Do(func() {
		in, err := newInstance(context.Background(), q.problem, q.view, q.usage)
		if err != nil {
			// Snapshot and usage are immutable, and a node on which anything is an
			// error has no signature.
			panic("node " + q.Node() + " has an answer, but now: " + err.Error())
		}
		q.late = in
	})
	return q.late
}

// device returns the device at a place, and its pool.
func (q *question) device(place int32) (*pools.Pool, *pools.Device) {
	pool, i := deviceAt(q.view.Pools, place)
	return pool, &pool.Devices[i]
}

// deviceAt returns the pool and the index of the device at a place on a node.
func deviceAt(views []*pools.PoolView, place int32) (*pools.Pool, pools.DeviceIndex) {
	at := int(place)
	for _, pv := range views {
		if at < pv.Here() {
			return pv.Pool, pv.At(at)
		}
		at -= pv.Here()
	}
	panic("a place beyond the devices of the node")
}
