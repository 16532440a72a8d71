package simulate

import (
	"context"
	"slices"
)

// Departure is whether a node could go.
type Departure struct {
	Node Node
	// Possible is set if Drain places all pods of the node, Undecided if that is neither a yes nor a no.
	Possible, Undecided bool
	// Err is why a pod of the node cannot be understood, so that Drain is an error.
	Err error
}

// Drainable tells of each of the real nodes of a set whether it could go: what Drain of that node alone,
// with the same set to place on and the same policy, would say. Nodes come in the order of the set.
//
// It takes time in proportion to the nodes and to their kinds of pods, as long as pods of each kind
// have room on more nodes than there are pods to be placed: then one of these nodes is still as it was
// when the last pod comes. All other nodes are drained on a copy, and so are those with pods that share
// claims or get devices of pools of several nodes. Options.Budget is for each node and kind. The error
// is the context's.
func (s *State) Drainable(ctx context.Context, nodes, on Nodes, p Policy) ([]Departure, error) {
	leaving := s.leaving(nodes)
	s = s.seen() // the pods may read more of devices than those before
	e := &exits{state: s, on: on.fixed(&s.data), rooms: make(map[*podKind]int)}
	e.countable = e.on.disjoint()
	departures := make([]Departure, 0, len(leaving))
	for _, l := range leaving {
		found := Departure{Node: Node{index: l.node, name: s.world.nodes[l.node].node.Name}, Err: l.err}
		if l.err == nil {
			roomy, err := e.roomy(ctx, l)
			if err != nil {
				return nil, err
			}
			if found.Possible = roomy; !roomy {
				result, err := s.Sim().Drain(ctx, on, p, found.Node.name)
				if err != nil {
					return nil, err
				}
				found.Possible, found.Undecided = result.All(), result.Undecided > 0
			}
		}
		departures = append(departures, found)
	}
	return departures, nil
}

// leaving are the pods that leave a node when it is drained.
type leaving struct {
	node  int
	head  *podEntry // the list of pods of which this was found out
	pods  int
	kinds []*podKind // each once
	// joins is set if a pod of the node shares a claim, or frees devices of other nodes.
	joins bool
	err   error
}

// leaving finds out about the real nodes of a set. It is remembered by node, for one list of pods.
func (s *State) leaving(nodes Nodes) []*leaving {
	w := s.world
	var known, next []*leaving
	if before := w.leaving.Load(); before != nil {
		known = *before
	}
	var list []*leaving
	for _, part := range nodes.list() {
		if part.template != nil {
			continue
		}
		for i := range s.data.realOf(part, 0) {
			rec := s.data.real.at(i)
			if rec.gone || !part.keeps(rec) {
				continue
			}
			if known != nil && known[i] != nil && known[i].head == rec.pods {
				list = append(list, known[i])
				continue
			}
			if next == nil {
				next = make([]*leaving, s.data.real.length)
				copy(next, known)
			}
			next[i] = w.leavingFrom(i, rec.pods)
			list = append(list, next[i])
		}
	}
	if next != nil {
		w.leaving.Store(&next)
	}
	return list
}

func (w *world) leavingFrom(node int, pods *podEntry) *leaving {
	l := &leaving{node: node, head: pods}
	for entry := pods; entry != nil; entry = entry.before {
		l.joins = l.joins || entry.joins
		if !moves(entry.pod) {
			continue
		}
		kind, err := w.kindOfEntry(entry)
		if err != nil {
			l.err = errEvicted(err)
			return l
		}
		if l.pods++; !slices.Contains(l.kinds, kind) {
			l.kinds = append(l.kinds, kind)
		}
	}
	return l
}

// exits finds out which nodes can go without trying.
type exits struct {
	state *State
	on    Nodes
	// countable is set if no node is twice in the set.
	countable bool
	// rooms is on how many nodes a pod of a kind has room for sure, 0 for kinds of which pods do not
	// stand for themselves.
	rooms map[*podKind]int
}

// roomy reports whether all pods of a node have a place elsewhere, because for each kind there are more
// nodes with room than pods that leave. The node itself may be one of them. Each pod that is placed changes
// one node, so when the last one comes, a node with room for it is as it was before.
func (e *exits) roomy(ctx context.Context, l *leaving) (bool, error) {
	if l.joins || !e.countable {
		return l.pods == 0, nil
	}
	for _, k := range l.kinds {
		nodes, known := e.rooms[k]
		if !known {
			var err error
			if nodes, err = e.nodesWithRoom(ctx, k); err != nil {
				return false, err
			}
			e.rooms[k] = nodes
		}
		if nodes <= l.pods {
			return false, nil
		}
	}
	return true, nil
}

func (e *exits) nodesWithRoom(ctx context.Context, k *podKind) (int, error) {
	c, err := e.state.world.newCall(ctx)
	if err != nil {
		return 0, err
	}
	a := e.state.data.asked(e.state.world, k)
	if !a.separate(ctx) {
		return 0, nil
	}
	t, err := e.state.data.tally(&c, a, e.on)
	return t.nodes, err
}
