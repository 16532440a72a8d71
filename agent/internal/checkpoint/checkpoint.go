// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checkpoint stores the state of a process in a file, which is replaced atomically and has
// a checksum.
package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// DamagedError says that a checkpoint's content is not what Write wrote.
type DamagedError struct {
	Path   string
	Reason string
}

func (err *DamagedError) Error() string {
	return fmt.Sprintf("checkpoint %s: damaged: %s", err.Path, err.Reason)
}

// file is the content of a checkpoint file.
type file struct {
	// Checksum is the SHA-256 of the bytes of Content, in hexadecimal.
	Checksum string          `json:"checksum"`
	Content  json.RawMessage `json:"content"`
}

func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Read returns what was last written, or the zero value if the file does not exist. If the content
// is not what Write wrote, the error is a *DamagedError.
func Read[T any](path string) (T, error) {
	var out, none T
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read checkpoint: %w", err)
	}
	var stored file
	if err := json.Unmarshal(text, &stored); err != nil {
		return none, &DamagedError{path, err.Error()}
	}
	if checksum(stored.Content) != stored.Checksum {
		return none, &DamagedError{path, "its checksum does not match"}
	}
	if err := json.Unmarshal(stored.Content, &out); err != nil {
		return none, &DamagedError{path, err.Error()}
	}
	return out, nil
}

// Write replaces the file atomically, even if the machine crashes. The content is encoded as JSON.
func Write(path string, content any) error {
	encoded, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	text, err := json.Marshal(file{Checksum: checksum(encoded), Content: encoded})
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	if err := replaceFile(path, text); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return nil
}

func replaceFile(path string, content []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// syncFolder syncs a folder, so that a rename survives a crash of the machine.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
