// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
)

// Whatever happens to claims, both ways of following them end up with what is held.
func TestFollowsClaims(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		c := newCluster()
		lists, told := New(c, pools.Gates{}), New(c, pools.Gates{})
		if err := told.FollowEvents(informer{cluster: c}); err != nil {
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
			if a, b := heldIn(t, lists), heldIn(t, told); a != b || (a == 0) != (len(want) == 0) {
				t.Fatalf("seed %d: %x held by what is listed, %x by what is told, with %v in use", seed, a, b, want)
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
	if err := m.FollowEvents(informer{cluster: c}); err != nil {
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

// An informer that missed the deletion of a claim tells of the last object that it knew.
func TestMissedDeletion(t *testing.T) {
	c := newCluster()
	m := New(c, pools.Gates{})
	if err := m.FollowEvents(informer{cluster: c}); err != nil {
		t.Fatal(err)
	}
	held := c.put("a", "a", "0")
	if got := inUse(t, m); !slices.Equal(got, []string{"0"}) {
		t.Fatalf("%v in use, want 0", got)
	}
	delete(c.claims, "a")
	m.Changed(cache.DeletedFinalStateUnknown{Key: "default/a", Obj: held}, true)
	if got := inUse(t, m); len(got) > 0 {
		t.Errorf("%v in use after the claim was deleted", got)
	}
}

// A claim that contradicts another one is an error until that ends. It keeps no other change from being seen, nor is it
// forgotten: here a manager lists a claim that is in flight, and was told of as one that it does not list.
func TestContradictions(t *testing.T) {
	c := newCluster()
	m := New(c, pools.Gates{})
	if err := m.FollowEvents(informer{cluster: c}); err != nil {
		t.Fatal(err)
	}
	inUse(t, m)
	flying := c.put("a", "a", "0")
	c.pending[flying.UID] = flying.Status.Allocation
	m.Pending(flying)
	m.Changed(flying, false)
	for i := 1; i < devices; i++ {
		name := strconv.Itoa(i)
		m.Changed(c.put(name, types.UID(name), name), false)
	}
	if _, err := m.Observe(); err == nil {
		t.Fatal("no error")
	}
	delete(c.pending, flying.UID)
	if got, want := inUse(t, m), []string{"0", "1", "2", "3", "4", "5"}; !slices.Equal(got, want) {
		t.Errorf("%v in use, want %v", got, want)
	}
}

// A list that fails is repeated, also if changes are told: these are not all there is.
func TestListFails(t *testing.T) {
	c := newCluster()
	c.failing = 1
	c.put("a", "a", "0")
	m := New(c, pools.Gates{})
	if err := m.FollowEvents(informer{cluster: c}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Observe(); err == nil {
		t.Fatal("no error")
	}
	if got, want := inUse(t, m), []string{"0"}; !slices.Equal(got, want) {
		t.Errorf("%v in use, want %v", got, want)
	}
}

// A claim may be allocated, deallocated or deleted between the list and GetPendingAllocation. The later state counts.
func TestClaimChangesAfterTheList(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *cluster)
		want   []string
	}{
		"as listed":             {func(c *cluster) { c.put("a", "a", "") }, []string{"1"}},
		"gone":                  {func(c *cluster) { delete(c.claims, "a") }, []string{"1"}},
		"allocated once more":   {func(c *cluster) { c.put("a", "a", "2") }, []string{"1", "2"}},
		"in flight":             {func(c *cluster) { c.pending["a"] = allocation("3") }, []string{"1", "3"}},
		"another one, and idle": {func(c *cluster) { c.put("a", "later", "") }, []string{"1"}},
	} {
		c := newCluster()
		list := []*resourceapi.ResourceClaim{c.put("a", "a", "0"), c.put("b", "b", "1")}
		m := New(inOrder{c, &list}, pools.Gates{})
		if got, want := inUse(t, m), []string{"0", "1"}; !slices.Equal(got, want) {
			t.Fatalf("%v in use, want %v", got, want)
		}
		list[0] = c.put("a", "a", "")
		test.change(c)
		if got := inUse(t, m); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v in use, want %v", name, got, test.want)
		}
	}
}

// A first list is recorded at once, but for one that has a claim twice: there the last one counts, as in later lists.
func TestFirstListHasClaimTwice(t *testing.T) {
	c := newCluster()
	list := []*resourceapi.ResourceClaim{c.put("a", "a", "0"), c.put("b", "b", "1"), c.put("c", "c", ""), c.put("a", "a2", "2")}
	m := New(inOrder{c, &list}, pools.Gates{})
	for range 2 {
		if got, want := inUse(t, m), []string{"1", "2"}; !slices.Equal(got, want) {
			t.Errorf("%v in use, want %v", got, want)
		}
	}
	list = nil
	if got := inUse(t, m); len(got) > 0 {
		t.Errorf("%v in use of no claims", got)
	}
}

// A manager has one model for all that ask alike.
func TestShared(t *testing.T) {
	one, two := newCluster(), newCluster()
	shared := Shared(t.Context(), one, pools.Gates{})
	if shared != Shared(t.Context(), one, pools.Gates{}) || shared == Shared(t.Context(), two, pools.Gates{}) ||
		shared == Shared(t.Context(), one, pools.Gates{ConsumableCapacity: true}) {
		t.Error("models are not shared by manager and gates")
	}
}

// Claims come and go, and events arrive in any order. A claim is observed only until the manager has its
// latest version.
func TestForgetsClaims(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := newCluster()
		m := New(c, pools.Gates{})
		if err := m.FollowEvents(informer{cluster: c}); err != nil {
			t.Fatal(err)
		}
		var late []func()
		for n := range 200 {
			name := strconv.Itoa(random.IntN(50))
			old := c.claims[name]
			if old != nil && random.IntN(2) == 0 {
				delete(c.claims, name)
				late = append(late, func() { m.Changed(old, true) })
			} else {
				claim := c.put(name, types.UID(name+"-"+strconv.Itoa(n)), strconv.Itoa(random.IntN(devices)))
				late = append(late, func() { m.Changed(claim, false) })
			}
			if random.IntN(4) == 0 {
				inUse(t, m)
			}
			// Some reports come late, and not in the order of what they report.
			for len(late) > random.IntN(5) {
				i := random.IntN(len(late))
				late[i]()
				late = slices.Delete(late, i, i+1)
			}
		}
		for _, report := range late {
			report()
		}
		if got, want := inUse(t, m), c.expected(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v in use, want %v", seed, got, want)
		}
		if left := len(m.changes.dirty); left > 0 {
			t.Fatalf("seed %d: %d claims are looked at for ever", seed, left)
		}
		if len(m.claims) != len(c.claims) {
			t.Fatalf("seed %d: %d claims are known, want %d", seed, len(m.claims), len(c.claims))
		}
	}
}

// Claims that were written and then deleted, which the informer reports before whoever wrote
// them does, are not waited for.
func TestForgetsClaimsReportedLate(t *testing.T) {
	c := newCluster()
	m := New(c, pools.Gates{})
	if err := m.FollowEvents(informer{cluster: c}); err != nil {
		t.Fatal(err)
	}
	inUse(t, m)
	for i := range 50 {
		claim := c.put(strconv.Itoa(i), types.UID(strconv.Itoa(i)), "")
		delete(c.claims, claim.Name)
		m.Changed(claim, true)
		m.Changed(claim, false)
	}
	inUse(t, m)
	if left := len(m.changes.dirty); left > 0 {
		t.Errorf("%d claims are looked at for ever", left)
	}
}

// Claims may change without becoming other objects, as those of simulators do.
func TestClaimsChangedInPlace(t *testing.T) {
	c := newCluster()
	m := New(c, pools.Gates{})
	claim := c.put("a", "a", "1")
	for _, test := range []struct {
		change func()
		want   []string
	}{
		{func() {}, []string{"1"}},
		{func() { claim.Status.Allocation = nil }, nil},
		{func() { claim.Status.Allocation = allocation("2") }, []string{"2"}},
		{func() { claim.Status.Allocation.Devices = allocation("3").Devices }, []string{"3"}},
		{func() { claim.UID = "b" }, []string{"3"}},
		{func() { claim.Status.Allocation = nil }, nil},
		{func() {
			claim.Status.Allocation = allocation("5")
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, allocation("1").Devices.Results...)
		}, []string{"1", "5"}},
		{func() { claim.Status.Allocation.Devices.Results = claim.Status.Allocation.Devices.Results[:1] }, []string{"5"}},
		{func() { claim.Status.Allocation = nil; c.put("z", "z", "4") }, []string{"4"}},
	} {
		test.change()
		if got := inUse(t, m); !slices.Equal(got, test.want) {
			t.Errorf("%v in use, want %v", got, test.want)
		}
	}
}

