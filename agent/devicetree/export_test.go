// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package devicetree

import "time"

// SetSettling has the scanner wait for another time than a minute.
func (s *Scanner) SetSettling(d time.Duration) { s.settling = d }
