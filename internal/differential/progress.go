package differential

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Progress returns a function that says on a terminal every two seconds, elsewhere
// every thirty, how far a run of so many cases is.
func Progress(w io.Writer, cases int) func(*Report) {
	pause, end := 30*time.Second, "\n"
	if isTerminal(w) {
		pause, end = 2*time.Second, "\r"
	}
	start := time.Now()
	next := start.Add(pause)
	return func(r *Report) {
		if now := time.Now(); now.After(next) {
			next = now.Add(pause)
			fmt.Fprintf(w, "%d of %d cases, %d disagreements, %d per second  %s",
				r.Cases, cases, r.Disagreements, int(float64(r.Cases)/now.Sub(start).Seconds()), end)
		}
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	stat, err := file.Stat()
	return err == nil && stat.Mode()&os.ModeCharDevice != 0
}
