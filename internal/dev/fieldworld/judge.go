// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fieldworld

import (
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/reads"
)

// Answer is what is said of a question about a node: which devices, and what results say of them or why there are none.
type Answer struct{ Devices, Results string }

// Ask answers a question about a side.
type Ask func(t *testing.T, s *Side, c *resourceapi.ResourceClaim) Answer

// User is who remembers answers.
type User struct {
	// Open makes one that remembers nothing yet, for a cluster with these sides. Sides of one node differ in their classes
	// only.
	Open func(t *testing.T, sides ...*Side) Ask
	// Omissions are the parts of the keys that the user writes.
	Omissions []keys.Omission
	// Sampled is how many cases of a field which is known to decide there are for each that is asked about, All that all
	// are asked about.
	Sampled int
	All     bool
}

// roots are those of which each field is changed.
var roots = []*reads.Root{reads.Slice, reads.Device, reads.Claim, reads.Class, reads.Toleration, reads.Node}

// Covered compares the rows that omissions cover with those of roots that have to be told apart. Otherwise are those that are
// told apart by other means.
func (u User) Covered(t *testing.T, otherwise map[keys.Row]string) {
	t.Helper()
	covered := map[keys.Row]bool{}
	for _, omission := range u.Omissions {
		for _, row := range omission.Covers {
			if _, found := row.Root.Row(row.Path); !found {
				t.Errorf("%s: %s is covered and not in the table", row.Root.Name, row.Path)
			}
			covered[row] = true
		}
	}
	for _, root := range roots {
		for _, row := range root.Rows {
			at := keys.Row{Root: root, Path: row.Path}
			_, apart := otherwise[at]
			if want := row.Role.Keyed() && row.Only == "" && !apart; covered[at] != want && (want || row.Only == "") {
				t.Errorf("%s: %s (%s) is covered: %v", root.Name, row.Path, row.Role, covered[at])
			}
		}
	}
}

// pair is a case as it is asked about.
type pair struct {
	*change
	sides  [2]*Side
	claims [2][]*resourceapi.ResourceClaim
	wants  [2][]Answer
}

// judgement is what all cases showed.
type judgement struct {
	User
	questions []*resourceapi.ResourceClaim
	rounds    [2]map[*reads.Row]*count
}

// count is what cases of a row showed in a round.
type count struct {
	asked, decided int
	decisive       []*pair // those that were asked about together and have different answers
	cases          []*change
}

// Judge has a user asked about two objects that are equal but for one field, whichever field it is. Both get the answers that
// they would get by themselves, in either order. Each field that decides by the table decided some answer, and none that nobody
// reads. If a part of a key is left out, some answer is wrong.
func (u User) Judge(t *testing.T) {
	t.Helper()
	j := &judgement{User: u, questions: Questions(), rounds: [2]map[*reads.Row]*count{{}, {}}}
	for round, inUse := range []bool{false, true} {
		j.round(t, round, inUse)
	}
	for _, root := range roots {
		for i := range root.Rows {
			row := &root.Rows[i]
			if allocated := root == reads.Claim && row.Role&reads.Reach != 0; row.Role.Decides() && row.Only == "" && !allocated && !j.decided(row) {
				t.Errorf("%s: %s never decided an answer: the test sees too little, or nobody reads it", root.Name, row.Path)
			}
		}
	}
	for _, omission := range u.Omissions {
		t.Run(omission.Covers[0].Root.Name+"."+omission.Covers[0].Path, func(t *testing.T) { j.seeOmission(t, omission) })
	}
}

// pair makes the second side, and finds out what is said to somebody who asks about one side only, in a cluster without
// the other side. If the field decides which nodes have devices, or more than a field changes, the other side is there. It is nil
// if the second side is another node.
func (j *judgement) pair(t *testing.T, c *change, known map[*Side][]Answer) *pair {
	t.Helper()
	changed, claim := c.changed()
	p := &pair{change: c, sides: [2]*Side{c.base, changed}, claims: [2][]*resourceapi.ResourceClaim{j.questions, j.questions}}
	if claim != nil {
		p.claims = [2][]*resourceapi.ResourceClaim{{c.claim}, {claim}}
	}
	if name := changed.Node.Name; name != "a" && name != "b" || name != changed.named {
		return nil
	}
	apart := c.row != nil && c.row.Role&(reads.Reach|reads.Position) == 0
	for i, side := range p.sides {
		if claim == nil && apart && i == 0 && known[side] != nil {
			p.wants[0] = known[side]
			continue
		}
		there := p.sides[:]
		if apart {
			there = []*Side{side}
		}
		ask := j.Open(t, there...)
		for _, claim := range p.claims[i] {
			p.wants[i] = append(p.wants[i], ask(t, side, claim))
		}
		if claim == nil && apart && i == 0 {
			known[side] = p.wants[0]
		}
	}
	return p
}

