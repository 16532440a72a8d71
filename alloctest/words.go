// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// words splits one line of a statement into words, on demand, as some clauses take the rest of the line. A word
// ends at a space outside of quotes.
type words struct {
	text string
	pos  int
}

func (w *words) next() string {
	w.skipSpace()
	start, quoted := w.pos, false
	for ; w.pos < len(w.text); w.pos++ {
		switch c := w.text[w.pos]; {
		case c == ' ' && !quoted:
			return w.text[start:w.pos]
		case c == '\\' && quoted:
			w.pos = min(w.pos+1, len(w.text)-1)
		case c == '"':
			quoted = !quoted
		}
	}
	return w.text[start:]
}

func (w *words) peek() string {
	ahead := *w
	return ahead.next()
}

func (w *words) skipSpace() {
	for w.pos < len(w.text) && w.text[w.pos] == ' ' {
		w.pos++
	}
}

// rest consumes the rest of the line.
func (w *words) rest() string {
	rest := strings.TrimSpace(w.text[w.pos:])
	w.pos = len(w.text)
	return rest
}

// operand is next for clauses that need a word.
func (w *words) operand(clause string) (string, error) {
	word := w.next()
	if word == "" {
		return "", fmt.Errorf("%s: operand missing", clause)
	}
	return unquote(word)
}

// pairs takes all words of the form key=value that follow, in order.
func (w *words) pairs(each func(key, value string) error) error {
	for {
		key, value, ok := strings.Cut(w.peek(), "=")
		if !ok || key == "" || key[0] == '"' {
			return nil
		}
		w.next()
		if err := each(key, value); err != nil {
			return within(key, err)
		}
	}
}

// some is pairs for clauses that need at least one of them.
func (w *words) some(each func(key, value string) error) error {
	if key, _, ok := strings.Cut(w.peek(), "="); !ok || key == "" {
		return fmt.Errorf("expected name=value, found %q", w.peek())
	}
	return w.pairs(each)
}

func unquote(word string) (string, error) {
	if !strings.HasPrefix(word, `"`) {
		return word, nil
	}
	text, err := strconv.Unquote(word)
	if err != nil {
		return "", fmt.Errorf("%s is not a quoted string", word)
	}
	return text, nil
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:+*-]+$`)

// quote writes text so that unquote reads it back as one word.
func quote(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

// commaItems cuts a word at its commas, leaving those inside quotes alone.
func commaItems(word string) []string {
	var items []string
	start, quoted := 0, false
	for i := 0; i < len(word); i++ {
		switch c := word[i]; {
		case c == ',' && !quoted:
			items, start = append(items, word[start:i]), i+1
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		}
	}
	return append(items, word[start:])
}

func commaList[T ~string](word string) ([]T, error) {
	var items []T
	for _, item := range commaItems(word) {
		text, err := unquote(item)
		if err != nil {
			return nil, err
		}
		items = append(items, T(text))
	}
	return items, nil
}

func quoteAll[T ~string](items []T) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = quote(string(item))
	}
	return strings.Join(quoted, ",")
}
