// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispec "tags.cncf.io/container-device-interface/specs-go"
)

// Files are the CDI files of one owner in one directory. Methods may be called
// concurrently. Two processes must not be the same owner in the same directory.
type Files struct {
	dir   string
	owner string
	cache *cdi.Cache // validates, and writes atomically

	mu sync.Mutex // serializes changes of the directory
}

const extension = ".json"

// Open returns the files of owner in dir. The directory is created by the first
// Write. An owner is anything but the empty string, such as the name of a
// driver or the namespace of a device plugin.
func Open(dir, owner string) (*Files, error) {
	if owner == "" {
		return nil, errors.New("open CDI files: owner is empty")
	}
	// A cache that does not refresh itself reads the directory once and starts
	// no goroutine.
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, fmt.Errorf("open CDI files in %s: %w", dir, err)
	}
	return &Files{dir: dir, owner: owner, cache: cache}, nil
}

// Write makes spec the content of the file of key. Runtimes see the old content
// or the new one, never a part. A file that has this content already is left
// alone. If spec has no version, the lowest one that has all that spec uses is
// written, which is what the oldest runtimes understand.
//
// It is an error if spec is not valid CDI. The file then stays as it was.
func (f *Files) Write(key string, spec *cdispec.Spec) error {
	versioned := *spec
	if versioned.Version == "" {
		version, err := cdispec.MinimumRequiredVersion(spec)
		if err != nil {
			return fmt.Errorf("write CDI file of %s: %w", key, err)
		}
		versioned.Version = version
	}
	content, err := json.Marshal(&versioned)
	if err != nil {
		return fmt.Errorf("write CDI file of %s: %w", key, err)
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if existing, err := os.ReadFile(f.Path(key)); err == nil && bytes.Equal(existing, content) {
		return nil
	}
	if err := f.cache.WriteSpec(&versioned, f.name(key)); err != nil {
		return fmt.Errorf("write CDI file of %s: %w", key, err)
	}
	return nil
}

// Remove removes the file of key. It is no error if there is none.
func (f *Files) Remove(key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.cache.RemoveSpec(f.name(key)); err != nil {
		return fmt.Errorf("remove CDI file of %s: %w", key, err)
	}
	return nil
}

// Keys are the keys of all files of the owner, also those that an earlier
// process wrote, in the order of file names.
func (f *Files) Keys() ([]string, error) {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list CDI files: %w", err)
	}
	var keys []string
	for _, entry := range entries {
		if key, ok := f.keyOf(entry.Name()); ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Path is where the file of key is, whether it exists or not.
func (f *Files) Path(key string) string { return filepath.Join(f.dir, f.name(key)) }

func (f *Files) name(key string) string { return f.prefix() + escape(key) + extension }

func (f *Files) prefix() string { return escape(f.owner) + "_" }

func (f *Files) keyOf(name string) (string, bool) {
	name, ours := strings.CutPrefix(name, f.prefix())
	if !ours {
		return "", false
	}
	escaped, ours := strings.CutSuffix(name, extension)
	if !ours {
		return "", false
	}
	key, err := url.PathUnescape(escaped)
	return key, err == nil && escape(key) == escaped
}

// escape makes one part of a file name. What separates the parts is escaped,
// too, so that no two owners share a file.
func escape(part string) string {
	return strings.ReplaceAll(url.PathEscape(part), "_", "%5F")
}

// QualifiedNames are the names by which runtimes know the devices of spec:
// vendor/class=name.
func QualifiedNames(spec *cdispec.Spec) []string {
	names := make([]string, len(spec.Devices))
	for i, device := range spec.Devices {
		names[i] = spec.Kind + "=" + device.Name
	}
	return names
}
