package cluster

import (
	"slices"

	"github.com/dray-project/dray/internal/index/pool"
)

// sortedPools is an immutable list of pools, sorted by ID. It is kept in pieces, so that
// a change copies one of them and not a pointer per pool of the cluster.
type sortedPools struct{ pieces [][]*pool.Pool } // none is empty

const (
	// pieceSize is how many pools a new piece has, maxPiece how many it may grow to.
	pieceSize = 64
	maxPiece  = 128
)

// find returns the pool of an ID, or nil.
func (l sortedPools) find(id pool.ID) *pool.Pool {
	if len(l.pieces) == 0 {
		return nil
	}
	piece := l.pieces[l.piece(id)]
	if at, found := search(piece, id); found {
		return piece[at]
	}
	return nil
}

// piece returns where an ID is or would be.
func (l sortedPools) piece(id pool.ID) int {
	at, found := slices.BinarySearchFunc(l.pieces, id, func(piece []*pool.Pool, id pool.ID) int {
		return piece[0].ID.Compare(id)
	})
	if found {
		return at
	}
	return max(at-1, 0)
}

// with returns the list after changes, which are sorted by ID.
func (l sortedPools) with(changes []change) sortedPools {
	pieces := make([][]*pool.Pool, 0, len(l.pieces)+1)
	done := 0
	for len(changes) > 0 && done < len(l.pieces) {
		at, n := l.piece(changes[0].id), len(changes)
		if at+1 < len(l.pieces) {
			n, _ = slices.BinarySearchFunc(changes, l.pieces[at+1][0].ID, func(c change, id pool.ID) int {
				return c.id.Compare(id)
			})
		}
		pieces = append(pieces, l.pieces[done:at]...)
		pieces = appendPieces(pieces, merge(l.pieces[at], changes[:n], everyPool))
		changes, done = changes[n:], at+1
	}
	pieces = append(pieces, l.pieces[done:]...)
	return sortedPools{appendPieces(pieces, merge(nil, changes, everyPool))}
}

func everyPool(*pool.Pool) bool { return true }

func appendPieces(pieces [][]*pool.Pool, pools []*pool.Pool) [][]*pool.Pool {
	if n := len(pools); n > 0 && n <= maxPiece {
		return append(pieces, pools)
	}
	return slices.AppendSeq(pieces, slices.Chunk(pools, pieceSize))
}
