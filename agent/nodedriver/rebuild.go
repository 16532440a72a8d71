// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	draclient "k8s.io/dynamic-resource-allocation/client"

	"github.com/dray-project/dray/agent/devicetree"
	"github.com/dray-project/dray/agent/draplugin"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/podresources"
)

// claimsInterval is the time between attempts to ask the API server for claims.
const claimsInterval = 5 * time.Second

// rebuild returns when the ledger knows all users, or false when ctx is done.
func (d *served) rebuild(ctx context.Context, ledger *inventory.Ledger, kubelet *kubelet) bool {
	for slices.Contains(ledger.Unknown(), inventory.FrontDRA) {
		err := d.rebuildClaims(ctx, ledger)
		if err == nil {
			break
		}
		d.waits.tell(ctx, "users", fmt.Sprintf("the users of claims' devices: %v", err))
		select {
		case <-ctx.Done():
			return false
		case <-time.After(claimsInterval):
		}
	}
	if !slices.Contains(ledger.Unknown(), inventory.FrontDevicePlugin) {
		d.knows.Do(func() { close(d.known) })
		return true
	}
	kubelet.look()
	select {
	case <-ctx.Done():
		return false
	case <-d.known:
		return true
	}
}

func (d *served) rebuildClaims(ctx context.Context, ledger *inventory.Ledger) error {
	claims, err := d.claims(ctx)
	if err != nil {
		return err
	}
	holds, err := draplugin.HoldsOfClaims(d.in.Load(), d.name, d.options.CDIDir, claims)
	if err != nil {
		return err
	}
	return ledger.Rebuild(inventory.FrontDRA, holds)
}

// listClaims are all claims that the API server has.
func (o *Options) listClaims(ctx context.Context) ([]resourceapi.ResourceClaim, error) {
	claims, err := draclient.New(o.Client).ResourceClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ResourceClaims: %w", err)
	}
	return claims.Items, nil
}

// told takes over what kubelet and the API server say.
func (d *served) told(ctx context.Context, view *view) {
	ledger := d.ledger.Load()
	if ledger == nil || slices.Contains(ledger.Unknown(), inventory.FrontDRA) {
		return // its turn is later
	}
	if slices.Contains(ledger.Unknown(), inventory.FrontDevicePlugin) {
		if err := d.rebuildPlugin(ledger, view); err != nil {
			d.waits.tell(ctx, "users", fmt.Sprintf("the users of the device plugin's devices: %v", err))
			return
		}
	}
	d.waits.tell(ctx, "users", "")
	d.knows.Do(func() { close(d.known) })
	d.others.tell(ctx, "free", view.whyNothingIsFree())
	if view.silent {
		d.plugin.Silent()
	}
	if view.answer != nil {
		if err := d.plugin.SetInUse(view.report); err != nil {
			d.others.tell(ctx, "kubelet", fmt.Sprintf("The ledger does not follow kubelet: %v", err))
		} else {
			d.others.tell(ctx, "kubelet", "")
		}
	}
}

// rebuildPlugin makes the ledger know the users of the device plugin's devices.
func (d *served) rebuildPlugin(ledger *inventory.Ledger, view *view) error {
	switch {
	case d.options.NoKubelet:
		return ledger.Rebuild(inventory.FrontDevicePlugin, nil)
	case view.podsErr != nil:
		return view.podsErr
	case view.answer != nil && d.forgot:
		// Pods that were deleted by force before this process began may run. In a minute, they do not.
		return d.plugin.Rebuild(devicetree.Report{Asked: view.report.Asked, InUse: view.report.InUse})
	case view.answer != nil:
		return d.plugin.Rebuild(view.report)
	}
	if !view.noSocket {
		return view.kubeletErr
	}
	// Kubelet did not start here yet, or its socket is not to be seen.
	if pod := podresources.Wants(view.pods, func(resource string) bool { return strings.HasPrefix(resource, d.name+"/") }); pod != "" {
		return fmt.Errorf("pod %s is to have some, and kubelet's socket %s is not there", pod, d.options.podResources())
	}
	return ledger.Rebuild(inventory.FrontDevicePlugin, nil)
}
