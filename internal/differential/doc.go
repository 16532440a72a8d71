// Package differential asks two allocators the same generated questions and compares
// the answers. The peer is the norm; documented decisions excuse a difference, which
// is then counted under the number of the decision.
//
//	clustergen.Generate ──► ours ──► oracle.Verify, inputs untouched
//	                   └──► peer ──► same class of outcome, oracle.Equal
//
// A case on which the answers disagree is reduced to a local minimum and written as a
// scenario file. Command differential (folder cmd) runs it.
package differential
