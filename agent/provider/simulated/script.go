// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"fmt"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// Annotations of pods that override the script. Values are durations in Go's format, and an exit
// code from 0 to 255.
const (
	AnnotationStartAfter = "simulated.dray.dev/start-after"
	AnnotationRunFor     = "simulated.dray.dev/run-for"
	AnnotationExitCode   = "simulated.dray.dev/exit-code"
)

// Script has rules for pods. The first rule whose labels match applies.
type Script struct {
	Rules []Rule `json:"rules,omitempty"`
}

// Rule says how pods with these labels behave. Without labels, it matches all pods.
type Rule struct {
	Labels map[string]string `json:"labels,omitempty"`
	// StartAfter is the time from the creation of a pod until its containers run.
	StartAfter metav1.Duration `json:"startAfter,omitempty"`
	// RunFor is how long the containers run. 0 stands for no limit.
	RunFor metav1.Duration `json:"runFor,omitempty"`
	// ExitCode is the exit code of the containers after RunFor, from 0 to 255.
	ExitCode int32 `json:"exitCode,omitempty"`
	// EndAfter is the time from the deletion of a pod until its containers have ended.
	EndAfter metav1.Duration `json:"endAfter,omitempty"`
}

// ReadScript reads a script from a YAML file.
func ReadScript(path string) (*Script, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	script := &Script{}
	if err := yaml.UnmarshalStrict(content, script); err != nil {
		return nil, fmt.Errorf("read script: %s: %w", path, err)
	}
	for i := range script.Rules {
		if err := script.Rules[i].validate(); err != nil {
			return nil, fmt.Errorf("read script: %s: rules[%d]: %w", path, i, err)
		}
	}
	return script, nil
}

func (r *Rule) validate() error {
	for name, d := range map[string]time.Duration{"startAfter": r.StartAfter.Duration, "runFor": r.RunFor.Duration, "endAfter": r.EndAfter.Duration} {
		if d < 0 {
			return fmt.Errorf("%s: %s: must not be negative", name, d)
		}
	}
	if r.ExitCode < 0 || r.ExitCode > 255 {
		return fmt.Errorf("exitCode: %d: must be from 0 to 255", r.ExitCode)
	}
	return nil
}

// ruleFor returns the rule for a pod, with its annotations applied. Errors are of the class
// InvalidInput.
func (s *Script) ruleFor(pod *corev1.Pod) (Rule, error) {
	var rule Rule
	for _, candidate := range s.Rules {
		if labels.SelectorFromSet(candidate.Labels).Matches(labels.Set(pod.Labels)) {
			rule = candidate
			break
		}
	}
	for annotation, d := range map[string]*metav1.Duration{AnnotationStartAfter: &rule.StartAfter, AnnotationRunFor: &rule.RunFor} {
		if text, ok := pod.Annotations[annotation]; ok {
			parsed, err := time.ParseDuration(text)
			if err != nil {
				return rule, errdefs.InvalidInputf("annotation %s: %q is no duration", annotation, text)
			}
			d.Duration = parsed
		}
	}
	if text, ok := pod.Annotations[AnnotationExitCode]; ok {
		code, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return rule, errdefs.InvalidInputf("annotation %s: %q is no number", AnnotationExitCode, text)
		}
		rule.ExitCode = int32(code)
	}
	if err := rule.validate(); err != nil {
		return rule, errdefs.AsInvalidInput(fmt.Errorf("annotations: %w", err))
	}
	return rule, nil
}
