// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import "fmt"

// Origin says where an object was read.
type Origin struct {
	File     string // as given on the command line or found below it; "stdin" for standard input
	Document int    // 1 for the first non-empty document of the file; 0 when not read from a file
	Line     int    // line at which the document starts, 1 for the first
	Item     int    // 1 for the first item of a List; 0 outside of Lists
}

// String returns the origin as it appears in front of error messages.
func (o Origin) String() string {
	if o.Document == 0 {
		return o.File
	}
	text := fmt.Sprintf("%s: document %d (line %d)", o.File, o.Document, o.Line)
	if o.Item > 0 {
		text += fmt.Sprintf(", item %d", o.Item)
	}
	return text
}
