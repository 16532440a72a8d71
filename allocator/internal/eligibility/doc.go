// Package eligibility says which devices may serve a request by themselves, whatever else is chosen.
//
//	class + request ─► Filter ─┐
//	shape of a device ─────────┴► Judgement    selectors and capacity, remembered
//	view of a node + usage ─► Node
//	Node × Filter ─► Domain                    candidates, by one ordered list of checks
//	              └► Rejections                the same checks, all of them, in words
//
// # Files
//
//	checks                      the rules, in the order in which errors count
//	domain, looks               what a filter allows on a node; devices that look the same at once
//	node                        the devices that a node reaches, and what is in use of them
//	filter, evaluator           selectors and what else a request says; CEL on shapes
//	projection                  what selectors can tell about devices
//	capacity, range, quantity   what an allocation takes (KEP-5075)
//	taint                       KEP-5055
package eligibility