// A claim that becomes another one in place holds what it held, on behalf of somebody else.
func TestClaimReplacedInPlace(t *testing.T) {
	c := newCluster()
	m := New(c, pools.Gates{})
	claim := c.put("a", "a", "1")
	seen := make(map[uint64]types.UID)
	for _, uid := range []types.UID{"a", "b", "c"} {
		claim.UID = uid
		view, err := m.Observe()
		if err != nil {
			t.Fatal(err)
		}
		if other, known := seen[view.HeldHash]; known {
			t.Errorf("claim %s holds the same as claim %s", uid, other)
		}
		seen[view.HeldHash] = uid
	}
}

// Simulators go back to objects that they had before, and change them in place.
func TestClaimsReverted(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		c := newCluster()
		m := New(c, pools.Gates{})
		var all []*resourceapi.ResourceClaim
		for i := range 12 {
			name, device := strconv.Itoa(i%4), ""
			if i >= 4 {
				device = strconv.Itoa(i % devices)
			}
			all = append(all, c.put(name, types.UID(name+strconv.Itoa(i/8)), device))
		}
		for range 40 {
			claim := all[random.IntN(len(all))]
			switch random.IntN(6) {
			case 0:
				delete(c.claims, claim.Name)
			case 1:
				claim.Status.Allocation = allocation(strconv.Itoa(random.IntN(devices)))
			case 2:
				claim.Status.Allocation = nil
			case 3:
				c.pending = map[types.UID]*resourceapi.AllocationResult{}
				if current := c.claims[claim.Name]; current != nil && current.Status.Allocation == nil {
					c.pending[current.UID] = allocation(strconv.Itoa(random.IntN(devices)))
				}
			default:
				c.claims[claim.Name] = claim
			}
			for uid := range c.pending { // is about a claim that is there, and not allocated
				if !slices.ContainsFunc(all, func(claim *resourceapi.ResourceClaim) bool {
					return claim.UID == uid && c.claims[claim.Name] == claim && claim.Status.Allocation == nil
				}) {
					delete(c.pending, uid)
				}
			}
			if got, want := inUse(t, m), c.expected(); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v in use, want %v", seed, got, want)
			}
		}
	}
}

