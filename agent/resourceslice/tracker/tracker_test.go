// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package tracker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes/fake"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/client-go/tools/cache"
	upstream "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/internal/dev/fakeapi"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// patience is for machines that have other things to do.
const patience = 5 * time.Minute

func slice(version int, devices ...string) *resourceapi.ResourceSlice {
	out := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "slice", ResourceVersion: fmt.Sprint(version)},
		Spec:       resourceapi.ResourceSliceSpec{Driver: "d", Pool: resourceapi.ResourcePool{Name: "p"}, AllNodes: ptr.To(true)},
	}
	for _, name := range devices {
		out.Spec.Devices = append(out.Spec.Devices, resourceapi.Device{Name: name})
	}
	return out
}

func rule(name string, device *string) *resourceapi.DeviceTaintRule {
	return &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To("d"), Device: device},
			Taint:          resourceapi.DeviceTaint{Key: name, Effect: resourceapi.DeviceTaintEffectNoSchedule},
		},
	}
}

// tracking is what both trackers do.
type tracking interface {
	ListPatchedResourceSlices() ([]*resourceapi.ResourceSlice, error)
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
	Stop()
}

// trackers starts one by name.
var trackers = map[string]func(ctx context.Context, opts Options) (tracking, error){
	"dray": func(ctx context.Context, opts Options) (tracking, error) { return StartTracker(ctx, opts) },
	"upstream": func(ctx context.Context, opts Options) (tracking, error) {
		return upstream.StartTracker(ctx, upstream.Options(opts))
	},
}

// captured is an informer whose events a test delivers, whenever it likes.
type captured struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
	removed int
}

func (c *captured) RemoveEventHandler(registration cache.ResourceEventHandlerRegistration) error {
	c.removed++
	return c.SharedIndexInformer.RemoveEventHandler(registration)
}

func (c *captured) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	c.handler = handler
	return c.SharedIndexInformer.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{}, options)
}

type capturedSlices struct {
	resourceinformers.ResourceSliceInformer
	informer *captured
}

func (c capturedSlices) Informer() cache.SharedIndexInformer { return c.informer }

type capturedRules struct {
	resourceinformers.DeviceTaintRuleInformer
	informer *captured
}

func (c capturedRules) Informer() cache.SharedIndexInformer { return c.informer }

// startCaptured starts a tracker of informers whose events the test delivers.
func startCaptured(t *testing.T, name string) (tracker tracking, slices, rules *captured) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	sliceInformer, ruleInformer := factory.Resource().V1().ResourceSlices(), factory.Resource().V1().DeviceTaintRules()
	slices, rules = &captured{SharedIndexInformer: sliceInformer.Informer()}, &captured{SharedIndexInformer: ruleInformer.Informer()}
	tracker, err := trackers[name](t.Context(), Options{
		EnableDeviceTaintRules: true,
		SliceInformer:          resourceinformers.ToTypedResourceSliceInformer(capturedSlices{sliceInformer, slices}),
		TaintInformer:          resourceinformers.ToTypedDeviceTaintRuleInformer(capturedRules{ruleInformer, rules}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tracker, slices, rules
}

// store has the informer hold an object, without an event.
func (c *captured) store(t *testing.T, object any) {
	t.Helper()
	if err := c.GetIndexer().Add(object); err != nil {
		t.Fatal(err)
	}
}

// TestRuleBeforeSlice: the event of a rule comes when the informer has the new version
// of a slice with more devices, and has not told yet.
func TestRuleBeforeSlice(t *testing.T) {
	for name, panics := range map[string]bool{"dray": false, "upstream": true} {
		t.Run(name, func(t *testing.T) {
			tracker, slices, rules := startCaptured(t, name)
			defer tracker.Stop()
			before, now, taint := slice(1, "a"), slice(2, "a", "b"), rule("r", nil)
			slices.store(t, before)
			slices.handler.OnAdd(before, false)
			slices.store(t, now)
			rules.store(t, taint)
			panicked := func() (panicked bool) {
				defer func() { panicked = recover() != nil }()
				rules.handler.OnAdd(taint, false)
				slices.handler.OnUpdate(before, now)
				return false
			}()
			if panicked != panics {
				t.Fatalf("panicked: %v", panicked)
			}
			if got := list(t, tracker); !panics && got != "a:r b:r" {
				t.Errorf("shown %q", got)
			}
		})
	}
}

// TestMissedDeletions: an informer that missed a deletion tells of the last object that it knew.
func TestMissedDeletions(t *testing.T) {
	for name := range trackers {
		t.Run(name, func(t *testing.T) {
			tracker, slices, rules := startCaptured(t, name)
			defer tracker.Stop()
			known, taint := slice(1, "a"), rule("r", nil)
			slices.store(t, known)
			rules.store(t, taint)
			slices.handler.OnAdd(known, false)
			rules.handler.OnAdd(taint, false)
			if got := list(t, tracker); got != "a:r" {
				t.Errorf("shown %q", got)
			}
			if err := rules.GetIndexer().Delete(taint); err != nil {
				t.Fatal(err)
			}
			rules.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: taint.Name, Obj: taint})
			if got := list(t, tracker); got != "a:" {
				t.Errorf("without the rule: shown %q", got)
			}
			if err := slices.GetIndexer().Delete(known); err != nil {
				t.Fatal(err)
			}
			slices.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: known.Name, Obj: known})
			if got := list(t, tracker); got != "" {
				t.Errorf("without the slice: shown %q", got)
			}
		})
	}
}

