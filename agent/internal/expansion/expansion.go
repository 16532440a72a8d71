// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expansion replaces references to variables in texts of a container.
package expansion

import "strings"

// Expand replaces references to variables in a command, an argument or the value of a
// variable: $(NAME) stands for its value, and stays as it is if there is no such variable;
// $$ stands for $, so that $$(NAME) is not a reference. These are the rules of the fields
// command, args and env of a container. Values are not expanded again.
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
		case strings.HasPrefix(after, "(") && closed: // what it contains is no reference either
			out.WriteString("$(" + name + ")")
			text = rest
		default:
			out.WriteByte('$')
			text = after
		}
	}
}
