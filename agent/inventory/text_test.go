// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestTaintValue(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"EccErrors":                            "EccErrors",
		"ecc.errors-2_bits":                    "ecc.errors-2_bits",
		"ECC error: 2 bits":                    "ECC-error-2-bits",
		"  (hot!)  ":                           "hot",
		"-.-":                                  "",
		"überhitzt":                            "berhitzt",
		"\xff\x00\n":                           "",
		strings.Repeat("a", 64):                strings.Repeat("a", 63),
		strings.Repeat("a", 62) + " bc":        strings.Repeat("a", 62),
		strings.Repeat("a", 61) + "__________": strings.Repeat("a", 61),
	} {
		if got := TaintValue(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestConditionReason(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "Unhealthy",
		"EccErrors":               "EccErrors",
		"ecc:errors,2_":           "ecc:errors,2_",
		"ECC error: 2 bits":       "ECC_error:_2_bits",
		"2 bits":                  "Unhealthy",
		"?!":                      "Unhealthy",
		"too hot!":                "too_hot",
		strings.Repeat("a", 2000): strings.Repeat("a", 1024),

		strings.Repeat("a", 1023) + "_": strings.Repeat("a", 1023) + "_", // the longest that is valid
		strings.Repeat("a", 1024) + "_": strings.Repeat("a", 1024),
	} {
		if got := ConditionReason(text, "Unhealthy"); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestAnyTextIsValid compares with the validation of the API server. Texts are random, of
// characters that are allowed somewhere and of some that are not.
func TestAnyTextIsValid(t *testing.T) {
	alphabet := []string{"a", "Z", "0", "-", "_", ".", ",", ":", " ", "/", "\n", "\x00", "ü", "\xff", "\x1b[2J"}
	random := rand.New(rand.NewPCG(1, 2))
	texts := 20_000
	if testing.Short() {
		texts = 1000
	}
	for range texts {
		var b strings.Builder
		length := random.IntN(12)
		if random.IntN(50) == 0 {
			length = random.IntN(40_000)
		}
		for range length {
			b.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		text := b.String()
		if problems := validation.IsValidLabelValue(TaintValue(text)); len(problems) > 0 {
			t.Fatalf("%q becomes the taint's value %q: %q", text, TaintValue(text), problems)
		}
		condition := metav1.Condition{
			Type: "Healthy", Status: metav1.ConditionFalse, LastTransitionTime: metav1.Now(),
			Reason: ConditionReason(text, "Unhealthy"), Message: ConditionMessage(text),
		}
		if problems := metavalidation.ValidateCondition(condition, field.NewPath("condition")); len(problems) > 0 || !utf8.ValidString(condition.Message) {
			t.Fatalf("%q becomes the condition %v: %v", text, condition, problems)
		}
	}
}