// TestStop: a tracker that is stopped follows neither slices nor rules.
func TestStop(t *testing.T) {
	for name := range trackers {
		t.Run(name, func(t *testing.T) {
			tracker, slices, rules := startCaptured(t, name)
			tracker.Stop()
			if slices.removed != 1 || rules.removed != 1 {
				t.Errorf("%d handlers of slices and %d of rules were removed, want one of each", slices.removed, rules.removed)
			}
		})
	}
}

func list(t *testing.T, tracker tracking) string {
	t.Helper()
	shown, err := tracker.ListPatchedResourceSlices()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, slice := range shown {
		out = append(out, describe(slice))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func describe(slice *resourceapi.ResourceSlice) string {
	var out []string
	for _, device := range slice.Spec.Devices {
		var taints []string
		for _, taint := range device.Taints {
			taints = append(taints, taint.Key)
		}
		slices.Sort(taints)
		out = append(out, device.Name+":"+strings.Join(taints, ","))
	}
	return strings.Join(out, " ")
}

// TestTracker makes changes through a client, and compares what is shown and told with
// upstream's tracker.
func TestTracker(t *testing.T) {
	for name, enabled := range map[string]bool{"with rules": true, "without rules": false} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			factory := informers.NewSharedInformerFactory(client, 0)
			opts := Options{
				EnableDeviceTaintRules: enabled,
				SliceInformer:          resourceinformers.ToTypedResourceSliceInformer(factory.Resource().V1().ResourceSlices()),
				TaintInformer:          resourceinformers.ToTypedDeviceTaintRuleInformer(factory.Resource().V1().DeviceTaintRules()),
			}
			ours, err := StartTracker(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Stop()
			theirs, err := upstream.StartTracker(t.Context(), upstream.Options(opts))
			if err != nil {
				t.Fatal(err)
			}
			defer theirs.Stop()
			heard := &told{last: make(map[tracking]string)}
			heard.by(t, ours)
			heard.by(t, theirs)
			if ours.HasSynced() || theirs.HasSynced() {
				t.Errorf("before the informers run: synced %t, upstream %t", ours.HasSynced(), theirs.HasSynced())
			}
			ctx, cancel := context.WithCancel(t.Context())
			factory.Start(ctx.Done())
			defer factory.Shutdown()
			defer cancel()
			if !cache.WaitForCacheSync(t.Context().Done(), ours.HasSynced, theirs.HasSynced) {
				t.Fatal("not synced")
			}
			fakeapi.AwaitWatches(t, client)
			before, event := "", ""
			for _, change := range changes(ctx, client.ResourceV1()) {
				if err := change.make(); err != nil {
					t.Fatal(err)
				}
				want := change.want
				if !enabled {
					want = change.unchanged
				}
				before, event = want, eventOf(before, want, event)
				for deadline := time.Now().Add(patience); list(t, ours) != want || list(t, theirs) != want; time.Sleep(5 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%s: shown %q, upstream %q, want %q", change.what, list(t, ours), list(t, theirs), want)
					}
				}
				// Handlers are told after it is shown.
				fakecluster.Eventually(t, fmt.Sprintf("both are told %q of %s", event, change.what), func() bool {
					return heard.lately(ours) == event && heard.lately(theirs) == event
				})
			}
			ours.Stop()
			theirs.Stop()
		})
	}
}

// told has what the handlers of trackers were told last.
type told struct {
	mutex sync.Mutex
	last  map[tracking]string
}

// by has a tracker tell it.
func (l *told) by(t *testing.T, tracker tracking) {
	t.Helper()
	tell := func(text string) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.last[tracker] = text
	}
	if _, err := tracker.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell("+" + describe(object.(*resourceapi.ResourceSlice))) },
		UpdateFunc: func(_, object any) { tell("~" + describe(object.(*resourceapi.ResourceSlice))) },
		DeleteFunc: func(any) { tell("-") },
	}); err != nil {
		t.Fatal(err)
	}
}

func (l *told) lately(tracker tracking) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.last[tracker]
}

// eventOf is what handlers are told last when a slice is shown as now, given what it was before and what they were told then.
func eventOf(before, now, last string) string {
	switch {
	case now == "":
		return "-"
	case before == "":
		return "+" + now
	case now != before:
		return "~" + now
	}
	return last
}

// change is one that a client makes.
type change struct {
	what      string
	make      func() error
	want      string
	unchanged string // without rules
}

