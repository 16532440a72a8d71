package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// manifestExtensions are what is read from a folder. A file that is named
// explicitly may have any extension.
var manifestExtensions = []string{".yaml", ".yml", ".json"}

type source struct {
	name string
	open func() (io.ReadCloser, error)
}

// sources lists what paths stand for: files in the order given, folders unfolded
// recursively in lexical order.
func sources(paths []string, stdin io.Reader) ([]source, error) {
	var all []source
	for _, path := range paths {
		found, err := sourcesAt(path, stdin)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func sourcesAt(path string, stdin io.Reader) ([]source, error) {
	if path == Stdin {
		return []source{{name: "stdin", open: func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }}}, nil
	}
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !stat.IsDir() {
		return []source{file(path)}, nil
	}
	found, err := folder(path)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: folder has no %s file", path, strings.Join(manifestExtensions, ", "))
	}
	return found, err
}

func folder(root string) ([]source, error) {
	var found []source
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() && slices.Contains(manifestExtensions, filepath.Ext(path)) {
			found = append(found, file(path))
		}
		return nil
	})
	return found, err
}

func file(path string) source {
	return source{name: path, open: func() (io.ReadCloser, error) { return os.Open(path) }}
}

func (s source) read() ([]byte, error) {
	reader, err := s.open()
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(reader)
	if err = errors.Join(err, reader.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return content, nil
}
