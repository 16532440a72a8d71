package differential

import "github.com/dray-project/dray/alloctest"

// Class is the kind of answer that an allocator gives.
type Class string

// Errors that concern only the node are a class of their own.
const (
	Satisfiable   Class = "satisfiable"
	Unsatisfiable Class = "unsatisfiable"
	Failed        Class = "error"
	FailedOnNode  Class = "node error"
)

// ClassOf classifies an outcome.
func ClassOf(o alloctest.Outcome) Class {
	switch {
	case o.Err != nil && o.NodeOnly:
		return FailedOnNode
	case o.Err != nil:
		return Failed
	case o.Results != nil:
		return Satisfiable
	}
	return Unsatisfiable
}
