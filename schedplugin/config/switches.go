// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// Switches can be turned off while the scheduler runs, in the file that DrayArgs.SwitchesFile names. A switch
// that is not set is on.
type Switches struct {
	// SetAside counts the devices that a pod nominated to the node will get as in use for other pods. Without
	// it, others may take these devices once the victims have left.
	SetAside *bool `json:"setAside,omitempty"`
	// Preemption lets pods and groups of higher priority preempt others for their devices. Without it, pods
	// are preempted for other resources only.
	Preemption *bool `json:"preemption,omitempty"`
}

// switchesPeriod is how often the file is read. The kubelet updates a mounted ConfigMap less often.
const switchesPeriod = 5 * time.Second

// SwitchFile has the current Switches. It is safe for concurrent use.
type SwitchFile struct {
	path    string
	current atomic.Pointer[Switches]
	mu      sync.Mutex // held by Reread
	// failed is the last error that was logged.
	failed string
}

// OpenSwitches reads the file. If it does not exist, everything is on. It is an error if the file cannot be
// read or parsed.
func OpenSwitches(path string) (*SwitchFile, error) {
	s, read := &SwitchFile{path: path}, &Switches{}
	if path != "" {
		var err error
		if read, err = readSwitches(path); err != nil {
			return nil, err
		}
	}
	s.current.Store(read)
	return s, nil
}

func readSwitches(file string) (*Switches, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &Switches{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("switches: %w", err)
	}
	read := &Switches{}
	if err := yaml.UnmarshalStrict(raw, read); err != nil {
		return nil, fmt.Errorf("switches in %s: %w", file, err)
	}
	return read, nil
}

// Follow reads the file again every few seconds until the context ends. Without a file it
// returns at once.
func (s *SwitchFile) Follow(ctx context.Context) {
	if s.path != "" {
		wait.UntilWithContext(ctx, func(ctx context.Context) { s.Reread(klog.FromContext(ctx)) }, switchesPeriod)
	}
}

// Reread reads the file once. If it cannot be read or parsed, the error is logged, and the switches stay. It
// is safe for concurrent use.
func (s *SwitchFile) Reread(logger klog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	read, err := readSwitches(s.path)
	if err != nil {
		if s.failed != err.Error() {
			logger.Error(err, "Switches stay as they are")
		}
		s.failed = err.Error()
		return
	}
	s.failed = ""
	if before := s.current.Swap(read); before.String() != read.String() {
		logger.Info("Switches changed", "before", before.String(), "now", read.String())
	}
}

// String implements fmt.Stringer.
func (s *Switches) String() string {
	return fmt.Sprintf("setAside=%v preemption=%v", ptr.Deref(s.SetAside, true), ptr.Deref(s.Preemption, true))
}

// SetAside is Switches.SetAside.
func (s *SwitchFile) SetAside() bool { return ptr.Deref(s.current.Load().SetAside, true) }

// Preemption is Switches.Preemption.
func (s *SwitchFile) Preemption() bool { return ptr.Deref(s.current.Load().Preemption, true) }
