// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// maxCost estimates the largest cost of the expression on any device that the API admits. An expression that
// cannot be estimated counts as unlimited.
func maxCost(w *sharedEnv, checked *cel.Ast) uint64 {
	estimate, err := w.env.EstimateCost(checked, &library.CostEstimator{SizeEstimator: deviceSizes{w}})
	if err != nil {
		return math.MaxUint64
	}
	return estimate.Max
}

// deviceSizes knows how large each part of a device can be.
type deviceSizes struct{ *sharedEnv }

// EstimateSize implements [checker.CostEstimator].
func (s deviceSizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	if len(path) == 0 || path[0] != deviceName {
		return nil
	}
	part := s.device
	for _, step := range path[1:] {
		if part = s.descend(part, step); part == nil {
			return nil
		}
	}
	return &checker.SizeEstimate{Max: uint64(part.MaxElements)}
}

// EstimateCallCost implements [checker.CostEstimator]: calls cost what the library says.
func (s deviceSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// descend returns the type one step below a part, nil if it is not known.
func (s deviceSizes) descend(part *apiservercel.DeclType, step string) *apiservercel.DeclType {
	switch step {
	case "@items", "@values":
		return part.ElemType
	case "@keys":
		return part.KeyType
	}
	if field, ok := part.Fields[step]; ok {
		return field.Type
	}
	// Attributes are selected by names that are not declared. So are capacities, but the size of a quantity
	// never matters.
	if part.ElemType == s.attribute {
		return s.attribute
	}
	return nil
}
