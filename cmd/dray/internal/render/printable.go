// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns text as one line that does not control a terminal. Names, expressions and
// attributes may have any content: escape sequences that write to the clipboard or clear the
// screen, or characters that reverse the direction of text. Characters that are not graphic are
// escaped as in Go strings, such as \x1b and \u202e. White space becomes a space. All text for
// users passes through this function.
func Printable(text string) string {
	if !strings.ContainsFunc(text, unsafe) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + hex(rune(text[i]), 2))
		case !unsafe(r):
			b.WriteRune(r)
		case r <= unicode.MaxASCII:
			b.WriteString(`\x` + hex(r, 2))
		default:
			b.WriteString(escaped(r, 'U'))
		}
	}
	return b.String()
}

// unsafe reports whether a character may affect how a terminal shows others. Invalid encoding
// counts as such.
func unsafe(r rune) bool { return r == utf8.RuneError || !strconv.IsGraphic(r) }

// escapedInQuotes escapes unsafe characters in JSON or YAML in which they occur only in double
// quotes. The document's meaning does not change. long is the letter of the escape sequence for
// characters beyond 16 bits. If it is 0, these become surrogate pairs, as in JSON.
func escapedInQuotes(document string, long rune) string {
	if !strings.ContainsFunc(document, unsafeInDocument) {
		return document
	}
	var b strings.Builder
	for _, r := range document {
		if unsafeInDocument(r) {
			b.WriteString(escaped(r, long))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unsafeInDocument is unsafe without line ends. Encoders have already replaced invalid encoding.
func unsafeInDocument(r rune) bool { return r != '\n' && r != utf8.RuneError && unsafe(r) }

// escaped returns \uXXXX, or the form that escapedInQuotes describes for characters beyond 16 bits.
func escaped(r, long rune) string {
	const most = 1<<16 - 1
	switch {
	case r <= most:
		return `\u` + hex(r, 4)
	case long != 0:
		return `\` + string(long) + hex(r, 8)
	}
	const half, base = 10, 1 << 16
	high, low := 0xd800+(r-base)>>half, 0xdc00+(r-base)&(1<<half-1)
	return `\u` + hex(high, 4) + `\u` + hex(low, 4)
}

func hex(r rune, digits int) string {
	text := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(0, digits-len(text))) + text
}
