// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	inf "gopkg.in/inf.v0"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/pools"
)

// translatable are clusters that have a translation. Fewer than a third of the draws have none.
var translatable = rapid.Custom(drawPrototype).Filter(func(in translate.Prototype) bool {
	_, reasons := translate.ToV1(in)
	return len(reasons) == 0
})

// extendable are clusters whose claims ask for more than v1 can say, but no more than package extension can.
var extendable = rapid.Custom(func(t *rapid.T) translate.Prototype {
	in := drawPrototype(t)
	extend(t, &in)
	return in
}).Filter(func(in translate.Prototype) bool {
	_, reasons := translate.ToExtended(in)
	return len(reasons) == 0
})

// TestSameDevices allocates the claims one after the other: as the judge understands the
// prototype, and as Dray understands the translation. Each result also passes the verifier.
func TestSameDevices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := translatable.Draw(t, "cluster")
		out, _ := translate.ToV1(in)
		asked, core := newJudge(in), newCore(out)
		for i, claim := range in.Claims {
			want := describeChoices(asked.allocate(claim))
			if got := core.allocate(t, out.Claims[i]); got != want {
				t.Fatalf("claim %s:\nprototype %s\nv1        %s\n%s", claim.Name, want, got, text(t, in))
			}
		}
	})
}

// TestSameDevicesExtended is TestSameDevices for what v1 cannot say: device types, limits of count, and sums.
func TestSameDevicesExtended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := extendable.Draw(t, "cluster")
		out, _ := translate.ToExtended(in)
		asked, core := newJudge(in), newCore(out)
		for i, claim := range in.Claims {
			want := describeChoices(asked.allocate(claim))
			if got := core.allocate(t, out.Claims[i]); got != want {
				t.Fatalf("claim %s:\nprototype %s\nv1        %s\n%s", claim.Name, want, got, text(t, in))
			}
		}
	})
}

// TestSameDevicesByNumbers is TestSameDevices for limits of count, of which v1 has alternatives. These have
// other names than in the prototype, which are left out.
func TestSameDevicesByNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := elastic.Draw(t, "cluster")
		out, _ := translate.ToV1(in)
		asked, core := newJudge(in), newCore(out)
		for i, claim := range in.Claims {
			want := options.ReplaceAllString(describeChoices(asked.allocate(claim)), "")
			if got := options.ReplaceAllString(core.allocate(t, out.Claims[i]), ""); got != want {
				t.Fatalf("claim %s:\nprototype %s\nv1        %s\n%s", claim.Name, want, got, text(t, in))
			}
		}
	})
}

var options = regexp.MustCompile(`/option-\d+`)

// elastic are clusters that have a translation, in which some details have a limit of count.
var elastic = rapid.Custom(func(t *rapid.T) translate.Prototype {
	in := drawPrototype(t)
	for _, claim := range in.Claims {
		for i := range claim.Spec.Claims {
			details := []*v1alpha1.DeviceClaimDetail{&claim.Spec.Claims[i].DeviceClaimDetail}
			for k := range claim.Spec.Claims[i].OneOf {
				details = append(details, &claim.Spec.Claims[i].OneOf[k])
			}
			for _, d := range details {
				if count, found := d.Requests[v1alpha1.ResourceCount]; found && d.Limits == nil && rapid.Bool().Draw(t, "up to") {
					count.Add(*resource.NewQuantity(rapid.Int64Range(1, 3).Draw(t, "more"), resource.DecimalSI))
					d.Limits = map[string]resource.Quantity{v1alpha1.ResourceCount: count}
				}
			}
		}
	}
	return in
}).Filter(func(in translate.Prototype) bool {
	_, reasons := translate.ToV1(in)
	return len(reasons) == 0
})

