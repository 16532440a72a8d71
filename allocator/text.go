package allocator

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Text is the explanation for people, in several lines.
func (e *Explanation) Text() string {
	var text strings.Builder
	fmt.Fprintln(&text, e.Summary)
	if len(e.Core) > 1 {
		fmt.Fprintln(&text, "conflict:")
		for _, item := range e.Core {
			fmt.Fprintf(&text, "  claim %s: %s\n", item.Claim, item.Text)
		}
	}
	fmt.Fprintln(&text, "requests:")
	for _, r := range e.Requests {
		fmt.Fprintf(&text, "  claim %s: request %s: %s\n", r.Claim, r.Request, r.String())
	}
	for _, p := range e.Pools {
		fmt.Fprintf(&text, "pool %s cannot be used: %s\n", p.Pool, p.Incomplete+p.Invalid)
	}
	if e.NearestMiss != "" {
		fmt.Fprintf(&text, "nearest miss: %s\n", e.NearestMiss)
	}
	return text.String()
}

// String is one line of figures.
func (r RequestReport) String() string {
	need := fmt.Sprintf("%d needed", r.Needed)
	if r.All {
		need = "all needed"
	}
	return fmt.Sprintf("%s, %d reach the node, %s%s", need, r.Reachable, count(r.Candidates, "candidate"), because(r))
}

// Signature is equal for explanations that say the same of different nodes.
func (e *Explanation) Signature() string {
	alike := *e
	alike.Node = ""
	alike.Summary = ""
	alike.Pools = nil
	for _, p := range e.Pools {
		// Pools of nodes are often named after them.
		p.Pool.Name = ""
		alike.Pools = append(alike.Pools, p)
	}
	signature, err := json.Marshal(alike)
	if err != nil {
		// All fields are strings and numbers.
		panic("explanation cannot be encoded: " + err.Error())
	}
	return string(signature)
}
