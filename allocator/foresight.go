package allocator

import (
	"github.com/bits-and-blooms/bitset"
	resourceapi "k8s.io/api/resource/v1"
)

// foresight is what a search works with once it has come to a dead end: what is viable
// for the requests to come, which of them ask for the same, what cannot be told apart,
// and which states are known to fail.
type foresight struct {
	demands  []demand
	demandOf []int32 // by alternative
	twins    []int32 // by position of a request, see twins.go
	floors   []floor // by group of twins
	// positions numbers requests in first-fit order: that of a claim's first request.
	positions []int
	requests  []*request
	// dangers is the position after the last request at which looking can be an error.
	dangers int
	errs    []bool // by alternative
	// dead alternatives are under no solution, nor error, see probe.go. By alternative.
	dead []bool
	// errorsAt are the devices at which the entry among the openings meets its error.
	errorsAt *bitset.BitSet
	// components are what devices that share counter sets have in common.
	components  []component
	componentOf []int32 // by device, -1 without counters
	// classes are interchangeable devices, nil until somebody wants to know.
	classes []int32
	// values are tables by claim and constraint, nil for one that was left out.
	values             [][]*valueTable
	matches, distincts []*valueTable
	nogoods            nogoods
	// sizes are sets of demands that ask for much, see sizes.go.
	sizes []*bitset.BitSet
	// atRisk tells of a claim that it may ask for more devices than it can hold.
	atRisk []bool
	// later are, by position of a request, the demands of it and those after it.
	later [][]int32

	// What follows is room to work in.
	open      []opening
	possible  []*alternative
	covered   []opening
	sized     []opening
	crowd     []opening
	narrowed  []opening
	differ    *bitset.BitSet
	supports  []support
	prospects []prospect
	unions    []*bitset.BitSet
	scratch   *bitset.BitSet
	matching  matching
	blamed    blamed
}

// claimConstraint is the position of a constraint.
type claimConstraint struct{ claim, position int }

// foresee prepares for a search that looks ahead, from its root.
func (s *search) foresee() {
	f := &foresight{scratch: bitset.New(uint(len(s.in.devices))), errorsAt: bitset.New(uint(len(s.in.devices)))}
	s.foresight = f
	f.dead = make([]bool, len(s.in.alternatives))
	f.number(s)
	f.addDemands(s)
	f.addComponents(s)
	f.addSizes()
	f.addDangers(s)
	f.addTwins(s)
	f.addLater(s)
	f.addRisks(s)
	f.addValues(s)
	f.matching.prepare(s)
	for d := range f.demands {
		s.recheckAll(&f.demands[d], f.demands[d].viable)
	}
	s.dropUnsupported()
}

// number gives requests their positions.
func (f *foresight) number(s *search) {
	for c := range s.in.problem.claims {
		f.positions = append(f.positions, len(f.requests))
		requests := s.in.problem.claims[c].requests
		for r := range requests {
			f.requests = append(f.requests, &requests[r])
		}
	}
}

func (f *foresight) position(alt *alternative) int { return f.positions[alt.claim] + alt.request }

// left reports whether a request has not been left out.
func (s *search) left(position int) bool {
	alt := s.foresight.requests[position].alternatives[0]
	return !s.omitted.request(alt.claim, alt.request)
}

// addLater lists what is demanded from each request on.
func (f *foresight) addLater(s *search) {
	f.later = make([][]int32, len(f.requests)+1)
	seen := bitset.New(uint(len(f.demands)))
	for p := len(f.requests) - 1; p >= 0; p-- {
		f.later[p] = f.later[p+1][:len(f.later[p+1]):len(f.later[p+1])]
		if !s.left(p) {
			continue
		}
		for _, alt := range f.requests[p].alternatives {
			if d := f.demandOf[alt.id]; !seen.Test(uint(d)) {
				seen.Set(uint(d))
				f.later[p] = append(f.later[p], d)
			}
		}
	}
}

func (f *foresight) addRisks(s *search) {
	f.atRisk = make([]bool, len(s.in.problem.claims))
	for c := range f.atRisk {
		most := 0
		for _, r := range s.in.problem.claims[c].requests {
			largest := 0
			for _, alt := range r.alternatives {
				largest = max(largest, s.in.alternatives[alt.id].needed)
			}
			most += largest
		}
		f.atRisk[c] = most > resourceapi.AllocationResultsMaxSize
	}
}
