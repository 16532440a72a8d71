package cli

import (
	"io"
	"os"
)

// written is an output that remembers the first error of writing to it: text for people is
// printed in many places, none of which looks.
type written struct {
	out io.Writer
	err error
}

// Write implements io.Writer.
func (w *written) Write(content []byte) (int, error) {
	n, err := w.out.Write(content)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

// Fd is the file that is written to, which may be a terminal, or no file.
func (w *written) Fd() uintptr {
	if file, ok := w.out.(*os.File); ok {
		return file.Fd()
	}
	return ^uintptr(0)
}
