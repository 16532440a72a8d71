package pools

import "encoding/binary"

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
