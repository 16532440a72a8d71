package allocator

// desk is what a goroutine needs to search one node. Nothing on it outlives the search:
// outcomes say what was asked, and explanations build the instance anew.
type desk struct {
	instance instance
	search   search
	room     room
}

// desk returns one that nobody works at.
func (a *Allocator) desk() *desk {
	if d, ok := a.desks.Get().(*desk); ok {
		return d
	}
	d := new(desk)
	d.instance.room = &d.room
	return d
}

// leave clears a desk for others. It keeps nothing of the cluster.
func (a *Allocator) leave(d *desk) {
	d.instance.clear()
	d.search.clear()
	d.room.clear()
	a.desks.Put(d)
}
