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

// templateAction is the start of an action in templates of Helm and other tools.
const templateAction = "{{"

// unrendered returns the error for a document that is a template that was not rendered. It replaces
// other errors of the document. It returns nil for manifests, in which templateAction may occur in
// a string.
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

// isAboutAction reports whether an error mentions a template action, or says that the document is
// no YAML.
func (d document) isAboutAction(err error) bool {
	if _, noYAML := d.toJSON(); noYAML != nil {
		return true
	}
	return strings.Contains(err.Error(), templateAction)
}