// TestNumbersDrawn shows that such clusters have claims which get more devices than they must have, and
// fewer than they may have. The draws are the same each time.
func TestNumbersDrawn(t *testing.T) {
	missing := map[string]bool{"more": true, "fewer": true}
	const most = 500
	for seed := 0; seed < most && len(missing) > 0; seed++ {
		in := elastic.Example(seed)
		asked := newJudge(in)
		for _, claim := range in.Claims {
			chosen := asked.allocate(claim)
			for i := range claim.Spec.Claims {
				n, detail := int64(0), (*v1alpha1.DeviceClaimDetail)(nil)
				for _, c := range chosen {
					if c.part == i {
						n, detail = n+1, c.detail
					}
				}
				if n == 0 || len(detail.Limits) == 0 {
					continue
				}
				least, limit := detail.Requests[v1alpha1.ResourceCount], detail.Limits[v1alpha1.ResourceCount]
				if least.CmpInt64(n) < 0 {
					delete(missing, "more")
				}
				if limit.CmpInt64(n) > 0 {
					delete(missing, "fewer")
				}
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("no claim gets %v", missing)
	}
}

// extend has claims ask for device types, and for numbers of devices up to a limit.
func extend(t *rapid.T, in *translate.Prototype) {
	types := []string{"gpu", "accelerator"}
	for _, class := range in.Classes {
		class.Spec.DeviceType = rapid.SampledFrom(types).Draw(t, "type of the class")
	}
	in.Classes[0].Spec.DeviceType, in.Classes[2].Spec.DeviceType = types[0], types[1] // of both, some has no admin access
	detail := func(d *v1alpha1.DeviceClaimDetail) {
		if rapid.Bool().Draw(t, "typed") {
			d.DeviceType, d.DeviceClass = ptr.To(rapid.SampledFrom(types).Draw(t, "type")), nil
			if len(d.MatchAttributes) > 0 {
				d.MatchAttributes = []string{rapid.SampledFrom(anyDriver).Draw(t, "matched over drivers")}
			}
		}
		taken, found := d.Requests["bandwidth"]
		if found && taken.Sign() > 0 && rapid.Bool().Draw(t, "several have it together") {
			d.Limits = nil
			if rapid.Bool().Draw(t, "many") {
				taken.Add(resource.MustParse("8"))
				d.Requests["bandwidth"] = taken
			}
		}
		if !found && sometimes(t, "sum") {
			d.Requests = maps.Clone(d.Requests)
			d.Requests["size"] = *quantityOf(rapid.SampledFrom([]string{"1Gi", "1Gi", "1500Mi", "2Gi", "4Gi"}).Draw(t, "size in all"))
		}
		if d.DeviceType == nil && sometimes(t, "same size") {
			d.MatchAttributes = append(d.MatchAttributes, "size")
		}
		d.PreferredMatchAttributes = drawPreferred(t, anyDriver...)
		if count, found := d.Requests[v1alpha1.ResourceCount]; found && rapid.Bool().Draw(t, "up to") {
			count.Add(*resource.NewQuantity(rapid.Int64Range(0, 2).Draw(t, "more"), resource.DecimalSI))
			d.Limits = map[string]resource.Quantity{v1alpha1.ResourceCount: count}
		}
	}
	for _, claim := range in.Claims {
		claim.Spec.PreferredMatchAttributes = drawPreferred(t, anyDriver...)
		for i := range claim.Spec.Claims {
			instance := &claim.Spec.Claims[i]
			if len(instance.OneOf) == 0 {
				detail(&instance.DeviceClaimDetail)
			}
			for k := range instance.OneOf {
				detail(&instance.OneOf[k])
			}
		}
		if len(claim.Spec.MatchAttributes) > 0 {
			claim.Spec.MatchAttributes = []string{rapid.SampledFrom(anyDriver).Draw(t, "matched by all")}
		}
	}
	hyphenate(in)
}

// anyDriver are attributes that devices of all drivers may have, with and without a domain.
var anyDriver = []string{"topo.example.com/slot", "numa", "model"}

// hyphenate gives an attribute a name that v1 does not allow.
func hyphenate(in *translate.Prototype) {
	const from, to = "numa", "numa-node"
	attributes := func(list []v1alpha1.Attribute) {
		for i := range list {
			if list[i].Name == from {
				list[i].Name = to
			}
		}
	}
	names := func(list []string) []string {
		list = slices.Clone(list)
		for i := range list {
			if list[i] == from {
				list[i] = to
			}
		}
		return list
	}
	expression := func(text *string) *string {
		if text != nil {
			text = ptr.To(strings.ReplaceAll(*text, "device."+from, fmt.Sprintf("device[%q]", to)))
		}
		return text
	}
	detail := func(d *v1alpha1.DeviceClaimDetail) {
		d.Constraints, d.MatchAttributes, d.PreferredMatchAttributes = expression(d.Constraints), names(d.MatchAttributes), names(d.PreferredMatchAttributes)
	}
	for _, pool := range in.Pools {
		attributes(pool.Spec.Attributes)
		for i := range pool.Spec.Devices {
			attributes(pool.Spec.Devices[i].Attributes)
		}
	}
	for _, class := range in.Classes {
		class.Spec.Constraints = expression(class.Spec.Constraints)
	}
	for _, claim := range in.Claims {
		claim.Spec.MatchAttributes, claim.Spec.PreferredMatchAttributes = names(claim.Spec.MatchAttributes), names(claim.Spec.PreferredMatchAttributes)
		for i := range claim.Spec.Claims {
			detail(&claim.Spec.Claims[i].DeviceClaimDetail)
			for k := range claim.Spec.Claims[i].OneOf {
				detail(&claim.Spec.Claims[i].OneOf[k])
			}
		}
	}
}

func drawPreferred(t *rapid.T, names ...string) []string {
	if !sometimes(t, "preferring") {
		return nil
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, min(2, len(names)), rapid.ID).Draw(t, "preferred")
}

// TestDraws shows that the draws lead to all kinds of answers. The draws are the same each time.
func TestDraws(t *testing.T) {
	missing := map[string]bool{"none": true, "one": true, "several": true, "option": true, "admin": true, "share": true}
	const most = 500
	for seed := 0; seed < most && len(missing) > 0; seed++ {
		in := translatable.Example(seed)
		asked := newJudge(in)
		for _, claim := range in.Claims {
			delete(missing, kindOf(describeChoices(asked.allocate(claim))))
		}
	}
	if len(missing) > 0 {
		t.Errorf("no draw has the answers %v", missing)
	}
}

// TestExtendedDraws shows the same of the draws that ask for more than v1 can say: of each kind,
// some are allocated and some are not.
func TestExtendedDraws(t *testing.T) {
	kinds := []string{"classes", "upTo", "totals", "size", "bandwidth", "matchCapacities", "preferred", "devmgmtproto.k8s.io/numa-node"}
	missing := make(map[string]bool)
	for _, kind := range kinds {
		missing[kind], missing["no "+kind] = true, true
	}
	const most = 500
	for seed := 0; seed < most && len(missing) > 0; seed++ {
		in := extendable.Example(seed)
		out, _ := translate.ToExtended(in)
		asked := newJudge(in)
		for i, claim := range in.Claims {
			none := ""
			if asked.allocate(claim) == nil {
				none = "no "
			}
			for _, kind := range kinds {
				if strings.Contains(out.Claims[i].Annotations[extension.Annotation], strconv.Quote(kind)) {
					delete(missing, none+kind)
				}
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("no draw has the answers %v", missing)
	}
}

// kindOf says what is special about an answer.
func kindOf(answer string) string {
	switch {
	case answer == "none":
		return "none"
	case strings.Contains(answer, "admin=true"):
		return "admin"
	case strings.Contains(answer, "bandwidth="):
		return "share"
	case strings.Contains(answer, "option-1"):
		return "option"
	case strings.Contains(answer, ","):
		return "several"
	}
	return "one"
}

func describeChoices(solution []choice) string {
	if solution == nil {
		return "none"
	}
	texts := make([]string, len(solution))
	for i, c := range solution {
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}

// core is Dray with a ledger.
type core struct {
	v1        translate.V1
	ledger    *pools.Ledger
	allocator *allocator.Allocator
	allocated []*resourceapi.ResourceClaim
	node      *corev1.Node
}

func newCore(v1 translate.V1) *core {
	features := allocator.AllFeatures()
	return &core{
		v1: v1, ledger: pools.NewLedger(pools.Build(features.PoolGates(), v1.Slices)),
		allocator: allocator.New(allocator.Options{Features: features}), node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: here}},
	}
}

// failing is a test, of rapid or not.
type failing interface {
	Fatalf(format string, arguments ...any)
	Context() context.Context
}

func (c *core) allocate(t failing, claim *resourceapi.ResourceClaim) string {
	more, err := extension.Of(claim)
	if err != nil {
		t.Fatalf("claim %s: %v", claim.Name, err)
	}
	problem, err := c.allocator.CompileExtended([]*resourceapi.ResourceClaim{claim}, []extension.Claim{more}, allocator.ClassMap(c.v1.Classes...))
	if err != nil {
		t.Fatalf("claim %s: %v", claim.Name, err)
	}
	outcome, err := problem.Allocate(t.Context(), c.ledger.State(), c.node)
	if err != nil {
		t.Fatalf("claim %s: %v", claim.Name, err)
	}
	assignment, ok := outcome.(*allocator.Assignment)
	if !ok {
		return "none"
	}
	question := &alloctest.Case{
		Features: allocator.AllFeatures(), Nodes: []*corev1.Node{c.node}, Slices: c.v1.Slices, Classes: c.v1.Classes,
		Claims: []*resourceapi.ResourceClaim{claim}, Allocated: c.allocated, Node: here,
	}
	if err := oracle.Verify(question, assignment.Results()); err != nil && more.IsZero() {
		t.Fatalf("claim %s: the verifier: %v", claim.Name, err)
	}
	kept := claim.DeepCopy()
	kept.Status.Allocation = &assignment.Results()[0]
	if err := c.ledger.Assume(kept); err != nil {
		t.Fatalf("claim %s: %v", claim.Name, err)
	}
	c.allocated = append(c.allocated, kept)
	return describeResults(kept.Status.Allocation.Devices.Results)
}

func describeResults(results []resourceapi.DeviceRequestAllocationResult) string {
	texts := make([]string, len(results))
	for i := range results {
		r := &results[i]
		texts[i] = fmt.Sprintf("%s %s/%s admin=%t", r.Request, r.Pool, r.Device, ptr.Deref(r.AdminAccess, false))
		for _, name := range slices.Sorted(maps.Keys(r.ConsumedCapacity)) {
			if !strings.Contains(string(name), "size") {
				amount := dec(r.ConsumedCapacity[name])
				texts[i] += fmt.Sprintf(" %s=%s", name, amount.Round(amount, 0, inf.RoundExact))
			}
		}
	}
	return strings.Join(texts, ", ")
}

// TestRoundTrip: what comes back from v1 is what went there, in normal form; and what goes to v1
// again is the same.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := translatable.Draw(t, "cluster")
		out, _ := translate.ToV1(in)
		before := text(t, in)
		back, reasons := translate.FromV1(out)
		if len(reasons) > 0 {
			t.Fatalf("%v\n%s", reasons, text(t, out))
		}
		if text(t, in) != before {
			t.Fatal("the input was modified")
		}
		if want, got := text(t, normal(in)), text(t, back); got != want {
			t.Fatalf("went as\n%s\ncame back as\n%s", want, got)
		}
		again, reasons := translate.ToV1(back)
		if len(reasons) > 0 {
			t.Fatal(reasons)
		}
		if want, got := text(t, out), text(t, again); got != want {
			t.Fatalf("first\n%s\nthen\n%s", want, got)
		}
	})
}

func text(t *rapid.T, value any) string {
	encoded, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}
