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
)

// Locality follows whether each device belongs to one node. It is asked under the locks of
// the scheduling queue, for each pod that gets there. It is safe for concurrent use.
type Locality struct {
	// Slices is asked where no events tell what changes.
	Slices fwk.ResourceSliceLister
	// synced reports whether events told of all slices. Nil without events.
	synced func() bool

	mu sync.RWMutex
	// shared are the names of slices with devices that several nodes may reach.
	shared sets.Set[string]
}

// NewLocality follows the scheduler's slices. A simulator's are listed each time.
func NewLocality(handle fwk.Handle) (*Locality, error) {
	l := &Locality{Slices: handle.SharedDRAManager().ResourceSlices(), shared: sets.New[string]()}
	if _, own := handle.SharedDRAManager().(*dynamicresources.DefaultDRAManager); !own {
		return l, nil
	}
	registration, err := handle.SharedInformerFactory().Resource().V1().ResourceSlices().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { l.observe(object, false) },
		UpdateFunc: func(_, object any) { l.observe(object, false) },
		DeleteFunc: func(object any) { l.observe(object, true) },
	})
	if err != nil {
		return nil, fmt.Errorf("follow resource slices: %w", err)
	}
	l.synced = registration.HasSynced
	return l, nil
}

func (l *Locality) observe(object any, deleted bool) {
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
}

func ofOneNode(slice *resourceapi.ResourceSlice) bool {
	return ptr.Deref(slice.Spec.NodeName, "") != "" || len(slice.Spec.Devices) == 0
}

// Synced reports whether events told of all slices.
func (l *Locality) Synced() bool { return l.synced != nil && l.synced() }

// NodeLocal reports whether each device belongs to one node.
func (l *Locality) NodeLocal() bool {
	if l.Synced() {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return l.shared.Len() == 0
	}
	slices, err := l.Slices.ListWithDeviceTaintRules()
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
