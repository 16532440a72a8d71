package wake

import (
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
)

// Slices follow whether each device belongs to one node, and which generations of pools there are.
// They are asked under the locks of the scheduling queue, for each pod that gets there. They are
// safe for concurrent use.
type Slices struct {
	// Lister is asked where no events tell what changes.
	Lister fwk.ResourceSliceLister
	// synced reports whether events told of all slices. Nil without events.
	synced func() bool

	mu sync.RWMutex
	// shared are the names of slices with devices that several nodes may reach.
	shared sets.Set[string]
	// generations are those of slices, by pool and name.
	generations map[pools.PoolID]map[string]int64
}

// NewSlices follows the scheduler's slices. A simulator's are listed each time.
func NewSlices(handle fwk.Handle) (*Slices, error) {
	l := newSlices(handle.SharedDRAManager().ResourceSlices(), nil)
	if _, own := handle.SharedDRAManager().(*dynamicresources.DefaultDRAManager); !own {
		return l, nil
	}
	registration, err := handle.SharedInformerFactory().Resource().V1().ResourceSlices().Informer().AddEventHandler(l.handler())
	if err != nil {
		return nil, fmt.Errorf("follow resource slices: %w", err)
	}
	l.synced = registration.HasSynced
	return l, nil
}

func newSlices(lister fwk.ResourceSliceLister, synced func() bool) *Slices {
	return &Slices{Lister: lister, synced: synced, shared: sets.New[string](), generations: make(map[pools.PoolID]map[string]int64)}
}

func (l *Slices) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { l.observe(object, false) },
		UpdateFunc: func(before, object any) {
			if was, ok := before.(*resourceapi.ResourceSlice); ok && poolOf(was) != poolOf(object.(*resourceapi.ResourceSlice)) {
				l.observe(before, true)
			}
			l.observe(object, false)
		},
		DeleteFunc: func(object any) { l.observe(object, true) },
	}
}

func (l *Slices) observe(object any, deleted bool) {
	if unseen, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unseen.Obj
	}
	slice, ok := object.(*resourceapi.ResourceSlice)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if deleted || ofOneNode(slice) {
		l.shared.Delete(slice.Name)
	} else {
		l.shared.Insert(slice.Name)
	}
	id := poolOf(slice)
	switch of := l.generations[id]; {
	case of == nil && !deleted:
		l.generations[id] = map[string]int64{slice.Name: slice.Spec.Pool.Generation}
	case !deleted:
		of[slice.Name] = slice.Spec.Pool.Generation
	default:
		if delete(of, slice.Name); len(of) == 0 {
			delete(l.generations, id)
		}
	}
}

func poolOf(slice *resourceapi.ResourceSlice) pools.PoolID {
	return pools.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}
}

// Outdates reports whether there may be slices of the same pool with a lower generation, of which
// the devices count once no slice has a higher one.
func (l *Slices) Outdates(slice *resourceapi.ResourceSlice) bool {
	if !l.Synced() {
		return true
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, generation := range l.generations[poolOf(slice)] {
		if generation < slice.Spec.Pool.Generation {
			return true
		}
	}
	return false
}

func ofOneNode(slice *resourceapi.ResourceSlice) bool {
	return ptr.Deref(slice.Spec.NodeName, "") != "" || len(slice.Spec.Devices) == 0
}

// Synced reports whether events told of all slices.
func (l *Slices) Synced() bool { return l.synced != nil && l.synced() }

// NodeLocal reports whether each device belongs to one node.
func (l *Slices) NodeLocal() bool {
	if l.Synced() {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return l.shared.Len() == 0
	}
	slices, err := l.Lister.ListWithDeviceTaintRules()
	if err != nil {
		return false
	}
	for _, slice := range slices {
		if !ofOneNode(slice) {
			return false
		}
	}
	return true
}
