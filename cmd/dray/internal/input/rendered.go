// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// templateAction begins what Helm and other tools replace when they make manifests.
const templateAction = "{{"

// unrendered returns the error that takes the place of what is wrong with a document, if
// the document is a template that was not rendered. It is nil for manifests, in which
// templateAction may be part of a text.
func (d document) unrendered(wrong []error) error {
	at := bytes.Index(d.content, []byte(templateAction))
	if at < 0 || !utf8.Valid(d.content) || !slices.ContainsFunc(wrong, d.isAboutAction) {
		return nil
	}
	line := d.origin.Line + bytes.Count(d.content[:at], []byte("\n"))
	start := bytes.LastIndexByte(d.content[:at], '\n') + 1
	action := strings.TrimSpace(string(d.content[start:lineEnd(d.content, start)]))
	return fmt.Errorf("%s: this is a template (line %d: %s): render it first, for example with helm template", d.origin, line, shorten(action))
}

// isAboutAction reports whether an error shows an action, or is about a document that is no
// YAML.
func (d document) isAboutAction(err error) bool {
	if _, noYAML := d.toJSON(); noYAML != nil {
		return true
	}
	return strings.Contains(err.Error(), templateAction)
}
