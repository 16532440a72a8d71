// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eligibility says which devices may serve a request by themselves, whatever else is chosen.
//
//	classes + request ─► Filter (a Selection, tolerations, admin access)
//	Selection × shape of a device ─► Judgement    first matching class, consumption: memoised
//	view of a node + usage ─► Node
//	Node × Filter ─► Domain                       candidates, by one ordered list of checks
//	              └► Rejections                   the results of all checks, for explanations
//
// # Files
//
//	checks       the rules, in the order in which errors count; taints (KEP-5055)
//	node         the devices that a node reaches, and which are in use
//	domain       the candidates of a filter on a node, by equivalence classes of devices
//	filter       what a request says about single devices
//	evaluator    CEL on shapes, and judgements
//	projection   numbers for the shapes that selections can tell apart
//	capacity     what an allocation takes (KEP-5075)
package eligibility