// Model.seen does not grow with objects that no longer exist.
func TestSeenObjectsAreBounded(t *testing.T) {
	c := newCluster()
	m := New(c, pools.Gates{})
	for i := range 50 * minSeen {
		c.put("a", "a", strconv.Itoa(i%devices))
		inUse(t, m)
	}
	if got := len(m.seen); got > 2*minSeen {
		t.Errorf("%d objects are remembered of one claim", got)
	}
}

// Held devices are updated when an object replaces another one, whichever part of the results differs.
func TestResultsThatDiffer(t *testing.T) {
	first, second := types.UID("1"), types.UID("2")
	for name, change := range map[string]func(result *resourceapi.DeviceRequestAllocationResult){
		"nothing":  func(*resourceapi.DeviceRequestAllocationResult) {},
		"driver":   func(r *resourceapi.DeviceRequestAllocationResult) { r.Driver = "other" },
		"pool":     func(r *resourceapi.DeviceRequestAllocationResult) { r.Pool = "other" },
		"device":   func(r *resourceapi.DeviceRequestAllocationResult) { r.Device = "2" },
		"request":  func(r *resourceapi.DeviceRequestAllocationResult) { r.Request = "other" },
		"admin":    func(r *resourceapi.DeviceRequestAllocationResult) { r.AdminAccess = ptr.To(true) },
		"no share": func(r *resourceapi.DeviceRequestAllocationResult) { r.ShareID = nil },
		"share":    func(r *resourceapi.DeviceRequestAllocationResult) { r.ShareID = &second },
		"consumes": func(r *resourceapi.DeviceRequestAllocationResult) {
			r.ConsumedCapacity["memory"] = resource.MustParse("2Gi")
		},
		"tolerations": func(r *resourceapi.DeviceRequestAllocationResult) {
			r.Tolerations = []resourceapi.DeviceToleration{{Key: "k"}}
		},
	} {
		c := newCluster()
		c.slices[0].Spec.Devices[1].AllowMultipleAllocations = ptr.To(true)
		claim := c.put("a", "a", "1")
		result := &claim.Status.Allocation.Devices.Results[0]
		result.ShareID, result.ConsumedCapacity = &first, map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("1Gi")}
		gates := pools.Gates{ConsumableCapacity: true}
		m := New(c, gates)
		before := usageOf(t, m)
		changed := claim.DeepCopy()
		change(&changed.Status.Allocation.Devices.Results[0])
		c.claims["a"] = changed
		if got, want := usageOf(t, m), usageOf(t, New(c, gates)); got != want {
			t.Errorf("%s: in use is\n%s, want\n%s", name, got, want)
		} else if told := got != before; told == slices.Contains([]string{"nothing", "share", "tolerations"}, name) {
			t.Errorf("%s: in use was\n%s, and is\n%s", name, before, got)
		}
	}
}

// usageOf describes what is in use of the devices that there are.
func usageOf(t *testing.T, m *Model) string {
	t.Helper()
	view, err := m.Observe()
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	usage := view.State.Pool(firstPool(view))
	for device := range firstPool(view).Devices() {
		consumed := usage.Consumed(device, "memory")
		text += fmt.Sprintln(device.ID(), usage.InUse(device), usage.Shared(device), consumed.String())
		for _, holder := range view.State.Holders(device.ID()) {
			text += fmt.Sprintln("  held by", holder, holder.Request)
		}
	}
	return text
}

// A list of slices may be another one although it is in the same place.
func TestSlicesChangedInPlace(t *testing.T) {
	c := newCluster()
	m := New(c, pools.Gates{})
	c.put("a", "a", "1")
	if got := inUse(t, m); len(got) != 1 {
		t.Fatalf("%v in use", got)
	}
	other := c.slices[0].DeepCopy()
	other.Spec.Devices = other.Spec.Devices[2:]
	c.slices[0] = other
	if got := inUse(t, m); len(got) != 0 {
		t.Errorf("%v in use, of devices that are gone", got)
	}
}
