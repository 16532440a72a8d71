package translate_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// v1 allocates the devices of a request before the alternative of the next one: a limit is alternatives in the first
// claim only, and elsewhere a reason.
func TestLimitsOfLaterClaims(t *testing.T) {
	two := map[string]resource.Quantity{v1alpha1.ResourceCount: resource.MustParse("2")}
	class := &v1alpha1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "nic"}, Spec: v1alpha1.DeviceClassSpec{Driver: "nic.example.com", DeviceType: "nic"}}
	exact, elastic := v1alpha1.DeviceClaimInstance{}, v1alpha1.DeviceClaimInstance{}
	exact.DeviceClass, elastic.DeviceClass, elastic.Limits = &class.Name, &class.Name, two
	for _, test := range []struct {
		claims []v1alpha1.DeviceClaimInstance
		want   string
	}{
		{[]v1alpha1.DeviceClaimInstance{elastic, exact}, ""},
		{[]v1alpha1.DeviceClaimInstance{exact, elastic}, "spec.claims[1].limits[count]"},
		{[]v1alpha1.DeviceClaimInstance{elastic, elastic}, "spec.claims[1].limits[count]"},
	} {
		claim := &v1alpha1.DeviceClaim{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: v1alpha1.DeviceClaimSpec{Claims: test.claims}}
		_, reasons := translate.ToV1(translate.Prototype{Classes: []*v1alpha1.DeviceClass{class}, Claims: []*v1alpha1.DeviceClaim{claim}})
		var got string
		for _, reason := range reasons {
			got += reason.Field
		}
		if got != test.want {
			t.Errorf("got %v, want %q", reasons, test.want)
		}
	}
}
