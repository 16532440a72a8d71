// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/reads"
	"github.com/dray-project/dray/pools"
)

// fieldPair is a case as it is asked about.
type fieldPair struct {
	*fieldCase
	worlds [2]*fieldWorld
	claims [2][]*resourceapi.ResourceClaim
	wants  [2][]fieldAnswer
}

// pair makes the second side, and finds out what allocators say that are asked about one side only, in a cluster without
// the other side. If the field decides which nodes have devices, or more than a field changes, the other side is there. It is nil
// if the second side is another node.
func (c *fieldCase) pair(t *testing.T, questions []*resourceapi.ResourceClaim, known map[*fieldWorld][]fieldAnswer) *fieldPair {
	t.Helper()
	changed, claim := c.changed()
	p := &fieldPair{fieldCase: c, worlds: [2]*fieldWorld{c.base, changed}, claims: [2][]*resourceapi.ResourceClaim{questions, questions}}
	if claim != nil {
		p.claims = [2][]*resourceapi.ResourceClaim{{c.claim}, {claim}}
	}
	if name := changed.node.Name; name != "a" && name != "b" || name != changed.named {
		return nil
	}
	apart := c.row != nil && c.row.Role&(reads.Reach|reads.Position) == 0
	for i, w := range p.worlds {
		if claim == nil && apart && i == 0 && known[w] != nil {
			p.wants[0] = known[w]
			continue
		}
		state := p.state(t)
		if apart {
			state = stateOf(t, w)
		}
		alone := newForFields(w)
		for _, claim := range p.claims[i] {
			p.wants[i] = append(p.wants[i], fieldAsk(t, alone, state, w, claim))
		}
		if claim == nil && apart && i == 0 {
			known[w] = p.wants[0]
		}
	}
	return p
}

// state has both sides.
func (p *fieldPair) state(t *testing.T) *pools.State {
	t.Helper()
	if p.worlds[0].node.Name == p.worlds[1].node.Name {
		return stateOf(t, p.worlds[0])
	}
	return stateOf(t, p.worlds[0], p.worlds[1])
}

// wrong asks one allocator about both sides, question by question, in either order, and lists what it says otherwise than
// what is wanted.
func (p *fieldPair) wrong(t *testing.T) (wrong []string) {
	t.Helper()
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		state, a := p.state(t), newForFields(p.worlds[0])
		for q := range p.claims[0] {
			for _, i := range order {
				if got := fieldAsk(t, a, state, p.worlds[i], p.claims[i][q]); got != p.wants[i][q] {
					wrong = append(wrong, fmt.Sprintf("%s: question %d to side %d, order %v: %q, want %q", p.name, q, i, order, got, p.wants[i][q]))
				}
			}
		}
	}
	return wrong
}

// decides reports whether the answers of the sides differ in which devices there are.
func (p *fieldPair) decides() bool {
	return !slices.EqualFunc(p.wants[0], p.wants[1], func(a, b fieldAnswer) bool { return a.devices == b.devices })
}

// Of the cases of a field which is known to decide, one in sampled is asked about. All are with DRAY_FIELDS=all.
const sampled = 200

// fieldCount is what cases of a row showed in a round.
type fieldCount struct {
	asked, decided int
	cases          []*fieldCase
}

// judgement is what all cases showed.
type judgement struct {
	questions []*resourceapi.ResourceClaim
	rounds    [2]map[*reads.Row]*fieldCount
}

// decided reports whether a field decided an answer.
func (j *judgement) decided(row *reads.Row) bool {
	return j.count(0, row).decided+j.count(1, row).decided > 0
}

// count is that of a row in a round.
func (j *judgement) count(round int, row *reads.Row) *fieldCount {
	count := j.rounds[round][row]
	if count == nil {
		count = new(fieldCount)
		j.rounds[round][row] = count
	}
	return count
}

// Two objects that are equal but for one field get the answers that they would get by themselves, in either order, whichever
// field it is. Each field that decides by the table decided some answer, and none that nobody reads. If a part of a key is
// left out, some answer is wrong.
func TestEachFieldDecidesAsTheTableSays(t *testing.T) {
	j := &judgement{questions: fieldQuestions(), rounds: [2]map[*reads.Row]*fieldCount{{}, {}}}
	for round, inUse := range []bool{false, true} {
		j.round(t, round, inUse)
	}
	for _, root := range []*reads.Root{reads.Slice, reads.Device, reads.Claim, reads.Class, reads.Toleration, reads.Node} {
		for i := range root.Rows {
			row := &root.Rows[i]
			if allocated := root == reads.Claim && row.Role&reads.Reach != 0; row.Role.Decides() && row.Only == "" && !allocated && !j.decided(row) {
				t.Errorf("%s: %s never decided an answer: the test sees too little, or nobody reads it", root.Name, row.Path)
			}
		}
	}
	for _, omission := range omissions() {
		t.Run(omission.Covers[0].Root.Name+"."+omission.Covers[0].Path, func(t *testing.T) { j.seeOmission(t, omission) })
	}
}

// round asks about all cases, or some.
func (j *judgement) round(t *testing.T, round int, inUse bool) {
	t.Helper()
	all, known := os.Getenv("DRAY_FIELDS") == "all", map[*fieldWorld][]fieldAnswer{}
	asked, judged, wrong, list := 0, 0, 0, fieldCases(fieldWorldOf("a", inUse), fieldWorldOf("b", inUse))
	for i := range list {
		c := &list[i]
		count := j.count(round, c.row)
		count.cases = append(count.cases, c)
		if settled := c.row == nil || j.decided(c.row) || !c.row.Role.Decides() && count.asked > 0; !all && settled && i%sampled != 0 {
			continue
		}
		p := c.pair(t, j.questions, known)
		if p == nil {
			continue
		}
		asked++
		count.asked++
		decides := p.decides()
		if all || decides || i%sampled == 0 {
			judged++
			if found := p.wrong(t); len(found) > 0 {
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

// seeOmission leaves a part of a key out, after which some answer must be wrong.
func (j *judgement) seeOmission(t *testing.T, omission keys.Omission) {
	asked := 0
	for _, covered := range omission.Covers {
		row, _ := covered.Root.Row(covered.Path)
		for round := range j.rounds {
			for _, c := range j.count(round, row).cases {
				p := c.pair(t, j.questions, map[*fieldWorld][]fieldAnswer{})
				if asked++; p == nil {
					continue
				}
				restore := omission.Omit()
				wrong := len(p.wrong(t))
				if restore(); wrong > 0 {
					t.Logf("case %d: %s: %d wrong", asked, p.name, wrong)
					return
				}
			}
		}
	}
	t.Errorf("nothing is wrong without %s %s, in %d cases", omission.Covers[0].Root.Name, omission.Covers[0].Path, asked)
}
