// Package benchmarks runs Dray and Kubernetes' own allocator on the same clusters, in
// one process, for benchstat. Names carry impl=, sizes and state; each benchmark checks
// the answers of all implementations against each other before it measures any.
//
//	go test -run '^$' -bench . ./benchmarks
package benchmarks
