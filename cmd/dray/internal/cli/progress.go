// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// patience is how long a command may take before it shows progress.
const patience = time.Second

// redraw is how often progress is shown at most.
const redraw = 100 * time.Millisecond

// progress shows how far a command is, to a person who has waited for a while. It does so
// even if a single step takes long.
type progress struct {
	title string
	total int // steps, -1 if unknown
	taken atomic.Int64
	stop  chan struct{} // nil if nobody watches
	ended chan struct{}
	// drawing is held while something is drawn, or printed beside it.
	drawing sync.Mutex
	bar     *progressbar.ProgressBar // nil before patience is over
}

func newProgress(out io.Writer, title string, total int) *progress {
	p := &progress{title: title, total: total}
	if render.IsTerminal(out) {
		p.stop, p.ended = make(chan struct{}), make(chan struct{})
		go p.show(out)
	}
	return p
}

func (p *progress) show(out io.Writer) {
	defer close(p.ended)
	select {
	case <-p.stop:
		return
	case <-time.After(patience):
	}
	p.drawing.Lock()
	p.bar = progressbar.NewOptions(p.total,
		progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(p.title), progressbar.OptionSetElapsedTime(true),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false))
	p.drawing.Unlock()
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for {
		// The bar fails only if its writer does, and then there is nobody to tell.
		p.drawing.Lock()
		_ = p.bar.Set64(p.taken.Load())
		p.drawing.Unlock()
		select {
		case <-p.stop:
			_ = p.bar.Finish()
			return
		case <-ticker.C:
		}
	}
}

func (p *progress) step() { p.taken.Add(1) }

// aside prints something else while the bar is not there.
func (p *progress) aside(show func()) {
	p.drawing.Lock()
	defer p.drawing.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	show()
}

// done removes the bar.
func (p *progress) done() {
	if p.stop != nil {
		close(p.stop)
		<-p.ended
	}
}
