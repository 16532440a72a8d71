package allocator

// part is a request or a constraint of a Problem, by claim and position.
type part struct {
	claim, position int
	constraint      bool
}

// parts lists the requests and then the constraints, in order.
func (p *Problem) parts() []part {
	var requests, constraints []part
	for c := range p.claims {
		for r := range p.claims[c].requests {
			requests = append(requests, part{claim: c, position: r})
		}
		for k := range p.claims[c].constraints {
			constraints = append(constraints, part{claim: c, position: k, constraint: true})
		}
	}
	return append(requests, constraints...)
}

// omitted are the parts of a Problem that a search leaves out. Nil leaves nothing out.
type omitted map[part]bool

func (o omitted) request(claim, request int) bool {
	return o[part{claim: claim, position: request}]
}

func (o omitted) constraint(claim, constraint int) bool {
	return o[part{claim: claim, position: constraint, constraint: true}]
}
