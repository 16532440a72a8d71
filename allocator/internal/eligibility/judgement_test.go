package eligibility

import (
	"errors"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// memory of a device, and what a share takes of it.
func memoryJudgement(total, taken string) *Judgement {
	asked := &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(taken)}}
	device := &resourceapi.Device{Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(total)}}}
	return &Judgement{RejectedBy: -1, Use: newConsumption(Features{ConsumableCapacity: true}, asked, device)}
}

func TestEqualJudgementsAreOne(t *testing.T) {
	var kept judgements
	first := kept.intern(memoryJudgement("80Gi", "8Gi"))
	if kept.intern(memoryJudgement("80Gi", "8Gi")) != first {
		t.Error("an equal judgement is kept as well")
	}
	failed := memoryJudgement("80Gi", "8Gi")
	failed.Use.Err = errors.New("out of range")
	for name, other := range map[string]*Judgement{
		"more taken":              memoryJudgement("80Gi", "9Gi"),
		"a larger device":         memoryJudgement("81Gi", "8Gi"),
		"written differently":     memoryJudgement("80Gi", "8589934592"),
		"too much":                memoryJudgement("80Gi", "90Gi"),
		"rejected":                {RejectedBy: 0},
		"nothing said of a share": {RejectedBy: -1},
		"an error":                failed,
	} {
		if kept.intern(other) == first {
			t.Errorf("%s: taken for another judgement", name)
		}
	}
	for range 10 * maxJudgements {
		kept.intern(failed) // equal to nothing
	}
	if len(kept.known) > maxJudgements {
		t.Errorf("%d judgements are kept", len(kept.known))
	}
}
