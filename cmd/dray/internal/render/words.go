// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"
)

// Count is "1 node", "2 nodes", "3 classes".
func Count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case noun == "pod or claim":
		return fmt.Sprintf("%d pods and claims", n)
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// firstFew names up to three of many.
func firstFew(names []string) string {
	const few = 3
	if len(names) <= few+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, … %s", strings.Join(names[:few], ", "), names[len(names)-1])
}

// sentence ends a text with a full stop, unless it ends with a question.
func sentence(text string) string {
	if strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}
