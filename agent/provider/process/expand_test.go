package process

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCommandIsExpanded: variables see those before them, and commands see all.
func TestCommandIsExpanded(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "$(FIRST)"}}
	got, err := new(Provider).containerOf(pod, &corev1.Container{
		Command: []string{"run-$(SECOND)"}, Args: []string{"--later=$(LATER)", "$$(FIRST)"},
		Env: []corev1.EnvVar{
			{Name: "FIRST", Value: "1"}, {Name: "SECOND", Value: "$(FIRST)+$(LATER)"}, {Name: "LATER", Value: "2"},
			{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		},
	}, "host", nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"run-1+$(LATER)", "--later=2", "$(FIRST)"}; !slices.Equal(got.Args, want) {
		t.Errorf("command %q, want %q", got.Args, want)
	}
	if want := []string{"FIRST=1", "SECOND=1+$(LATER)", "LATER=2", "POD=$(FIRST)"}; !slices.Equal(got.Env[len(standard("")):], want) {
		t.Errorf("environment %q, want %q", got.Env, want)
	}
}
