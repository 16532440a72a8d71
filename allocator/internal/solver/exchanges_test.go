package solver

import (
	"testing"

	"github.com/dray-project/dray/internal/amount"
)

// A device that takes the same of a resource twice is not exchanged with one that takes it of two.
func TestExchangesOfDrawsThatRepeat(t *testing.T) {
	of := func(resource int32) Draw { return Draw{Resource: resource, Amount: amount.Of(0, 1)} }
	var s search
	s.p = &Problem{Devices: []Device{{Draws: []Draw{of(0), of(1)}}, {Draws: []Draw{of(0), of(0)}}}}
	if s.exchanges(0, 1) {
		t.Error("they are exchanged")
	}
}
