// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import "fmt"

// FeatureOffError says that a claim uses a field whose feature gate is off.
type FeatureOffError struct {
	// Field is the name of the field, Feature that of the feature gate.
	Field, Feature string
}

// Error implements error.
func (e *FeatureOffError) Error() string {
	return fmt.Sprintf("%s needs the feature %s, which is off", e.Field, e.Feature)
}
