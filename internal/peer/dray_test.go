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

// So does what is kept from scenario to scenario, each of which changes all or, in
// sequences, some of the cluster.
func TestKept(t *testing.T) { alloctest.Run(t, peer.Kept()) }

// extensions are scenarios about what resource.k8s.io/v1 cannot say.
const extensions = "../../alloctest/extensions"

func TestDrayExtensions(t *testing.T) { alloctest.Run(t, peer.Dray(), alloctest.Folder(extensions)) }

func TestKeptExtensions(t *testing.T) { alloctest.Run(t, peer.Kept(), alloctest.Folder(extensions)) }
