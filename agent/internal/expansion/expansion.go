// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expansion expands references to variables in strings of a container's spec.
package expansion

import "strings"

// Expand expands references to variables in a command, an argument or the value of a variable.
// $(NAME) becomes the variable's value, or stays if there is no such variable. $$ becomes $, so
// that $$(NAME) is not a reference. Kubernetes has these rules for the fields command, args and
// env. Values are not expanded again.
func Expand(text string, variables map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		value, known := variables[name]
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			text = after[1:]
		case strings.HasPrefix(after, "(") && closed && known:
			out.WriteString(value)
			text = rest
		case strings.HasPrefix(after, "(") && closed: // unknown name: references within the brackets are not expanded either
			out.WriteString("$(" + name + ")")
			text = rest
		default:
			out.WriteByte('$')
			text = after
		}
	}
}
