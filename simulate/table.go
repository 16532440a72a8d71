package simulate

// edition owns the chunks that it made, and may write to them.
type edition struct{ _ byte }

// chunkSize is how many elements of a table are copied for the first write to one of them.
const chunkSize = 32

// table is a list of which versions share what is equal. Copying the struct makes a version;
// both may go on once neither writes with the edition of before.
type table[T any] struct {
	length int
	chunks []*chunk[T]
	owner  *edition // of the list of chunks
}

type chunk[T any] struct {
	owner *edition
	items [chunkSize]T
}

func (t *table[T]) at(i int) *T { return &t.chunks[i/chunkSize].items[i%chunkSize] }

// edit returns element i to be written to on behalf of an edition. The list grows to hold it.
func (t *table[T]) edit(i int, by *edition) *T {
	if t.owner != by {
		chunks := make([]*chunk[T], len(t.chunks), len(t.chunks)+1)
		copy(chunks, t.chunks)
		t.chunks, t.owner = chunks, by
	}
	for len(t.chunks) <= i/chunkSize {
		t.chunks = append(t.chunks, &chunk[T]{owner: by})
	}
	c := t.chunks[i/chunkSize]
	if c.owner != by {
		c = &chunk[T]{owner: by, items: c.items}
		t.chunks[i/chunkSize] = c
	}
	t.length = max(t.length, i+1)
	return &c.items[i%chunkSize]
}
