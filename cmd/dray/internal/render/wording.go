package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// wording puts what the allocator says of a workload the way people say it who have
// its manifests at hand: claims are called as the pod calls them, or not named if there
// is only one, and expressions of classes are left out. The allocator's own words are
// in the JSON.
type wording struct {
	claims *strings.Replacer
	// selectors has a phrase for each selector, by how a Rejection names it. Errors of
	// selectors are not among them.
	selectors map[string]string
}

// newWording is for the claims of a placement; full keeps the expressions of classes.
func newWording(c *cluster.Cluster, p *cluster.Placement, full bool) *wording {
	w := &wording{claims: strings.NewReplacer(claimNames(c, p)...), selectors: make(map[string]string)}
	for _, claim := range p.Before {
		for _, request := range claim.Spec.Devices.Requests {
			if exactly := request.Exactly; exactly != nil {
				w.addSelectors(c.Class(exactly.DeviceClassName), exactly.Selectors, full)
			}
			for _, sub := range request.FirstAvailable {
				w.addSelectors(c.Class(sub.DeviceClassName), sub.Selectors, full)
			}
		}
	}
	return w
}

// claimNames pairs the names that the allocator uses with shorter ones.
func claimNames(c *cluster.Cluster, p *cluster.Placement) []string {
	var pairs []string
	// The longest first: one name may begin like another.
	claims := slices.SortedStableFunc(slices.Values(p.Before), func(a, b *resourceapi.ResourceClaim) int {
		return cmp.Compare(len(b.Name), len(a.Name))
	})
	for _, claim := range claims {
		full := "claim " + claim.Namespace + "/" + claim.Name
		if len(p.Before) == 1 {
			pairs = append(pairs, full+": ", "", " of "+full, "")
		}
		pairs = append(pairs, full, "claim "+c.NameInPod(p.Workload, claim))
	}
	return pairs
}

func (w *wording) addSelectors(class *resourceapi.DeviceClass, own []resourceapi.DeviceSelector, full bool) {
	for i, selector := range own {
		if selector.CEL != nil {
			w.selectors[fmt.Sprintf("selector %d: %s", i, selector.CEL.Expression)] = "not matching " + selector.CEL.Expression
		}
	}
	if class == nil {
		return
	}
	for i, selector := range class.Spec.Selectors {
		if selector.CEL == nil {
			continue
		}
		phrase := "not of class " + class.Name
		if full {
			phrase += ": " + selector.CEL.Expression
		}
		w.selectors[fmt.Sprintf("class %s: selector %d: %s", class.Name, i, selector.CEL.Expression)] = phrase
	}
}

// words replaces in a text of an explanation what can be said shorter.
func (w *wording) words(e *allocator.Explanation, text string) string {
	var pairs []string
	for _, request := range e.Requests {
		if len(request.Rejections) > 0 {
			pairs = append(pairs, inParentheses(request.Rejections), w.rejections(request.Rejections))
		}
	}
	// The longest first: one expression may begin like another.
	details := slices.SortedFunc(maps.Keys(w.selectors), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	for _, detail := range details {
		pairs = append(pairs, "rejected by "+detail, w.selectors[detail])
	}
	return w.claims.Replace(strings.NewReplacer(pairs...).Replace(text))
}

// inParentheses is how an explanation lists rejections.
func inParentheses(rejections []allocator.Rejection) string {
	phrases := make([]string, len(rejections))
	for i, rejection := range rejections {
		phrases[i] = rejection.String()
	}
	return "(" + strings.Join(phrases, ", ") + ")"
}

// rejections counts devices together that several selectors of a class reject.
func (w *wording) rejections(rejections []allocator.Rejection) string {
	var order []string
	devices := make(map[string]int)
	for _, rejection := range rejections {
		_, phrase, _ := strings.Cut(rejection.String(), " ")
		if short, known := w.selectors[rejection.Detail]; known && rejection.Reason == allocator.RejectedBySelector {
			phrase = short
		}
		if _, counted := devices[phrase]; !counted {
			order = append(order, phrase)
		}
		devices[phrase] += rejection.Devices
	}
	phrases := make([]string, len(order))
	for i, phrase := range order {
		phrases[i] = fmt.Sprintf("%d %s", devices[phrase], phrase)
	}
	return "(" + strings.Join(phrases, ", ") + ")"
}
