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
	"tags.cncf.io/container-device-interface/pkg/parser"
	cdispec "tags.cncf.io/container-device-interface/specs-go"
)

// Files manages the CDI files of one owner in one directory. Methods may be called concurrently.
// Two processes must not be the same owner in the same directory.
type Files struct {
	dir   string
	owner string
	cache *cdi.Cache // validates, and writes atomically

	mu sync.Mutex // serializes changes of the directory
}

const extension = ".json"

// Open returns the files of owner in dir. The directory is created by the first Write. The owner is
// a non-empty string, such as the name of a driver or the namespace of a device plugin.
func Open(dir, owner string) (*Files, error) {
	if owner == "" {
		return nil, errors.New("open CDI files: owner is empty")
	}
	// Without auto-refresh, the cache reads the directory once and starts no goroutine.
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, fmt.Errorf("open CDI files in %s: %w", dir, err)
	}
	return &Files{dir: dir, owner: owner, cache: cache}, nil
}

// Write writes spec to the file of key, atomically. It does not touch a file that has this content
// already. If spec has no version, it gets the lowest one that supports what it uses, so that old
// runtimes can read it.
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

// Remove removes the file of key. It is no error if the file does not exist.
func (f *Files) Remove(key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.cache.RemoveSpec(f.name(key)); err != nil {
		return fmt.Errorf("remove CDI file of %s: %w", key, err)
	}
	return nil
}

// Keys returns the keys of all files of the owner, including those of an earlier process, sorted by
// file name.
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

// Path returns the path of the file of key, whether the file exists or not.
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

// escape returns text as one part of a file name. It also escapes the separator of the parts, so
// that two owners never share a file.
func escape(part string) string {
	return strings.ReplaceAll(url.PathEscape(part), "_", "%5F")
}

// Kind returns the kind of the CDI devices of a driver, vendor and class. CDI wants both to begin with
// a letter. A driver, or a type of devices, whose name begins with a digit gets a prefix, with a
// character that no driver has in its name.
func Kind(driver, class string) string {
	return named(driver, "dra_") + "/" + named(class, "type_")
}

func named(name, prefix string) string {
	if parser.ValidateVendorName(name) != nil { // CDI has the same rule for classes
		return prefix + name
	}
	return name
}

// QualifiedNames returns the names of spec's devices: vendor/class=name.
func QualifiedNames(spec *cdispec.Spec) []string {
	names := make([]string, len(spec.Devices))
	for i, device := range spec.Devices {
		names[i] = spec.Kind + "=" + device.Name
	}
	return names
}
