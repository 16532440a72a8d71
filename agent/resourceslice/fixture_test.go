// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	upstream "k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

const (
	driver = "gpu.example.com"
	node   = "node-1"
)

var sliceResource = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}

// server is a fake API server which counts resource versions, generates names,
// and refuses updates of versions that are not the newest.
type server struct {
	*fake.Clientset
	mutex   sync.Mutex
	version int
	tries   []string // of writes: "create 00000"
	// refuse may return an error for a write; it is called with mutex locked.
	refuse func(verb string, slice *resourceapi.ResourceSlice) error
	// drop may modify what is stored.
	drop func(*resourceapi.ResourceSliceSpec)
}

func newServer(objects ...runtime.Object) *server {
	objects = append(objects, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "node-uid"}})
	s := &server{Clientset: fake.NewClientset(objects...), version: 100}
	for _, verb := range []string{"create", "update", "delete"} {
		s.PrependReactor(verb, "resourceslices", s.react)
	}
	return s
}

func (s *server) react(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	slice, err := s.subject(action)
	if err != nil {
		return true, nil, err
	}
	s.tries = append(s.tries, action.GetVerb()+" "+slice.Name[:5])
	if s.refuse != nil {
		if err := s.refuse(action.GetVerb(), slice); err != nil {
			return true, nil, err
		}
	}
	s.version++
	if action.GetVerb() != "delete" {
		slice.ResourceVersion = strconv.Itoa(s.version)
		if s.drop != nil {
			s.drop(&slice.Spec)
		}
	}
	return false, nil, nil
}

// subject is the slice that an action writes.
func (s *server) subject(action clienttesting.Action) (*resourceapi.ResourceSlice, error) {
	if created, ok := action.(clienttesting.CreateActionImpl); ok {
		slice := created.GetObject().(*resourceapi.ResourceSlice)
		slice.Name = fmt.Sprintf("%s%d", slice.GenerateName, s.version)
		slice.UID = types.UID(slice.Name)
		return slice, nil
	}
	name := ""
	if deleted, ok := action.(clienttesting.DeleteActionImpl); ok {
		name = deleted.Name
	}
	updated, isUpdate := action.(clienttesting.UpdateActionImpl)
	if isUpdate {
		slice, ok := updated.GetObject().(*resourceapi.ResourceSlice)
		if !ok { // client-go tries older versions of the API where it finds nothing
			return nil, apierrors.NewNotFound(sliceResource, "")
		}
		name = slice.Name
	}
	object, err := s.Tracker().Get(action.GetResource(), "", name)
	if err != nil {
		return nil, err
	}
	stored := object.(*resourceapi.ResourceSlice)
	if !isUpdate {
		return stored, nil
	}
	slice := updated.GetObject().(*resourceapi.ResourceSlice)
	if slice.ResourceVersion != stored.ResourceVersion {
		return nil, apierrors.NewConflict(sliceResource, name, fmt.Errorf("version %s is not %s", slice.ResourceVersion, stored.ResourceVersion))
	}
	return slice, nil
}

// attempts returns the writes since the last call, refused ones included.
func (s *server) attempts() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	out := s.tries
	s.tries = nil
	return out
}

func (s *server) setRefuse(refuse func(verb string, slice *resourceapi.ResourceSlice) error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.refuse = refuse
}

// blindWatch keeps events from watches that start later.
func (s *server) blindWatch() {
	s.PrependWatchReactor("resourceslices", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewFake(), nil
	})
}

// slices returns what is stored, by name.
func (s *server) slices(t *testing.T) []resourceapi.ResourceSlice {
	t.Helper()
	list, err := s.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// published describes what is stored: "pool/2: 00000=a,b 00001=c".
func (s *server) published(t *testing.T) []string {
	t.Helper()
	byPool := make(map[string]string)
	for _, slice := range s.slices(t) {
		key := fmt.Sprintf("%s/%d", slice.Spec.Pool.Name, slice.Spec.Pool.Generation)
		text := " " + slice.Name[:5] + "="
		for i, device := range slice.Spec.Devices {
			if i > 0 {
				text += ","
			}
			text += device.Name
		}
		byPool[key] += text
	}
	var out []string
	for key, text := range byPool {
		out = append(out, key+":"+text)
	}
	slices.Sort(out)
	return out
}

// publisher is a controller, ours or upstream's.
type publisher interface {
	Update(*DriverResources)
	Stop()
	writes() int
}

type ours struct{ *Controller }

func (c ours) writes() int {
	stats := c.GetStats()
	return int(stats.NumCreates + stats.NumUpdates + stats.NumDeletes)
}

type theirs struct{ *upstream.Controller }

func (c theirs) writes() int {
	stats := c.GetStats()
	return int(stats.NumCreates + stats.NumUpdates + stats.NumDeletes)
}

// peers starts a controller by name.
var peers = map[string]func(ctx context.Context, options Options) (publisher, error){
	"dray": func(ctx context.Context, options Options) (publisher, error) {
		c, err := StartController(ctx, options)
		return ours{c}, err
	},
	"upstream": func(ctx context.Context, options Options) (publisher, error) {
		c, err := upstream.StartController(ctx, upstream.Options{
			DriverName:            options.DriverName,
			KubeClient:            options.KubeClient,
			Owner:                 options.Owner,
			Resources:             options.Resources,
			MutationCacheTTL:      options.MutationCacheTTL,
			SyncDelay:             options.SyncDelay,
			ErrorHandler:          options.ErrorHandler,
			ReconcilePoolWithName: options.ReconcilePoolWithName,
		})
		return theirs{c}, err
	},
}

// errorLog is an ErrorHandler that remembers.
type errorLog struct {
	mutex  sync.Mutex
	errors []error
}

func (l *errorLog) handle(_ context.Context, err error, _ string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.errors = append(l.errors, err)
}

func (l *errorLog) all() []error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.errors)
}

// play runs a test of a controller in virtual time. The controller's owner is the
// node, and its errors go to the log.
func play(t *testing.T, peer string, s *server, test func(t *testing.T, c publisher, log *errorLog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := &errorLog{}
		c, err := peers[peer](t.Context(), Options{
			DriverName:   driver,
			KubeClient:   s,
			Owner:        &Owner{APIVersion: "v1", Kind: "Node", Name: node},
			ErrorHandler: log.handle,
			// When it is over, upstream's controller checks whether more than
			// this time has passed, again and again: virtual time stands still
			// while it does.
			MutationCacheTTL: ptr.To(24 * time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Stop()
		test(t, c, log)
	})
}

// after lets d of virtual time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// resources makes pools of slices of devices: {"pool": {"a,b", "c"}}.
func resources(pools map[string][]Slice) *DriverResources {
	out := &DriverResources{Pools: make(map[string]Pool)}
	for name, slices := range pools {
		out.Pools[name] = Pool{Slices: slices}
	}
	return out
}

// pool is resources with one pool, named after the node.
func pool(slices ...Slice) *DriverResources { return resources(map[string][]Slice{node: slices}) }

func sliceWith(devices ...resourceapi.Device) Slice { return Slice{Devices: devices} }

// devices makes a slice of devices with these names.
func devices(names ...string) Slice {
	var out Slice
	for _, name := range names {
		out.Devices = append(out.Devices, resourceapi.Device{Name: name})
	}
	return out
}

// device has one attribute.
func device(name, model string) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To(model)}}}
}

func tainted(name string, taints ...resourceapi.DeviceTaint) resourceapi.Device {
	return resourceapi.Device{Name: name, Taints: taints}
}
