// Package adversary looks for small clusters on which Dray's own search takes the most
// steps.
//
//	generated or recorded case ──► mutate ──► measure ──► keep if worse, or by luck
//	        ▲                                                │
//	        └───────────────── next round ◄── reduce ◄───────┘
//	                                            └──► Worst: one case per kind, on disk
//
// A round is simulated annealing from one case. What it ends with is made as small as it
// can be without losing its steps. Cases stay within Kubernetes' limits and within 32
// devices, three claims and 32 devices asked for by exact counts: what is hard there is
// hard by its structure. The same seed and the same recorded cases give the same rounds.
// Command adversary (folder cmd) runs it.
package adversary
