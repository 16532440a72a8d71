// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alike

import (
	"sync"
	"testing"

	"github.com/puzpuzpuz/xsync/v4"
)

// Goroutines that add at the same time do not make more be remembered than there may be.
func TestAnswersAreBounded(t *testing.T) {
	const workers, maxAnswers = 4, 1 << 10
	answers := &kind{answers: xsync.NewMap[uint32, *Answer]()}
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range maxAnswers {
				state := uint32(w*maxAnswers + i + 1)
				answers.remember(state, new(Answer), maxAnswers)
				answers.known(state)
			}
		})
	}
	group.Wait()
	if n := answers.answers.Size(); n == 0 || n > maxAnswers+workers {
		t.Errorf("%d answers are remembered, of %d", n, maxAnswers)
	}
}
