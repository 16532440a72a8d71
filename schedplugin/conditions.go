package schedplugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

var (
	errBindingTimeout = errors.New("device binding timeout")
	errBindingFailed  = errors.New("device binding failed")
)

// pollInterval is how often conditions are looked at. They are in memory.
const pollInterval = 500 * time.Millisecond

// poll waits until all devices of the pod are ready. It takes the latest version of claims.
func (p *Plugin) poll(ctx context.Context, c *cycle) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, p.settings.bindingTimeout, true, func(context.Context) (bool, error) {
		for _, claim := range c.claims {
			if claim.unmade() {
				continue
			}
			latest, err := p.dra.ResourceClaims().Get(claim.object.Namespace, claim.object.Name)
			if err != nil {
				return false, err
			}
			claim.object = latest
			ready, err := readyForBinding(latest)
			if err != nil || ready {
				if err != nil {
					return false, err
				}
				continue
			}
			if p.overdue(latest) {
				return false, fmt.Errorf("%w: claim=%s", errBindingTimeout, latest.Name)
			}
			return false, nil
		}
		return true, nil
	})
}

// bindsConditionally reports whether devices of the claim may have to get ready.
func bindsConditionally(claim *podClaim) bool {
	allocation := claim.object.Status.Allocation
	if allocation == nil {
		return false
	}
	for i := range allocation.Devices.Results {
		if len(allocation.Devices.Results[i].BindingConditions) > 0 {
			return true
		}
	}
	return false
}

// readyForBinding reports whether all binding conditions of the devices of a claim are met.
// It is an error if a device failed to get there.
func readyForBinding(claim *resourceapi.ResourceClaim) (bool, error) {
	if claim.Status.Allocation == nil {
		return false, nil
	}
	results := claim.Status.Allocation.Devices.Results
	for i := range results {
		if len(results[i].BindingConditions) == 0 {
			continue
		}
		conditions, reported := reportedConditions(claim, &results[i])
		if !reported {
			return false, nil
		}
		for _, name := range results[i].BindingFailureConditions {
			if failure := apimeta.FindStatusCondition(conditions, name); failure != nil && failure.Status == metav1.ConditionTrue {
				return false, fmt.Errorf("%w: claim=%s, reason=%s, message=%q", errBindingFailed, claim.Name, failure.Reason, failure.Message)
			}
		}
		if len(unmet(conditions, results[i].BindingConditions)) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// reportedConditions returns what the driver reports of a device, if it does.
func reportedConditions(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) ([]metav1.Condition, bool) {
	for i := range claim.Status.Devices {
		status := &claim.Status.Devices[i]
		if status.Device == result.Device && status.Driver == result.Driver && status.Pool == result.Pool {
			return status.Conditions, true
		}
	}
	return nil, false
}

func unmet(conditions []metav1.Condition, names []string) []string {
	var list []string
	for _, name := range names {
		if !apimeta.IsStatusConditionTrue(conditions, name) {
			list = append(list, name)
		}
	}
	return list
}

// overdue reports whether devices of a claim should have been ready by now.
func (p *Plugin) overdue(claim *resourceapi.ResourceClaim) bool {
	allocation := claim.Status.Allocation
	if !p.bindingConditions() || allocation == nil || allocation.AllocationTimestamp == nil {
		return false
	}
	return bindsConditionally(&podClaim{object: claim}) &&
		allocation.AllocationTimestamp.Add(p.settings.bindingTimeout).Before(time.Now())
}

// conditionsOf lists for people what devices still wait for or failed at.
func conditionsOf(c *cycle) string {
	var parts []string
	for _, claim := range c.claims {
		if claim.object.Status.Allocation == nil {
			continue
		}
		for i := range claim.object.Status.Allocation.Devices.Results {
			result := &claim.object.Status.Allocation.Devices.Results[i]
			conditions, _ := reportedConditions(claim.object, result)
			if open := unmet(conditions, result.BindingConditions); len(open) > 0 {
				parts = append(parts, fmt.Sprintf("device %s/%s/%s: not %s", result.Driver, result.Pool, result.Device, strings.Join(open, ", ")))
			}
		}
	}
	return strings.Join(parts, "; ")
}

// measureBinding feeds the scheduler's own metrics of binding conditions.
func (p *Plugin) measureBinding(c *cycle, err error, took time.Duration) {
	status := schedmetrics.BindingConditionsStatusSuccess
	switch {
	case errors.Is(err, errBindingTimeout):
		status = schedmetrics.BindingConditionsStatusTimeout
	case errors.Is(err, errBindingFailed):
		status = schedmetrics.BindingConditionsStatusFailed
	case err != nil:
		status = schedmetrics.BindingConditionsStatusError
	}
	profile := p.handle.ProfileName()
	for _, claim := range c.claims {
		if claim.object.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.object.Status.Allocation.Devices.Results {
			schedmetrics.DRABindingConditionsPreBindDuration.WithLabelValues(profile, result.Driver, status).Observe(took.Seconds())
			if len(result.BindingConditions) > 0 {
				schedmetrics.DRABindingConditionsAllocationsTotal.WithLabelValues(profile, result.Driver, status).Inc()
			}
		}
	}
}
