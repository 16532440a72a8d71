package shape

import (
	"encoding/binary"
	"strconv"
	"unique"
)

// Value is one typed attribute value: an integer, boolean, string or version.
// Values are interned for the whole program, so two are equal (==) exactly if they
// have the same type and content; comparing takes one instruction. Versions are
// compared as the strings they are: semver 2.0.0 leaves only one way to write each.
// The zero Value is no value.
type Value struct{ handle unique.Handle[scalar] }

type valueKind uint8

const (
	kindInt valueKind = iota
	kindBool
	kindString
	kindVersion
)

// scalar is what a Value stands for. Booleans are the integers 0 and 1.
type scalar struct {
	kind   valueKind
	number int64
	text   string
}

func intValue(v int64) Value { return newValue(scalar{kind: kindInt, number: v}) }

func boolValue(v bool) Value {
	s := scalar{kind: kindBool}
	if v {
		s.number = 1
	}
	return newValue(s)
}

func stringValue(v string) Value  { return newValue(scalar{kind: kindString, text: v}) }
func versionValue(v string) Value { return newValue(scalar{kind: kindVersion, text: v}) }

func newValue(s scalar) Value { return Value{handle: unique.Make(s)} }

// String returns the value as people write it, without quotes and without its
// type. It is empty for the zero Value.
func (v Value) String() string {
	if v == (Value{}) {
		return ""
	}
	switch s := v.handle.Value(); s.kind {
	case kindInt:
		return strconv.FormatInt(s.number, 10)
	case kindBool:
		return strconv.FormatBool(s.number != 0)
	default:
		return s.text
	}
}

// AppendKey appends bytes that are equal for equal values only.
func (v Value) AppendKey(to []byte) []byte {
	if v == (Value{}) {
		return append(to, 0)
	}
	s := v.handle.Value()
	to = append(to, 1+byte(s.kind))
	to = binary.AppendVarint(to, s.number)
	to = binary.AppendUvarint(to, uint64(len(s.text)))
	return append(to, s.text...)
}
