// Package amount has an exact number for quantities: counters, capacities and
// what is left of them.
//
// A resource.Quantity allocates as soon as it leaves int64, changes its inner form
// when it is read and is not comparable with ==. An [Amount] is sixteen bytes,
// immutable, comparable, and adds in two instructions, so it can be copied into
// vectors and used as a map key.
//
// An Amount counts nano units, the finest the Kubernetes API has. The range is
// ±[Limit], about nine million times the largest int64 of units. Arithmetic is
// modulo 2^128, so adding and subtracting the same amounts in any order always
// returns to the start; no wrap occurs before 2^11 amounts at the limit are added.
package amount
