package allocator

// Stats counts the work behind an Outcome on one node.
type Stats struct {
	// Steps is what the budget limits: candidates tried, requests entered, and, at a
	// lower rate, devices checked while looking ahead.
	Steps int64
	// Decisions is the number of devices chosen, including those given up again.
	Decisions int64
	// Propagations is the number of checks a choice led to: counters, groups,
	// capacities and constraints.
	Propagations int64
	// Backtracks is the number of decisions given up.
	Backtracks int64
	// CELEvaluations is the number of expressions evaluated; remembered results
	// do not count. With concurrent use of one Allocator it is approximate.
	CELEvaluations int64
}
