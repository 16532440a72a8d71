package cli

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// patience is how long a command may take before it shows progress.
const patience = time.Second

// redraw is how often progress is shown at most.
const redraw = 100 * time.Millisecond

// progress shows how far a command is, to a person who has waited for a while.
type progress struct {
	out     io.Writer
	title   string
	total   int // steps, -1 if unknown
	taken   int
	started time.Time
	bar     *progressbar.ProgressBar
}

func newProgress(out io.Writer, title string, total int) *progress {
	return &progress{out: out, title: title, total: total, started: time.Now()}
}

func (p *progress) step() {
	p.taken++
	if p.bar == nil {
		if time.Since(p.started) < patience || !render.IsTerminal(p.out) {
			return
		}
		p.bar = progressbar.NewOptions(p.total,
			progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(p.title),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(redraw), progressbar.OptionSetPredictTime(false))
	}
	// The bar fails only if its writer does, and then there is nobody to tell.
	_ = p.bar.Set(p.taken)
}

// done removes the bar.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
