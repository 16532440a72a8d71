//go:build impatient

package allocator

// The same as in pace.go for a search that does everything at once.
const (
	patience     = 1
	longPatience = 2
	minPause     = 4
	lookShare    = 1
	worthNoting  = 1
)
