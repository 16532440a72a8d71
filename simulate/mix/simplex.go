// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"math"
	"slices"
)

// program is a linear programme in equality form: minimize c·x with A·x = b and x ≥ 0, where b > 0. It is
// solved by the revised simplex method. The first basis is the identity. Columns can be added later; solve then
// continues from the last basis. The inverse of the basis is updated by each pivot, and recomputed regularly.
//
// Users need not trust its accuracy: any duals give a lower bound, and x is only rounded to whole numbers.
type program struct {
	b       []float64
	columns []column
	basis   []int     // the column that is basic in each row
	inverse []float64 // of the basis, row by row
	x       []float64 // value of the basic column of each row
	duals   []float64
	pivots  int
}

// column is a variable with its cost.
type column struct {
	cost    float64
	entries []entry
	basic   bool
}

type entry struct {
	row   int
	value float64
}

const (
	// maxPivots bounds the pivots of one call of solve.
	maxPivots = 20_000
	// refactor is the number of pivots after which the inverse is recomputed.
	refactor = 100
	// smallestPivot is the threshold below which a pivot counts as zero.
	smallestPivot = 1e-9
)

// newProgram returns a programme with one column for each row, of the given cost. Right sides are perturbed,
// each differently. Bases of equal cost become unlikely, which prevents cycling.
func newProgram(b, costs []float64) *program {
	l := &program{b: slices.Clone(b), x: make([]float64, len(b)), inverse: make([]float64, len(b)*len(b))}
	for row := range b {
		_, fraction := math.Modf(float64(row+1) * math.Phi)
		l.b[row] += 1e-7 * (1 + fraction)
		l.add(costs[row], entry{row, 1})
		l.basis, l.columns[row].basic = append(l.basis, row), true
		l.inverse[row*len(b)+row], l.x[row] = 1, l.b[row]
	}
	l.price()
	return l
}

func (l *program) add(cost float64, entries ...entry) {
	l.columns = append(l.columns, column{cost: cost, entries: entries})
}

// price computes the duals from the inverse.
func (l *program) price() {
	l.duals = make([]float64, len(l.b))
	for row, j := range l.basis {
		if cost := l.columns[j].cost; cost != 0 {
			for i, value := range l.row(row) {
				l.duals[i] += cost * value
			}
		}
	}
}

func (l *program) row(i int) []float64 { return l.inverse[i*len(l.b) : (i+1)*len(l.b)] }

// solve pivots until no column has a reduced cost below -tolerance. It is false if that takes too many pivots.
func (l *program) solve(tolerance float64) bool {
	direction := make([]float64, len(l.b))
	for range maxPivots {
		entering, least := -1, -tolerance
		for j := range l.columns {
			if c := &l.columns[j]; !c.basic {
				if reduced := l.reduced(c); reduced < least {
					entering, least = j, reduced
				}
			}
		}
		if entering < 0 {
			return true
		}
		leaving := l.leaving(entering, direction)
		if leaving < 0 || !l.pivot(entering, leaving, least, direction) {
			return false
		}
	}
	return false
}

// reduced is the reduced cost of a column.
func (l *program) reduced(c *column) float64 {
	cost := c.cost
	for _, e := range c.entries {
		cost -= l.duals[e.row] * e.value
	}
	return cost
}

// leaving returns the row whose variable becomes zero first when a column enters; of several, the one with the
// largest pivot.
func (l *program) leaving(entering int, direction []float64) int {
	best, ratio := -1, math.Inf(1)
	for i := range l.b {
		direction[i] = 0
		row := l.row(i)
		for _, e := range l.columns[entering].entries {
			direction[i] += row[e.row] * e.value
		}
		if direction[i] <= smallestPivot {
			continue
		}
		if r := max(0, l.x[i]) / direction[i]; r < ratio || r == ratio && direction[i] > direction[best] {
			best, ratio = i, r
		}
	}
	return best
}

// pivot replaces the basic column of a row by another one. It is false if the basis becomes singular.
func (l *program) pivot(entering, leaving int, reduced float64, direction []float64) bool {
	l.columns[l.basis[leaving]].basic, l.columns[entering].basic = false, true
	l.basis[leaving] = entering
	if l.pivots++; l.pivots%refactor == 0 {
		return l.invert()
	}
	pivotRow := l.row(leaving)
	for i := range pivotRow {
		pivotRow[i] /= direction[leaving]
	}
	l.x[leaving] = max(0, l.x[leaving]) / direction[leaving]
	for i, d := range direction {
		if i == leaving || d == 0 {
			continue
		}
		row := l.row(i)
		for k, value := range pivotRow {
			row[k] -= d * value
		}
		l.x[i] -= d * l.x[leaving]
	}
	for i, value := range pivotRow {
		l.duals[i] += reduced * value
	}
	return true
}

// invert recomputes the inverse by Gauss-Jordan elimination with row pivoting. It is false if the basis is
// singular.
func (l *program) invert() bool {
	m := len(l.b)
	matrix := make([]float64, m*m)
	clear(l.inverse)
	for column, j := range l.basis {
		l.inverse[column*m+column] = 1
		for _, e := range l.columns[j].entries {
			matrix[e.row*m+column] = e.value
		}
	}
	at := func(list []float64, i int) []float64 { return list[i*m : (i+1)*m] }
	for i := range m {
		largest := i
		for k := i + 1; k < m; k++ {
			if math.Abs(matrix[k*m+i]) > math.Abs(matrix[largest*m+i]) {
				largest = k
			}
		}
		if math.Abs(matrix[largest*m+i]) < smallestPivot {
			return false
		}
		for _, list := range [][]float64{matrix, l.inverse} {
			if largest != i {
				for k := range m {
					list[i*m+k], list[largest*m+k] = list[largest*m+k], list[i*m+k]
				}
			}
		}
		scale := 1 / matrix[i*m+i]
		for k := range m {
			matrix[i*m+k], l.inverse[i*m+k] = matrix[i*m+k]*scale, l.inverse[i*m+k]*scale
		}
		for k := range m {
			if factor := matrix[k*m+i]; k != i && factor != 0 {
				for c, value := range at(matrix, i) {
					matrix[k*m+c] -= factor * value
				}
				for c, value := range at(l.inverse, i) {
					l.inverse[k*m+c] -= factor * value
				}
			}
		}
	}
	for i := range m {
		l.x[i] = 0
		for k, value := range l.row(i) {
			l.x[i] += value * l.b[k]
		}
	}
	l.price()
	return true
}
