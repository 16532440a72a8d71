package alike

import (
	"encoding/binary"
	"sync"
	"testing"
)

// What is remembered does not depend on the bytes of the signature staying as they are.
func TestAnswersKeepTheirKeys(t *testing.T) {
	answers, signature, known := newAnswers(), []byte("signature"), new(Answer)
	answers.add(signature, known)
	if answers.get(signature) != known {
		t.Error("the answer is not there")
	}
	signature[0] = 'x'
	if answers.get(signature) != nil || answers.get([]byte("signature")) != known {
		t.Error("the answer went with the bytes")
	}
}

// Goroutines that add at the same time do not make more be remembered than there may be.
func TestAnswersAreBounded(t *testing.T) {
	const workers = 4
	answers := newAnswers()
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range maxAnswers {
				signature := binary.LittleEndian.AppendUint32(nil, uint32(w*maxAnswers+i))
				answers.add(signature, new(Answer))
				answers.get(signature)
			}
		})
	}
	group.Wait()
	if n := answers.known.Size(); n == 0 || n > maxAnswers+workers {
		t.Errorf("%d answers are remembered, of %d", n, maxAnswers)
	}
}
