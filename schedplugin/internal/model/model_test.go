package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
)

// cluster is a SharedDRAManager in memory. Methods which a Model does not call are missing.
type cluster struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	slices  []*resourceapi.ResourceSlice
	claims  map[string]*resourceapi.ResourceClaim
	pending map[types.UID]*resourceapi.AllocationResult
	version int
	// listed counts lists of claims.
	listed int
}

func (c *cluster) ResourceClaims() fwk.ResourceClaimTracker { return c }
func (c *cluster) ResourceSlices() fwk.ResourceSliceLister  { return c }
func (c *cluster) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return c.slices, nil
}

func (c *cluster) List() ([]*resourceapi.ResourceClaim, error) {
	c.listed++
	var list []*resourceapi.ResourceClaim
	for _, claim := range c.claims {
		list = append(list, claim)
	}
	return list, nil
}

func (c *cluster) Get(_, name string) (*resourceapi.ResourceClaim, error) {
	if claim := c.claims[name]; claim != nil {
		return claim, nil
	}
	return nil, fmt.Errorf("claim %s not found", name)
}

func (c *cluster) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	return c.pending[uid]
}

// put stores a claim with the device it holds, if any, as an object of its own.
func (c *cluster) put(name string, uid types.UID, device string) *resourceapi.ResourceClaim {
	c.version++
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: uid, ResourceVersion: strconv.Itoa(c.version),
	}}
	if device != "" {
		claim.Status.Allocation = allocation(device)
	}
	c.claims[name] = claim
	return claim
}

func allocation(device string) *resourceapi.AllocationResult {
	return &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "r", Driver: "d", Pool: "p", Device: device},
	}}}
}

const devices = 6

func newCluster() *cluster {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "d", NodeName: ptr.To("n"), Pool: resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1},
	}}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: strconv.Itoa(i)})
	}
	return &cluster{
		slices:  []*resourceapi.ResourceSlice{slice},
		claims:  make(map[string]*resourceapi.ResourceClaim),
		pending: make(map[types.UID]*resourceapi.AllocationResult),
	}
}

// inUse lists the devices that a view has in use.
func inUse(t *testing.T, m *Model) []string {
	t.Helper()
	view, err := m.Observe()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	pool := view.Snapshot.Pools()[0]
	usage := view.Usage.Pool(pool)
	for i := range pool.Devices {
		if usage.InUse(pools.DeviceIndex(i)) {
			list = append(list, pool.Devices[i].Object.Name)
		}
	}
	return list
}

// expected is the same from scratch.
func (c *cluster) expected() []string {
	held := make(map[string]bool)
	for _, claim := range c.claims {
		if a := claim.Status.Allocation; a != nil {
			held[a.Devices.Results[0].Device] = true
		}
	}
	for _, a := range c.pending {
		held[a.Devices.Results[0].Device] = true
	}
	var list []string
	for name := range held {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// informer delivers no events by itself.
type informer struct{ cache.SharedInformer }

func (informer) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

// Whatever happens to claims, both ways of following them end up with what is held.
func TestFollowsClaims(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		c := newCluster()
		lists, told := New(c, pools.Gates{}), New(c, pools.Gates{})
		if err := told.FollowEvents(informer{}); err != nil {
			t.Fatal(err)
		}
		for range 30 {
			c.change(random, lists, told)
			if random.IntN(2) == 0 {
				continue
			}
			want := c.expected()
			if got := inUse(t, lists); !slices.Equal(got, want) {
				t.Fatalf("seed %d: listing: %v in use, want %v", seed, got, want)
			}
			if got := inUse(t, told); !slices.Equal(got, want) {
				t.Fatalf("seed %d: told: %v in use, want %v", seed, got, want)
			}
		}
	}
}

// change does something to one of a few claims, and reports it to the model that is told.
func (c *cluster) change(random *rand.Rand, lists, m *Model) {
	name, device := strconv.Itoa(random.IntN(4)), strconv.Itoa(random.IntN(devices))
	uid := types.UID(name + "-" + strconv.Itoa(random.IntN(2)))
	old := c.claims[name]
	if old != nil {
		delete(c.pending, old.UID) // whatever comes now, the flight has ended
	}
	switch random.IntN(5) {
	case 0:
		delete(c.claims, name)
		m.Changed(old, true)
	case 1:
		m.Changed(c.put(name, uid, ""), false)
	case 2:
		claim := c.put(name, uid, "")
		c.pending[uid] = allocation(device)
		m.Changed(claim, false)
	case 3: // for extended resources
		unlisted := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "<unmade>", UID: "unmade-" + uid}}
		unlisted.Status.Allocation = allocation(device)
		if random.IntN(2) == 0 {
			c.pending[unlisted.UID] = unlisted.Status.Allocation
			lists.Pending(unlisted)
			m.Pending(unlisted)
		} else {
			delete(c.pending, unlisted.UID)
		}
		if old != nil {
			m.Changed(old, false)
		}
	default:
		m.Changed(c.put(name, uid, device), false)
	}
}

// A report that is ahead of the manager is not lost.
func TestWaitsUntilVisible(t *testing.T) {
	c := newCluster()
	m := New(c, pools.Gates{})
	if err := m.FollowEvents(informer{}); err != nil {
		t.Fatal(err)
	}
	before := c.put("a", "a", "")
	inUse(t, m)
	after := c.put("a", "a", "3")
	c.claims["a"] = before
	m.Changed(after, false)
	if got := inUse(t, m); len(got) > 0 {
		t.Fatalf("%v in use before the manager says so", got)
	}
	c.claims["a"] = after
	if got := inUse(t, m); !slices.Equal(got, []string{"3"}) {
		t.Fatalf("%v in use, want 3", got)
	}
	m.Changed(after, true)
	inUse(t, m)
	delete(c.claims, "a")
	if got := inUse(t, m); len(got) > 0 {
		t.Fatalf("%v in use after the claim was deleted", got)
	}
	if c.listed != 1 {
		t.Errorf("claims were listed %d times, want once", c.listed)
	}
	if left := len(m.changes.dirty); left > 0 {
		t.Errorf("%d claims are looked at for ever", left)
	}
}

// A manager has one model for all that ask alike.
func TestShared(t *testing.T) {
	one, two := newCluster(), newCluster()
	shared := Shared(one, pools.Gates{})
	if shared != Shared(one, pools.Gates{}) || shared == Shared(two, pools.Gates{}) ||
		shared == Shared(one, pools.Gates{ConsumableCapacity: true}) {
		t.Error("models are not shared by manager and gates")
	}
}
