//go:build !impatient

package allocator

// How many steps a search that looks ahead takes before it does more about its failures than
// try the next choice. The build tag impatient is for tests: they reach what else happens only
// after a long time.
const (
	// patience is how many there are before it probes, if there is something to probe.
	patience = 200
	// longPatience is how many there are before it looks at some requests alone.
	longPatience = 2000
	// minPause is how many pass at least between two such looks.
	minPause = 500
	// lookShare is which part of the steps since the last look a look may take.
	lookShare = 4
	// worthNoting is how many a failure must have taken to be remembered.
	worthNoting = 8
)
