package peer_test

import (
	"testing"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/peer"
)

// Dray answers every scenario as expected, by its own API and behind upstream's.
func TestDray(t *testing.T)           { alloctest.Run(t, peer.Dray()) }
func TestDrayStructured(t *testing.T) { alloctest.Run(t, peer.DrayStructured()) }
