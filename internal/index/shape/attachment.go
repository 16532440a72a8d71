package shape

import "sync/atomic"

// Attachment is room for what one user keeps with an immutable object.
type Attachment struct{ attached atomic.Pointer[any] }

// Attach returns what one user keeps with the object, for as long as the object lives:
// the result of the first call's build. Concurrent first calls may each build, one
// result is kept. There is room for one user, which is the allocator.
func (a *Attachment) Attach(build func() any) any {
	if kept := a.attached.Load(); kept != nil {
		return *kept
	}
	built := build()
	if !a.attached.CompareAndSwap(nil, &built) {
		return *a.attached.Load()
	}
	return built
}
