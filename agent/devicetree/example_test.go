// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package devicetree_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/devicetree"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/podresources"
)

// ExampleScanner serves what a source finds through the device plugin of
// one driver.
func ExampleScanner() {
	serve := func(ctx context.Context, source inventory.Source, driver string, podsOfNode func(context.Context) ([]corev1.Pod, error)) error {
		ledger, err := inventory.OpenLedger("/var/lib/dray-agent/ledger")
		if err != nil {
			return err
		}
		scanner := devicetree.NewScanner(ctx, driver, ledger)
		ledger.OnChange(scanner.Refresh)
		var judge podresources.Judge
		go podresources.Follow(ctx, podresources.Socket, 10*time.Second, func(answer *podresources.Answer) error {
			pods, err := podsOfNode(ctx) // from the API server, after kubelet's answer
			if err != nil {
				return err
			}
			report := devicetree.Report{Asked: answer.Asked, InUse: answer.InUse, Free: judge.Unexplained(answer, pods).Free}
			// No device is handed out before Rebuild was called for both fronts.
			return errors.Join(ledger.Rebuild(inventory.FrontDRA, nil), scanner.Rebuild(report), scanner.SetInUse(report))
		})
		go func() { _ = deviceplugin.NewManager(driver, scanner).RunWithContext(ctx) }()
		return source.Run(ctx, scanner.Update)
	}
	_ = serve
	fmt.Println(inventory.ID{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"})
	// Output: gpu.example.com/node-1/gpu-0
}