func changes(ctx context.Context, api resourceclient.ResourceV1Interface) []change {
	return []change{
		{"a slice", func() error {
			_, err := api.ResourceSlices().Create(ctx, slice(1, "a", "b"), metav1.CreateOptions{})
			return err
		}, "a: b:", "a: b:"},
		{"a rule for one device", func() error {
			_, err := api.DeviceTaintRules().Create(ctx, rule("r", ptr.To("a")), metav1.CreateOptions{})
			return err
		}, "a:r b:", "a: b:"},
		{"a rule for all", func() error {
			_, err := api.DeviceTaintRules().Create(ctx, rule("s", nil), metav1.CreateOptions{})
			return err
		}, "a:r,s b:s", "a: b:"},
		{"another device", func() error {
			_, err := api.DeviceTaintRules().Update(ctx, rule("r", ptr.To("b")), metav1.UpdateOptions{})
			return err
		}, "a:s b:r,s", "a: b:"},
		{"a rule less", func() error { return api.DeviceTaintRules().Delete(ctx, "s", metav1.DeleteOptions{}) }, "a: b:r", "a: b:"},
		{"more devices", func() error {
			_, err := api.ResourceSlices().Update(ctx, slice(2, "a", "b", "c"), metav1.UpdateOptions{})
			return err
		}, "a: b:r c:", "a: b: c:"},
		{"a device with another name", func() error {
			_, err := api.ResourceSlices().Update(ctx, slice(3, "a", "b", "d"), metav1.UpdateOptions{})
			return err
		}, "a: b:r d:", "a: b: d:"},
		{"no slice", func() error { return api.ResourceSlices().Delete(ctx, "slice", metav1.DeleteOptions{}) }, "", ""},
	}
}

// TestHandlers: a handler that comes late is told of what there is, and may ask the
// tracker.
func TestHandlers(t *testing.T) {
	tracker := &Tracker{options: Options{EnableDeviceTaintRules: true}, shown: map[string]*resourceapi.ResourceSlice{"slice": slice(1, "a")}, cancel: func(error) {}}
	var told []string
	for _, name := range []string{"first", "second"} {
		if _, err := tracker.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
			shown, err := tracker.ListPatchedResourceSlices()
			told = append(told, fmt.Sprint(name, " ", len(shown), " ", err, " ", describe(object.(*resourceapi.ResourceSlice))))
		}}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"first 1 <nil> a:", "second 1 <nil> a:"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestSameTaints: results differ in any field of any taint, and in their number.
func TestSameTaints(t *testing.T) {
	at := metav1.NewTime(time.Unix(1, 0))
	with := func(taints ...resourceapi.DeviceTaint) *resourceapi.ResourceSlice {
		devices := []resourceapi.Device{{Name: "untainted"}, {Name: "tainted", Taints: taints}}
		return &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Devices: devices}}
	}
	taint := resourceapi.DeviceTaint{Key: "k", Value: "v", Effect: resourceapi.DeviceTaintEffectNoExecute, TimeAdded: &at}
	changed := func(change func(*resourceapi.DeviceTaint)) *resourceapi.ResourceSlice {
		other := taint
		change(&other)
		return with(other)
	}
	for name, test := range map[string]struct {
		other *resourceapi.ResourceSlice
		want  bool
	}{
		"equal":      {changed(func(t *resourceapi.DeviceTaint) { t.TimeAdded = at.DeepCopy() }), true},
		"key":        {changed(func(t *resourceapi.DeviceTaint) { t.Key = "other" }), false},
		"value":      {changed(func(t *resourceapi.DeviceTaint) { t.Value = "other" }), false},
		"effect":     {changed(func(t *resourceapi.DeviceTaint) { t.Effect = resourceapi.DeviceTaintEffectNoSchedule }), false},
		"time added": {changed(func(t *resourceapi.DeviceTaint) { t.TimeAdded = nil }), false},
		"two":        {with(taint, taint), false},
		"none":       {with(), false},
	} {
		if got := sameTaints(with(taint), test.other); got != test.want {
			t.Errorf("%s: the same: %v", name, got)
		}
	}
}

// TestSelects: a rule selects by driver and pool. One without a selector selects nothing, and one with an empty selector everything.
func TestSelects(t *testing.T) {
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: "d", Pool: resourceapi.ResourcePool{Name: "p"}}}
	for _, test := range []struct {
		selector *resourceapi.DeviceTaintSelector
		want     bool
	}{
		{nil, false},
		{&resourceapi.DeviceTaintSelector{}, true},
		{&resourceapi.DeviceTaintSelector{Driver: ptr.To("d")}, true},
		{&resourceapi.DeviceTaintSelector{Driver: ptr.To("other")}, false},
		{&resourceapi.DeviceTaintSelector{Pool: ptr.To("p")}, true},
		{&resourceapi.DeviceTaintSelector{Pool: ptr.To("other")}, false},
		{&resourceapi.DeviceTaintSelector{Driver: ptr.To("d"), Pool: ptr.To("p")}, true},
		{&resourceapi.DeviceTaintSelector{Driver: ptr.To("other"), Pool: ptr.To("p")}, false},
	} {
		rule := &resourceapi.DeviceTaintRule{Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: test.selector}}
		if got := selects(rule, slice); got != test.want {
			t.Errorf("selector %+v selects: %v", test.selector, got)
		}
	}
}
