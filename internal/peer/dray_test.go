package peer_test

import (
	"testing"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/peer"
)

// Dray answers every scenario as expected. With -rewrite it writes the files.
func TestDray(t *testing.T) {
	alloctest.Run(t, peer.Dray(), alloctest.Folder("../../alloctest/scenarios"))
}

// So it does behind upstream's API.
func TestDrayStructured(t *testing.T) { alloctest.Run(t, peer.DrayStructured()) }
