package allocator

import (
	"strings"
	"unsafe"

	"github.com/puzpuzpuz/xsync/v4"
)

// answers remembers answers by signature. It is bounded and safe for concurrent use: reading
// takes no lock and no allocation, and goroutines that add seldom wait for each other.
type answers struct {
	known *xsync.Map[string, *answer]
}

// maxAnswers bounds what is remembered before it starts anew.
const maxAnswers = 1 << 14

func newAnswers() *answers { return &answers{known: xsync.NewMap[string, *answer]()} }

// get returns nil if there is no such answer.
func (a *answers) get(signature []byte) *answer {
	known, _ := a.known.Load(inPlace(signature))
	return known
}

func (a *answers) add(signature []byte, known *answer) {
	if a.known.Size() >= maxAnswers {
		a.known.Clear()
	}
	a.known.Store(strings.Clone(inPlace(signature)), known)
}

// inPlace is a string that changes as the bytes do: good for looking something up, not for
// keeping.
func inPlace(bytes []byte) string { return unsafe.String(unsafe.SliceData(bytes), len(bytes)) }
