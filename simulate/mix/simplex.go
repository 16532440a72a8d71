// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"math"
	"slices"
)

// program is a linear programme in equations: the x ≥ 0 of least cost with A·x = b, where b > 0. Columns are added as they are found. It
// starts from a basis that is the identity, and goes on from the last one after columns were added: the revised simplex method, with an
// inverse of the basis that is kept up to date and made anew now and then.
//
// Whoever uses it need not trust it: a bound follows from any duals, and x is a guide to whole numbers.
type program struct {
	b       []float64
	columns []column
	basis   []int     // the column of each row
	inverse []float64 // of the basis, by rows
	x       []float64 // of the basis
	duals   []float64
	pivots  int
}

// column is a variable with what it costs.
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
	// maxPivots bounds one call of solve.
	maxPivots = 20_000
	// refactor is after how many pivots the inverse is made anew.
	refactor = 100
	// smallestPivot is what counts as zero.
	smallestPivot = 1e-9
)

// newProgram starts with a column for each row, of a cost. Right sides are changed a little, each by another amount, so that hardly any
// two bases are of equal cost: the method then does not go round in circles.
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

// solve goes on until no column costs less than its duals by more than the tolerance. It is false if that takes too long.
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

// reduced is what a column costs beyond its duals.
func (l *program) reduced(c *column) float64 {
	cost := c.cost
	for _, e := range c.entries {
		cost -= l.duals[e.row] * e.value
	}
	return cost
}

// leaving is the row whose variable becomes zero first as a column comes in; of several, the one with the largest pivot.
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

// pivot lets a column take the place of another one.
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

// invert makes the inverse anew, by elimination with the largest pivots. It is false if the basis is singular.
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
