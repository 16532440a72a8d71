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

// The functions of this file make text that the API server accepts of text that
// somebody wrote, or that hardware said. A text that it refuses would keep it from
// storing all that is written together: the other devices, and the taint itself.

// TaintValue makes the value of a taint of any text. A valid label value stays as
// it is. In others, a dash stands for each run of characters that are not allowed,
// the ends are trimmed, and what is too long is cut off: "ECC error: 2 bits" becomes
// "ECC-error-2-bits". It is empty if nothing remains.
func TaintValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	value := strings.TrimLeft(notInLabelValues.ReplaceAllString(text, "-"), labelEnds)
	return strings.TrimRight(value[:min(len(value), validation.LabelValueMaxLength)], labelEnds)
}

var notInLabelValues = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// labelEnds may be inside a label value, but not at its ends.
const labelEnds = "-_."

// ConditionReason makes the reason of a condition of any text. A valid one stays as
// it is. In others, an underscore stands for each run of characters that are not
// allowed, the ends are trimmed, and what is too long is cut off. It is fallback if
// nothing remains that starts with a letter.
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

// reasonEnds are left out at the ends of a reason that is not taken as it is.
const reasonEnds = "_,:"

// maxReason and maxMessage are how many bytes of the reason and of the message of a
// condition the API server takes.
const (
	maxReason  = 1024
	maxMessage = 32768
)

// ConditionMessage makes the message of a condition of any text: what is not UTF-8
// is left out, and what is too long is cut off.
func ConditionMessage(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "")
}

// HealthMessage makes the message of a device's health for kubelet of any text, which the
// status of a pod has room for.
func HealthMessage(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= corev1.ResourceHealthMessageMaxLength {
		return text
	}
	return strings.ToValidUTF8(text[:corev1.ResourceHealthMessageMaxLength], "")
}
