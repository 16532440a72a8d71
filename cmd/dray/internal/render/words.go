// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"
)

// Count returns "1 node", "2 nodes", "3 classes".
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

// firstFew returns up to three of the names.
func firstFew(names []string) string {
	const few = 3
	if len(names) <= few+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, … %s", strings.Join(names[:few], ", "), names[len(names)-1])
}

// sentence adds a full stop to text, unless it ends with a question mark.
func sentence(text string) string {
	if strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}
