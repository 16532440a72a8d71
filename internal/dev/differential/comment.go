// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import "strings"

func comment(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("# " + strings.TrimRight(line, "\n ") + "\n")
	}
	return b.String()
}
