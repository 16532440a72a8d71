// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
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

// manifestExtensions are the extensions of files that are read in folders. A file that is named
// explicitly may have any extension.
var manifestExtensions = []string{".yaml", ".yml", ".json"}

type source struct {
	name string
	open func() (io.ReadCloser, error)
	// found says that the file was found in a folder.
	found bool
}

// sources returns the files that paths stand for: files in the given order, folders recursively in
// lexical order. skipped has files in folders that cannot be read.
func sources(paths []string, stdin io.Reader) (all []source, skipped []error, err error) {
	for _, path := range paths {
		found, passedOver, err := sourcesAt(path, stdin)
		if err != nil {
			return nil, nil, err
		}
		all, skipped = append(all, found...), append(skipped, passedOver...)
	}
	return all, skipped, nil
}

func sourcesAt(path string, stdin io.Reader) (found []source, skipped []error, err error) {
	if path == Stdin {
		return []source{{name: "stdin", open: func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }}}, nil, nil
	}
	stat, err := os.Stat(path)
	if err != nil {
		return nil, nil, named(path, err)
	}
	if !stat.IsDir() {
		return []source{file(path)}, nil, nil
	}
	found, skipped, err = folder(path)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: folder has no %s file", path, strings.Join(manifestExtensions, ", "))
	}
	return found, skipped, err
}

func folder(root string) (found []source, skipped []error, err error) {
	// With the separator, a root that is a link is followed.
	err = filepath.WalkDir(root+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return named(path, err)
		}
		if entry.IsDir() || !slices.Contains(manifestExtensions, filepath.Ext(path)) {
			return nil
		}
		// Stat follows symbolic links. Named pipes are skipped, since opening one would block.
		stat, err := os.Stat(path)
		switch {
		case err != nil:
			skipped = append(skipped, fmt.Errorf("%s: skipped: %w", path, errors.Unwrap(err)))
		case stat.IsDir():
			skipped = append(skipped, fmt.Errorf("%s: skipped: a link to a folder", path))
		case !stat.Mode().IsRegular():
			skipped = append(skipped, fmt.Errorf("%s: skipped: not a regular file", path))
		default:
			one := file(path)
			one.found = true
			found = append(found, one)
		}
		return nil
	})
	return found, skipped, err
}

// named returns an error about the file at path, without the name of the system call.
func named(path string, err error) error {
	if located, ok := errors.AsType[*fs.PathError](err); ok {
		path, err = located.Path, located.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func file(path string) source {
	return source{name: path, open: func() (io.ReadCloser, error) { return os.Open(path) }}
}

func (s source) read() ([]byte, error) {
	reader, err := s.open()
	if err != nil {
		return nil, named(s.name, err)
	}
	var content bytes.Buffer
	if regular, isFile := reader.(*os.File); isFile {
		// allocate once, so that a large file is not copied while it is read
		if stat, err := regular.Stat(); err == nil && stat.Mode().IsRegular() {
			content.Grow(int(stat.Size()) + bytes.MinRead)
		}
	}
	_, err = content.ReadFrom(reader)
	if err = errors.Join(err, reader.Close()); err != nil {
		return nil, named(s.name, err)
	}
	return content.Bytes(), nil
}
