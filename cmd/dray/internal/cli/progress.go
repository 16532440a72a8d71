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

// progressDelay is how long a command runs before it shows progress.
const progressDelay = time.Second

// redraw is the minimum time between updates of the display.
const redraw = 100 * time.Millisecond

// progress shows the progress of a command that takes longer than progressDelay. It is updated even
// while one step takes long.
type progress struct {
	title string
	total int // number of steps; -1 if unknown
	taken atomic.Int64
	stop  chan struct{} // nil if the output is no terminal
	ended chan struct{}
	// drawing is held while the bar is drawn, or something else is printed.
	drawing sync.Mutex
	bar     *progressbar.ProgressBar // nil before progressDelay has passed
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
	case <-time.After(progressDelay):
	}
	p.drawing.Lock()
	p.bar = progressbar.NewOptions(p.total,
		progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(p.title), progressbar.OptionSetElapsedTime(true),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false))
	p.drawing.Unlock()
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for {
		// an error of the bar is one of its writer, which cannot be reported there
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

// aside hides the bar while show prints something else.
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
