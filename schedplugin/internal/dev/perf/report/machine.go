// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// machine says on what, and when.
type machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	Go    string `json:"go"`
	Date  string `json:"date"`
	// Load is the load average when the report was written, as Linux tells it.
	Load string `json:"load,omitempty"`
}

func thisMachine() machine {
	m := machine{CPU: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(), Date: time.Now().UTC().Format(time.DateOnly)}
	if facts, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.SplitSeq(string(facts), "\n") {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		if fields := strings.Fields(string(load)); len(fields) > 2 {
			m.Load = strings.Join(fields[:3], " ")
		}
	}
	return m
}

// String is for the page.
func (m machine) String() string {
	text := fmt.Sprintf("%s, %d cores, %s, %s", m.CPU, m.Cores, m.Go, m.Date)
	if m.Load != "" {
		text += "; load averages at the end: " + m.Load
	}
	return text
}