// wrong asks somebody about both sides, question by question, in either order, and lists what is said otherwise than
// what is wanted.
func (j *judgement) wrong(t *testing.T, p *pair) (wrong []string) {
	t.Helper()
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		ask := j.Open(t, p.sides[:]...)
		for q := range p.claims[0] {
			for _, i := range order {
				if got := ask(t, p.sides[i], p.claims[i][q]); got != p.wants[i][q] {
					wrong = append(wrong, fmt.Sprintf("%s: question %d to side %d, order %v: %q, want %q", p.name, q, i, order, got, p.wants[i][q]))
				}
			}
		}
	}
	return wrong
}

// decides reports whether the answers of the sides differ in which devices there are.
func (p *pair) decides() bool {
	return !slices.EqualFunc(p.wants[0], p.wants[1], func(a, b Answer) bool { return a.Devices == b.Devices })
}

// decided reports whether a field decided an answer.
func (j *judgement) decided(row *reads.Row) bool {
	return j.count(0, row).decided+j.count(1, row).decided > 0
}

// count is that of a row in a round.
func (j *judgement) count(round int, row *reads.Row) *count {
	known := j.rounds[round][row]
	if known == nil {
		known = new(count)
		j.rounds[round][row] = known
	}
	return known
}

// round asks about all cases, or some.
func (j *judgement) round(t *testing.T, round int, inUse bool) {
	t.Helper()
	known := map[*Side][]Answer{}
	asked, judged, wrong, list := 0, 0, 0, changes(sideOf("a", inUse), sideOf("b", inUse))
	for i := range list {
		c := &list[i]
		count := j.count(round, c.row)
		count.cases = append(count.cases, c)
		if settled := c.row == nil || j.decided(c.row) || !c.row.Role.Decides() && count.asked > 0; !j.All && settled && i%j.Sampled != 0 {
			continue
		}
		p := j.pair(t, c, known)
		if p == nil {
			continue
		}
		asked++
		count.asked++
		decides := p.decides()
		if j.All || decides || i%j.Sampled == 0 {
			if judged++; decides {
				count.decisive = append(count.decisive, p)
			}
			if found := j.wrong(t, p); len(found) > 0 {
				if wrong++; wrong <= 10 {
					t.Errorf("%d wrong answers: %s", len(found), found[0])
				}
			}
		}
		if c.row == nil || !decides {
			continue
		}
		if count.decided++; c.row.Role == reads.Ignore || c.row.Role == reads.Result || c.row.Only != "" {
			t.Errorf("%s decides, by the table nobody reads it", c.name)
		}
	}
	t.Logf("in use %v: %d of %d cases, %d of them together, %d wrong, %d questions each", inUse, asked, len(list), judged, wrong, len(j.questions))
}

// seeOmission leaves a part of a key out, after which some answer must be wrong. That of a case which decides is wrong most
// often.
func (j *judgement) seeOmission(t *testing.T, omission keys.Omission) {
	t.Helper()
	asked := 0
	seen := func(p *pair) bool {
		asked++
		restore := omission.Omit()
		wrong := j.wrong(t, p)
		restore()
		if len(wrong) > 0 {
			t.Logf("case %d: %s: %d wrong", asked, p.name, len(wrong))
		}
		return len(wrong) > 0
	}
	var counts []*count
	for _, covered := range omission.Covers {
		row, _ := covered.Root.Row(covered.Path)
		for round := range j.rounds {
			counts = append(counts, j.count(round, row))
		}
	}
	for _, count := range counts {
		if slices.ContainsFunc(count.decisive, seen) {
			return
		}
	}
	for _, count := range counts {
		for _, c := range count.cases {
			if p := j.pair(t, c, map[*Side][]Answer{}); p != nil && seen(p) {
				return
			}
		}
	}
	t.Errorf("nothing is wrong without %s %s, in %d cases", omission.Covers[0].Root.Name, omission.Covers[0].Path, asked)
}
