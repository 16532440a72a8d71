// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cel"
)

// Programs implements Expressions by compiling them, and caches the compiled programs.
type Programs struct{ Cache *cel.Cache }

// CheckSelector implements Expressions.
func (p Programs) CheckSelector(expression string) error {
	program, err := p.Cache.Selector(expression)
	if err != nil {
		return err
	}
	return affordable(program, resourceapi.CELSelectorExpressionMaxCost)
}

// CheckDerived implements Expressions.
func (p Programs) CheckDerived(expression string) error {
	program, err := p.Cache.Derived(expression)
	if err != nil {
		return err
	}
	return affordable(program, resourceapi.DeviceClaimDerivedAttributeCELMaxCost)
}

func affordable(program *cel.Program, limit uint64) error {
	if cost := program.MaxCost(); cost > limit {
		return fmt.Errorf("too costly: evaluating it may cost %d on a single device, the limit is %d", cost, limit)
	}
	return nil
}
