package pools

// settle finds out whether the pool belongs to one node as a whole, or to all.
func (p *Pool) settle() {
	p.everywhere = len(p.Slices) > 0
	for _, slice := range p.Slices {
		own := &slice.reach.own
		switch {
		case slice.reach.devices != nil || own.node == "" && !own.all:
			p.home, p.everywhere = "", false
			return
		case own.node == "":
		case p.home == "" || p.home == own.node:
			p.home, p.everywhere = own.node, false
		default:
			p.home, p.everywhere = "", false
			return
		}
	}
}

// wholeView is the view of a node that the pool belongs to as a whole: it is the same
// for all such nodes and kept. For other nodes it is nil.
func (p *Pool) wholeView(node string) *PoolView {
	if !p.everywhere && (p.home == "" || p.home != node) {
		return nil
	}
	if kept := p.whole.Load(); kept != nil {
		return kept
	}
	view := p.view(nil, p.Slices)
	p.whole.Store(&view)
	return &view
}
