// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

func uid(text string) types.UID { return types.UID(text) }

// arrow stands between a request and its device, in "allocated" statements and in outcomes.
const arrow = "->"

// parseResult reads what follows the request: -> driver/pool/device clauses
func parseResult(request string, w *words, nextShare func() types.UID) (resourceapi.DeviceRequestAllocationResult, error) {
	result := resourceapi.DeviceRequestAllocationResult{Request: request}
	w.next() // the arrow
	word, err := w.operand(arrow)
	if err != nil {
		return result, err
	}
	driver, rest, found := strings.Cut(word, "/")
	pool, device, found2 := cutLast(rest, "/")
	if !found || !found2 {
		return result, fmt.Errorf("expected driver/pool/device, found %q", word)
	}
	result.Driver, result.Pool, result.Device = driver, pool, device
	err = lineClauses(w, func(clause string, w *words) error {
		return within(clause, resultClause(&result, clause, w, nextShare))
	})
	return result, err
}

func resultClause(result *resourceapi.DeviceRequestAllocationResult, clause string, w *words, nextShare func() types.UID) (err error) {
	if id, ok := strings.CutPrefix(clause, "share="); ok {
		id, err = unquote(id)
		result.ShareID = new(uid(id))
		return err
	}
	switch clause {
	case "share":
		result.ShareID = new(nextShare())
	case "admin":
		result.AdminAccess = new(true)
	case "consumed":
		result.ConsumedCapacity, err = parseRequested(w)
	case "tolerates":
		var toleration resourceapi.DeviceToleration
		toleration, err = parseToleration(w)
		result.Tolerations = append(result.Tolerations, toleration)
	case "binding-conditions":
		result.BindingConditions, err = commaList[string](w.next())
	case "failure-conditions":
		result.BindingFailureConditions, err = commaList[string](w.next())
	case "skips":
		result.SkipNodeOperations, err = commaList[resourceapi.SkipNodeOperation](w.next())
	default:
		return errors.New("unknown clause")
	}
	return err
}

// writeResult is the inverse of parseResult. Share IDs are optional, as allocators choose them.
func writeResult(r *resourceapi.DeviceRequestAllocationResult, shareIDs bool) string {
	line := " " + arrow + " " + quote(r.Driver+"/"+r.Pool+"/"+r.Device)
	if r.AdminAccess != nil && *r.AdminAccess {
		line += " admin"
	}
	if r.ShareID != nil {
		line += " share"
		if shareIDs {
			line += "=" + quote(string(*r.ShareID))
		}
	}
	if len(r.ConsumedCapacity) > 0 {
		line += " consumed" + writeRequested(r.ConsumedCapacity)
	}
	for _, toleration := range r.Tolerations {
		line += " tolerates " + writeToleration(toleration)
	}
	for _, clause := range writeConditions(r.BindingConditions, r.BindingFailureConditions) {
		line += " " + clause
	}
	if len(r.SkipNodeOperations) > 0 {
		line += " skips " + quoteAll(r.SkipNodeOperations)
	}
	return line
}

// parseAllocated reads: allocated name [namespace=] [uid=], with one line per device below
// and, as for claims, what was asked for.
func parseAllocated(b block, nextShare func() types.UID) (*resourceapi.ResourceClaim, error) {
	claim, err := claimHeader(b)
	if err != nil {
		return nil, err
	}
	children, err := b.children()
	if err != nil {
		return nil, err
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, child := range children {
		if err := allocatedPart(claim, child, nextShare); err != nil {
			return nil, within("allocated "+claim.Name, at(child.line, err))
		}
	}
	return claim, nil
}

func allocatedPart(claim *resourceapi.ResourceClaim, b block, nextShare func() types.UID) error {
	w := b.words()
	if request := w.next(); w.peek() == arrow {
		result, err := parseResult(request, w, nextShare)
		devices := &claim.Status.Allocation.Devices
		devices.Results = append(devices.Results, result)
		return err
	}
	return claimPart(claim, b)
}

func writeAllocated(claim *resourceapi.ResourceClaim) []string {
	lines := writeParts(&claim.Spec.Devices)
	results := claim.Status.Allocation.Devices.Results
	for i := range results {
		lines = append(lines, quote(results[i].Request)+writeResult(&results[i], true))
	}
	return append([]string{writeClaimHeader("allocated", claim)}, indented(lines)...)
}
