package devicetree_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/devicetree"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/podresources"
)

// ExampleScanner serves what a source finds through the device plugin of
// one driver.
func ExampleScanner() {
	serve := func(ctx context.Context, source inventory.Source, driver string) error {
		ledger, err := inventory.OpenLedger("/var/lib/dray-agent/ledger")
		if err != nil {
			return err
		}
		scanner := devicetree.NewScanner(ctx, driver, ledger)
		ledger.OnChange(scanner.Refresh)
		go podresources.Follow(ctx, podresources.Socket, 10*time.Second, scanner.SetInUse)
		go func() { _ = deviceplugin.NewManager(driver, scanner).RunWithContext(ctx) }()
		return source.Run(ctx, scanner.Update)
	}
	_ = serve
	fmt.Println(inventory.ID{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"})
	// Output: gpu.example.com/node-1/gpu-0
}
