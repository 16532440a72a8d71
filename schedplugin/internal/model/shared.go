package model

import (
	"reflect"
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
)

// Shared returns the Model of a manager, the same for all that ask with the same gates: the
// profiles of a scheduler see each other's claims in flight. A program has few managers, and
// their models are kept for as long as it runs.
func Shared(dra fwk.SharedDRAManager, gates pools.Gates) *Model {
	if !reflect.TypeOf(dra).Comparable() {
		return New(dra, gates) // nothing to recognise it by
	}
	known, _ := models.LoadOrStore(identity{dra, gates}, sync.OnceValue(func() *Model { return New(dra, gates) }))
	return known.(func() *Model)()
}

type identity struct {
	dra   fwk.SharedDRAManager
	gates pools.Gates
}

var models sync.Map // identity → func() *Model
