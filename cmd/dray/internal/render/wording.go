// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// wording rewrites sentences of the allocator in terms of the workload's manifests. Claims have the
// names in the pod's spec, or are not named if there is only one. Selectors are named by their
// positions, not by their text.
type wording struct{ replacer *strings.Replacer }

func newWording(c *cluster.Cluster, p *cluster.Placement) *wording {
	pairs := claimNames(c, p)
	for _, claim := range p.Before {
		for _, terms := range cluster.TermsOf(claim) {
			for _, offer := range terms.Offers {
				pairs = append(pairs, selectorNames(c.Class(offer.Class), offer.Selectors)...)
			}
		}
	}
	return &wording{strings.NewReplacer(longestFirst(pairs)...)}
}

// longestFirst sorts pairs by the length of the replaced text, since one name may be a prefix of
// another.
func longestFirst(pairs []string) []string {
	var list [][]string
	for pair := range slices.Chunk(pairs, 2) {
		list = append(list, pair)
	}
	slices.SortStableFunc(list, func(a, b []string) int { return cmp.Compare(len(b[0]), len(a[0])) })
	return slices.Concat(list...)
}

// claimNames returns pairs of the allocator's names of claims and shorter ones.
func claimNames(c *cluster.Cluster, p *cluster.Placement) []string {
	var pairs []string
	for _, claim := range p.Before {
		full := "claim " + claim.Namespace + "/" + claim.Name
		if len(p.Before) == 1 {
			pairs = append(pairs, full+": ", "", " of "+full, "")
		}
		pairs = append(pairs, full, "claim "+c.NameInPod(p.Workload, claim))
	}
	return pairs
}

func selectorNames(class *resourceapi.DeviceClass, own []resourceapi.DeviceSelector) []string {
	var pairs []string
	for i, selector := range own {
		if selector.CEL != nil {
			pairs = append(pairs, fmt.Sprintf("rejected by selector %d: %s", i, selector.CEL.Expression), fmt.Sprintf("not matching selectors[%d]", i))
		}
	}
	if class == nil {
		return pairs
	}
	for i, selector := range class.Spec.Selectors {
		if selector.CEL != nil {
			pairs = append(pairs, fmt.Sprintf("rejected by class %s: selector %d: %s", class.Name, i, selector.CEL.Expression), "not of class "+class.Name)
		}
	}
	return pairs
}

func (w *wording) words(text string) string { return w.replacer.Replace(text) }
