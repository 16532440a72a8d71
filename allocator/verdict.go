package allocator

// Verdict is an Outcome without its particulars.
type Verdict uint8

const (
	// NoVerdict goes with an error.
	NoVerdict Verdict = iota
	// Satisfiable goes with an *Assignment.
	Satisfiable
	// NotSatisfiable goes with an *Unsatisfiable.
	NotSatisfiable
	// NotDecided goes with an *Undecided.
	NotDecided
)

// String returns the verdict in lower case.
func (v Verdict) String() string {
	return [...]string{"no verdict", "satisfiable", "not satisfiable", "not decided"}[v]
}

func verdictOf(o Outcome) Verdict {
	switch o.(type) {
	case *Assignment:
		return Satisfiable
	case *Unsatisfiable:
		return NotSatisfiable
	case *Undecided:
		return NotDecided
	}
	return NoVerdict
}

// Feasibility is what Feasible finds out.
type Feasibility struct {
	verdict Verdict
	answer  *answer
	stats   Stats
}

func feasibilityOf(o Outcome) Feasibility {
	if o == nil {
		return Feasibility{}
	}
	f := Feasibility{verdict: verdictOf(o), stats: o.Stats()}
	if none, ok := o.(*Unsatisfiable); ok {
		f.answer = none.answer
	}
	return f
}

// Verdict tells whether there are devices.
func (f Feasibility) Verdict() Verdict { return f.verdict }

// Stats tells what the answer cost. One that was known from another node cost nothing.
func (f Feasibility) Stats() Stats { return f.stats }

// Alike is that of the Unsatisfiable which Allocate would return. It is of no use for other
// verdicts.
func (f Feasibility) Alike() any { return f.answer }
