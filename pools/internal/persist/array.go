package persist

const chunkSize = 64

// Array is an immutable sparse array. An element that was never set is the zero
// value of T.
type Array[T any] struct {
	chunks []*[chunkSize]T
}

// Get returns element i, which must not be negative.
func (a Array[T]) Get(i int) (element T) {
	if c := i / chunkSize; c < len(a.chunks) && a.chunks[c] != nil {
		return a.chunks[c][i%chunkSize]
	}
	return element
}

// With returns an array in which element i is v. It copies one chunk of 64 elements
// and one pointer per 64 elements of the array.
func (a Array[T]) With(i int, v T) Array[T] {
	c := i / chunkSize
	chunks := make([]*[chunkSize]T, max(len(a.chunks), c+1))
	copy(chunks, a.chunks)
	changed := new([chunkSize]T)
	if chunks[c] != nil {
		*changed = *chunks[c]
	}
	changed[i%chunkSize] = v
	chunks[c] = changed
	return Array[T]{chunks: chunks}
}
