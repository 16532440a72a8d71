package amount

import "encoding/binary"

// AppendKey appends 16 bytes that are equal for equal amounts only.
func (a Amount) AppendKey(to []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(to, uint64(a.hi)), a.lo)
}
