// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eligibility says which devices may serve a request by themselves, whatever else is chosen.
//
//	classes + request ─► Filter (a Selection, tolerations, admin access)
//	Selection × shape of a device ─► Judgement    which class has it, and capacity: remembered
//	view of a node + usage ─► Node
//	Node × Filter ─► Domain                       candidates, by one ordered list of checks
//	              └► Rejections                   the same checks, all of them, in words
//
// # Files
//
//	checks       the rules, in the order in which errors count; taints (KEP-5055)
//	node         the devices that a node reaches, and what is in use of them
//	domain       what a filter allows on a node; devices that look the same at once
//	filter       what a request says of single devices
//	evaluator    CEL on shapes, and judgements
//	projection   what selections can tell about shapes
//	capacity     what an allocation takes (KEP-5075)
package eligibility
