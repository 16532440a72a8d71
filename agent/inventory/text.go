// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The functions of this file convert any text, for instance from hardware, to text that the API
// server accepts. Otherwise, one invalid text would prevent the whole write: the other devices, and
// the taint itself.

// TaintValue converts any text to a valid label value. A valid one is unchanged. Otherwise, each
// run of invalid characters becomes a dash, the ends are trimmed, and the text is truncated: "ECC
// error: 2 bits" becomes "ECC-error-2-bits". The result may be empty.
func TaintValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	value := strings.TrimLeft(notInLabelValues.ReplaceAllString(text, "-"), labelEnds)
	return strings.TrimRight(value[:min(len(value), validation.LabelValueMaxLength)], labelEnds)
}

var notInLabelValues = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// labelEnds are characters that are valid only inside a label value.
const labelEnds = "-_."

// ConditionReason converts any text to a valid reason of a condition. A valid one is unchanged.
// Otherwise, each run of invalid characters becomes an underscore, the ends are trimmed, and the
// text is truncated. If nothing remains that begins with a letter, the result is fallback.
func ConditionReason(text, fallback string) string {
	if len(text) <= maxReason && len(metavalidation.IsValidConditionReason(text)) == 0 {
		return text
	}
	reason := strings.TrimLeft(notInReasons.ReplaceAllString(text, "_"), reasonEnds)
	reason = strings.TrimRight(reason[:min(len(reason), maxReason)], reasonEnds)
	if len(metavalidation.IsValidConditionReason(reason)) > 0 {
		return fallback
	}
	return reason
}

var notInReasons = regexp.MustCompile(`[^A-Za-z0-9_,:]+`)

// reasonEnds are trimmed at the ends of a converted reason.
const reasonEnds = "_,:"

// maxReason and maxMessage are the API server's limits for the reason and the message of a
// condition, in bytes.
const (
	maxReason  = 1024
	maxMessage = 32768
)

// ConditionMessage converts any text to a valid message of a condition. It removes invalid UTF-8,
// and truncates the text.
func ConditionMessage(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "")
}

// HealthMessage converts any text to a valid message of a device's health for kubelet.
func HealthMessage(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= corev1.ResourceHealthMessageMaxLength {
		return text
	}
	return strings.ToValidUTF8(text[:corev1.ResourceHealthMessageMaxLength], "")
}
